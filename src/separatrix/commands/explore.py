"""The command `explore`. Slow modules are imported when the command runs."""

from __future__ import annotations

from typing import Annotated

import typer

from separatrix.commands.ending import in_a_sentence
from separatrix.commands.options import RESULTS, StoreOption
from separatrix.errors import ArgumentError, SeparatrixError

HOST = "127.0.0.1"
PORT = 8050
SHORTEST_TOKEN = 16


class ExtraMissing(SeparatrixError):
    """The exit code if an extra is not installed."""


@in_a_sentence
def explore(
    host: Annotated[str, typer.Option(help="The host to listen on; by default only this machine.")] = HOST,
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 chooses a free port.")] = PORT,
    store: StoreOption = RESULTS,
    token: Annotated[
        str | None,
        typer.Option(
            help="The token that visitors need; by default a new random one. Other users of this machine can "
            "read it among the arguments of the process."
        ),
    ] = None,
    no_token: Annotated[
        bool,
        typer.Option(
            "--no-token",
            help="Do not require a token: every user and program of this machine has access. Not allowed with --host.",
        ),
    ] = False,
    show: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
) -> None:
    """Serve the explorer, an interactive page. Ctrl-C stops it."""
    import logging
    import secrets
    import webbrowser
    from contextlib import ExitStack

    _require_extra()
    from separatrix.explorer.app import make_app
    from separatrix.explorer.precompute import start_precomputing
    from separatrix.explorer.private_link import private_link
    from separatrix.explorer.server import Endpoint, bound, is_loopback, return_large_blocks
    from separatrix.lab.store import has_store

    if token is not None and len(token) < SHORTEST_TOKEN:
        raise ArgumentError("--token", expected=f"at least {SHORTEST_TOKEN} characters", got=f"{len(token)} of them")
    if no_token and token is not None:
        raise ArgumentError("--no-token", expected="no --token beside it", got="both")
    if no_token and not is_loopback(host):
        wanted = "a --host that only this machine can reach, because visitors can start and stop runs"
        raise ArgumentError("--no-token", expected=wanted, got=repr(host))
    if not no_token:
        token = token or secrets.token_urlsafe(24)
    has_store(store)  # raises an error if the folder cannot be read
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s")
    return_large_blocks()
    server, address = bound(make_app(store), Endpoint(host, port, token))
    typer.echo(f"The explorer: {address}")
    if token:
        typer.echo("The address contains the token that visitors need: open the whole address.")
    typer.echo("Ctrl-C stops it.")
    start_precomputing(store)
    with ExitStack() as ending:
        ending.callback(server.close)
        if show and not webbrowser.open(ending.enter_context(private_link(address))):
            typer.echo("separatrix: no browser could be started; open the address above yourself.", err=True)
        server.run()
    typer.echo("The explorer has stopped.")


def _require_extra() -> None:
    """Exit with a message if the extra is not installed."""
    from importlib.util import find_spec

    for name in ("dash", "waitress"):
        if find_spec(name) is None:
            raise ExtraMissing(f"explore needs {name}, which is not installed: pip install 'separatrix[explore]'")
