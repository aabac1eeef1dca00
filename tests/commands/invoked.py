"""The command in the process of the test."""

from __future__ import annotations

from click.testing import Result
from typer.testing import CliRunner

from separatrix.commands.app import app


def invoke(*arguments: object, **environment: str) -> Result:
    """Run `separatrix` with these arguments, on a wide terminal without colours."""
    words = [str(argument) for argument in arguments]
    return CliRunner().invoke(app, words, env={"COLUMNS": "160", "NO_COLOR": "1", **environment})
