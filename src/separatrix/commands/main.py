"""The entry point of the command `separatrix`, with a message if the extra `lab` is not installed."""

from __future__ import annotations

import sys

from separatrix.lab import interrupts


def main() -> None:
    """Run the command line, or exit with a message that names the missing extra; handle Ctrl-C at any moment."""
    interrupts.of_command()
    try:
        from separatrix.commands.app import app
    except ModuleNotFoundError as missing:
        if missing.name != "typer":
            raise
        sys.exit("separatrix: the command needs typer, which is not installed: pip install 'separatrix[lab]'")
    app(prog_name="separatrix")
