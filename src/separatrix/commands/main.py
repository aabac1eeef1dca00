"""Where the command `separatrix` starts; without the extra `lab` it says what is missing."""

from __future__ import annotations

import sys

from separatrix.lab import interrupts


def main() -> None:
    """Run the command line, or exit saying which extra it lacks; Ctrl-C ends it with a sentence at any moment."""
    interrupts.of_command()
    try:
        from separatrix.commands.app import app
    except ModuleNotFoundError as missing:
        if missing.name != "typer":
            raise
        sys.exit("separatrix: the command needs typer, which is not installed: pip install 'separatrix[lab]'")
    app(prog_name="separatrix")
