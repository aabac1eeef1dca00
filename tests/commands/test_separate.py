"""`separatrix separate`: the command that the explorer offers runs, and prints the same numbers."""

from __future__ import annotations

import shlex
from typing import Any

import pytest
from typer.testing import CliRunner

from separatrix.claims.formulas import readable
from separatrix.commands.app import app as command_line
from separatrix.explorer.separate import code as separate_code
from separatrix.explorer.separate import probabilities as separate_view
from separatrix.explorer.separate.fields import FIELDS

BY_NAME = {field.name: field for field in FIELDS}


def given_values(**changed: str) -> dict[str, Any]:
    """The values of the fields that differ from the defaults."""
    return {name: field.read(changed.get(name, field.default)) for name, field in BY_NAME.items()}


CASES = [
    {},
    {"weights": "identity", "n": "2e7", "d": "12", "a1": "0.5"},
    {"weights": "cross", "n": "10^100", "d": "11", "m": "9", "a1": "3"},
    {"mechanism": "softmax-0.5", "d": "7", "n": "123"},
    {"mechanism": "order3", "d": "5", "n": "6"},
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(case.values()) or "default")
def test_the_copied_command_runs_and_prints_the_same(case: dict[str, str]) -> None:
    values = given_values(**case)
    view = separate_view.look(values)
    words = shlex.split(separate_code.command(values))
    assert words[0] == "separatrix"
    finished = CliRunner().invoke(command_line, words[1:], env={"COLUMNS": "120"})
    assert finished.exit_code == 0
    parts = [(readable(what), probability) for what, _, probability in view.parts()]
    assert all(what in finished.output and probability in finished.output for what, probability in parts)
    assert "$" not in finished.output, "formulas are readable in a terminal"
    assert (separate_view.outside(view) or "satisfies every hypothesis") in finished.output.replace("\n", " ")


def test_a_bad_value_of_the_command_is_a_sentence() -> None:
    done = CliRunner().invoke(command_line, ["separate", "--n", "1e6", "--d", "2"])
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == "separatrix: d: expected a whole number from 3 to 102, got '2'.\n"
