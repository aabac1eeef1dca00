"""`separatrix sat`: the lines that it prints, and its exit code."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from separatrix.commands.app import app
from separatrix.hardness import sat
from separatrix.hardness.cnf import planted_formula
from separatrix.hardness.dimacs import dimacs


def test_the_command(tmp_path: Path) -> None:
    formula, _ = planted_formula(22, 40, 3, 1)
    file = tmp_path / "planted.cnf"
    file.write_text(dimacs(formula))
    done = CliRunner().invoke(app, ["sat", str(file)])
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    assert lines[0] == "c CNF: 22 variables, 40 clauses"
    assert lines[3].startswith("c attention: 256 queries, 129 and 129 keys of width 160")
    assert "s SATISFIABLE" in lines
    values = [int(word) for line in lines if line.startswith("v ") for word in line.split()[1:]]
    assert [abs(value) for value in values] == [*range(1, 23), 0]
    assert formula.holds([value > 0 for value in values[:-1]])


def test_the_command_on_no_and_on_bad_input(tmp_path: Path) -> None:
    file = tmp_path / "no.cnf"
    file.write_text("p cnf 2 3\n1 0\n-1 2 0\n-2 0\n")
    done = CliRunner().invoke(app, ["sat", str(file), "--road", "protocol"])
    assert (done.exit_code, done.output.splitlines()[-1]) == (0, "s UNSATISFIABLE")
    file.write_text("p cnf 2 3\n1 0\n-1 2 0\n-2\n")
    done = CliRunner().invoke(app, ["sat", str(file)])
    assert done.exit_code == 2
    assert "line 4: expected a 0 that ends the last clause" in done.output
    done = CliRunner().invoke(app, ["sat", str(tmp_path / "none.cnf")])
    assert done.exit_code == 2
    assert done.output == f"separatrix: {tmp_path / 'none.cnf'} cannot be read: No such file or directory.\n"


@pytest.mark.parametrize(("clauses", "code"), [("1 0", 10), ("1 0\n-1 0", 20)])
def test_the_exit_code_of_solvers(tmp_path: Path, clauses: str, code: int) -> None:
    file = tmp_path / "any.cnf"
    file.write_text(f"p cnf 1 {clauses.count(' 0')}\n{clauses}\n")
    assert CliRunner().invoke(app, ["sat", str(file), "--exit-code"]).exit_code == code
    assert CliRunner().invoke(app, ["sat", str(file)]).exit_code == 0


@pytest.mark.parametrize("count", [19, 20, 21, 40])
def test_every_value_is_printed_once(tmp_path: Path, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    decision = sat.Decision(True, (True,) * count, ())
    monkeypatch.setattr(sat, "satisfiable", lambda file, road: decision)
    lines = CliRunner().invoke(app, ["sat", str(tmp_path / "any.cnf")]).output.splitlines()
    values = [int(word) for line in lines if line.startswith("v ") for word in line.split()[1:]]
    assert values == [*range(1, count + 1), 0]
