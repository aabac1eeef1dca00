"""The command `explore`. What is slow to import is imported by the command that needs it."""

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
    """A command whose extra is not installed."""


@in_a_sentence
def explore(
    host: Annotated[str, typer.Option(help="Where to serve; this machine alone if left out.")] = HOST,
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes a free one.")] = PORT,
    store: StoreOption = RESULTS,
    token: Annotated[
        str | None,
        typer.Option(
            help="What a visitor must show; made anew for each start if none is given. Other users of this machine can "
            "read it among the arguments of the process.",
        ),
    ] = None,
    no_token: Annotated[
        bool,
        typer.Option("--no-token", help="Let in every user and program of this machine; not with another --host."),
    ] = False,
    show: Annotated[bool, typer.Option("--open", help="Show it in the browser.")] = False,
) -> None:
    """Serve the live page: what happens at your own numbers. Ctrl-C ends it."""
    import logging
    import secrets
    import webbrowser
    from contextlib import ExitStack

    _require_extra()
    from separatrix.explorer.app import make_app
    from separatrix.explorer.private_link import private_link
    from separatrix.explorer.server import Endpoint, bound, is_loopback, return_large_blocks
    from separatrix.explorer.warm import start_warming
    from separatrix.lab.store import has_store

    if token is not None and len(token) < SHORTEST_TOKEN:
        raise ArgumentError("--token", expected=f"at least {SHORTEST_TOKEN} characters", got=f"{len(token)} of them")
    if no_token and token is not None:
        raise ArgumentError("--no-token", expected="no --token beside it", got="both")
    if no_token and not is_loopback(host):
        wanted = "a --host that is this machine alone, since whoever is let in can start and stop runs"
        raise ArgumentError("--no-token", expected=wanted, got=host)
    if not no_token:
        token = token or secrets.token_urlsafe(24)
    has_store(store)  # it raises an error if the folder cannot be looked into
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s")
    return_large_blocks()
    server, address = bound(make_app(store), Endpoint(host, port, token))
    typer.echo(f"The explorer: {address}")
    if token:
        typer.echo("Only those who have the token in it are let in: open the whole address.")
    typer.echo("Ctrl-C ends it.")
    start_warming(store)
    with ExitStack() as ending:
        ending.callback(server.close)
        if show and not webbrowser.open(ending.enter_context(private_link(address))):
            typer.echo("separatrix: no browser could be started; open the address above in one.", err=True)
        server.run()
    typer.echo("The explorer has ended.")


def _require_extra() -> None:
    """Say which extra is missing before anything is made."""
    from importlib.util import find_spec

    for name in ("dash", "waitress"):
        if find_spec(name) is None:
            raise ExtraMissing(f"explore needs {name}, which is not installed: pip install 'separatrix[explore]'")
