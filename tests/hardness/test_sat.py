"""The whole chain: formulas decided by attention, against python-sat, with the reported sizes and checked input."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pysat.solvers import Cadical153

from separatrix import hardness
from separatrix.errors import ArgumentError
from separatrix.hardness import sat
from separatrix.hardness.cnf import Formula, planted_formula, random_formula
from separatrix.hardness.dimacs import dimacs
from separatrix.hardness.sat import chain_sizes, decide_formula

LITERALS = st.integers(-5, 5).filter(bool)
FORMULAS = st.lists(st.lists(LITERALS, max_size=3).map(tuple), max_size=9).map(
    lambda clauses: Formula(5, tuple(clauses))
)


def solvable(formula: Formula) -> bool:
    with Cadical153(bootstrap_with=[list(clause) for clause in formula.clauses if clause]) as solver:
        return all(formula.clauses) and bool(solver.solve())


@settings(max_examples=100, deadline=None)
@given(FORMULAS, st.sampled_from(["direct", "protocol"]))
def test_small_formulas_by_either_reduction(formula: Formula, road: str) -> None:
    decision = decide_formula(formula, road=road)
    assert bool(decision) == decision.satisfiable == solvable(formula)
    assert (decision.assignment is not None) == decision.satisfiable
    assert decision.assignment is None or formula.holds(decision.assignment)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("variables", "clauses"), [(13, 50), (15, 66), (18, 76), (18, 100)])
def test_larger_formulas(variables: int, clauses: int, seed: int) -> None:
    planted, _ = planted_formula(variables, clauses, 3, seed)
    decision = decide_formula(planted)
    assert decision.assignment is not None
    assert planted.holds(decision.assignment)
    drawn = random_formula(variables, clauses, 3, seed)
    assert bool(decide_formula(drawn)) == solvable(drawn)


@pytest.mark.parametrize("seed", range(3))
def test_larger_formulas_by_the_protocol(seed: int) -> None:
    planted, _ = planted_formula(9, 15, 3, seed)
    assert decide_formula(planted, road="protocol")
    drawn = random_formula(9, 45, 3, seed)
    assert bool(decide_formula(drawn, road="protocol")) == solvable(drawn)


def test_the_drawn_formulas_are_of_both_kinds() -> None:
    for formulas in (
        [random_formula(18, clauses, 3, seed) for clauses in (76, 100) for seed in range(3)],
        [random_formula(9, 45, 3, seed) for seed in range(3)],
    ):
        assert {solvable(formula) for formula in formulas} == {True, False}


@pytest.mark.parametrize("road", ["direct", "protocol"])
@pytest.mark.parametrize(
    ("formula", "answer"),
    [
        (Formula(0, ()), True),
        (Formula(0, ((),)), False),
        (Formula(3, ()), True),
        (Formula(1, ((1,),)), True),
        (Formula(1, ((1,), (-1,))), False),
        (Formula(4, ((1, -1), (2, 2))), True),
        (Formula(4, ((4, 3, 2, 1), ())), False),
    ],
)
def test_degenerate_formulas(formula: Formula, answer: bool, road: str) -> None:
    assert bool(decide_formula(formula, road=road)) is answer


def test_satisfiable_reads_a_file_and_reports_the_sizes(tmp_path: Path) -> None:
    formula, _ = planted_formula(7, 10, 3, 0)
    file = tmp_path / "seven.cnf"
    file.write_text(dimacs(formula))
    decision = hardness.satisfiable(file)
    assert decision
    assert [step.problem for step in decision.steps] == ["CNF", "3OV", "Gap-MaxIP", "attention"]
    assert decision.steps[1].sizes == "8, 4 and 4 vectors of dimension 10"
    assert decision.steps[2].sizes == "8, 4 and 4 vectors of dimension 30, threshold 10, against at most 9"
    assert "8 queries, 5 and 5 keys of width 40" in decision.steps[3].sizes
    by_protocol = hardness.satisfiable(file, road="protocol")
    assert by_protocol
    assert "5 parts of 2, F_7, codes of length 6, 49 words" in by_protocol.steps[2].sizes


@pytest.mark.parametrize(
    ("variables", "clauses", "road", "what"),
    [
        (60, 100, "direct", r"100 clauses would fit with up to 29 variables\), got CNF: 60 variables, .* 3OV"),
        (10**15, 1, "direct", r"2\^1000000000000000 triples"),
        (24, 100, "protocol", r"100 clauses would fit with up to \d+ variables"),
        (3, 2000, "protocol", "no such formula fits"),
    ],
)
def test_too_large_input_is_reported_before_any_work(
    monkeypatch: pytest.MonkeyPatch, variables: int, clauses: int, road: str, what: str
) -> None:
    monkeypatch.setattr(sat, "to_orthogonal_vectors", lambda formula: pytest.fail("work was done"))
    with pytest.raises(ArgumentError, match=what):
        decide_formula(Formula(variables, ((1,),) * clauses), road=road)


@pytest.mark.parametrize("road", ["direct", "protocol"])
def test_too_large_input_is_reported_before_the_clauses_are_read(tmp_path: Path, road: str) -> None:
    file = tmp_path / "large.cnf"
    file.write_text("p cnf 60 1000\nthis is no clause\n")
    with pytest.raises(ArgumentError, match=r"the formula: expected a chain of .* 60 variables, 1,000 clauses"):
        hardness.satisfiable(file, road=road)


def test_heads_reported_to_fit_do() -> None:
    assert chain_sizes(29, 100, "direct").fits
    assert not chain_sizes(30, 100, "direct").fits
    with pytest.raises(ArgumentError, match="'direct' or 'protocol'"):
        decide_formula(Formula(1, ()), road="other")


def test_an_assignment_that_fails_the_formula_is_never_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sat, "triple_by_attention", lambda instance: (0, 0, 0))
    with pytest.raises(AssertionError, match="does not satisfy"):
        decide_formula(Formula(1, ((1,),)))
