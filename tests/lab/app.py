"""The lab's commands as one program, for tests that need a separate process: `python -m tests.lab.app ...`."""

from __future__ import annotations

import typer

from separatrix.commands.claims import claims
from separatrix.commands.reproduce import reproduce
from separatrix.commands.store import store_app
from separatrix.commands.sweep import sweep

app = typer.Typer(pretty_exceptions_enable=False)
app.add_typer(store_app, name="store")
for command in (sweep, claims, reproduce):
    app.command()(command)

if __name__ == "__main__":
    app()
