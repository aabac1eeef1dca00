"""The help texts of the commands."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer.main

from docs._ext.ledger_pages import plain
from separatrix.commands.app import app


def commands() -> str:
    """A section for each command: what it does, its arguments and options."""
    subcommands = _walk("separatrix", typer.main.get_command(app))
    return "\n".join(line for path, command in subcommands for line in _section(path, command))


def _walk(path: str, command: Any) -> Iterator[tuple[str, Any]]:
    """The commands that have no subcommands. Their classes are typer's or click's, depending on the version."""
    inner = getattr(command, "commands", None)
    if inner is None:
        yield path, command
    else:
        for name in sorted(inner):
            yield from _walk(f"{path} {name}", inner[name])


def _section(path: str, command: Any) -> list[str]:
    context = command.context_class(command, info_name=path)
    usage = " ".join([path, *command.collect_usage_pieces(context)])
    lines = [f"## {path}", "", "```text", usage, "```", "", plain(" ".join((command.help or "").split())), ""]
    for parameter in command.params:
        described = plain(" ".join((getattr(parameter, "help", None) or "").split()))
        lines.append(f"- {_spelled(parameter)}: {described or 'see the usage'}")
    return [*lines, ""]


def _spelled(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return f"`{parameter.metavar or parameter.name.upper()}`"
    return ", ".join(f"`{spelling}`" for spelling in (*parameter.opts, *parameter.secondary_opts))
