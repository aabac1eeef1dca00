"""The door of the command `separatrix`: it opens without the extra `lab`, to say that it is missing."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line, or exit saying which extra it lacks."""
    try:
        from separatrix.commands import app
    except ModuleNotFoundError as missing:
        if missing.name != "typer":
            raise
        sys.exit("separatrix: the command needs typer, which is not installed: pip install 'separatrix[lab]'")
    app(prog_name="separatrix")
