"""CNF -> 3OV -> MaxIP and back, against brute force and python-sat."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pysat.solvers import Cadical153

from separatrix.errors import ArgumentError
from separatrix.hardness.cnf import Formula, planted_formula, random_formula
from separatrix.hardness.maxip import GapMaxIP, gap_maxip, largest_products, levels, to_maxip
from separatrix.hardness.orthogonal_vectors import (
    OrthogonalVectors,
    assignment_of,
    inner_products,
    orthogonal_triple,
    parts,
    to_orthogonal_vectors,
)

LITERALS = st.integers(-7, 7).filter(bool)
FORMULAS = st.lists(st.lists(LITERALS, max_size=4).map(tuple), max_size=12).map(
    lambda clauses: Formula(7, tuple(clauses))
)


def solvable(formula: Formula) -> bool:
    """The decision of python-sat, which treats an empty clause as no clause."""
    with Cadical153(bootstrap_with=[list(clause) for clause in formula.clauses if clause]) as solver:
        return all(formula.clauses) and bool(solver.solve())


@pytest.mark.parametrize("variables", range(14))
def test_the_parts_are_all_variables_in_order(variables: int) -> None:
    split = parts(variables)
    assert [variable for part in split for variable in part] == list(range(1, variables + 1))
    assert max(map(len, split)) - min(map(len, split)) <= 1


@settings(max_examples=60, deadline=None)
@given(FORMULAS)
def test_every_triple_is_orthogonal_exactly_if_its_assignment_satisfies(formula: Formula) -> None:
    products = inner_products(*(getattr(to_orthogonal_vectors(formula), name) for name in "abc"))
    seen = set()
    for triple in product(*map(range, products.shape)):
        assignment = assignment_of(formula, triple)
        seen.add(assignment)
        assert formula.holds(assignment) == (products[triple] == 0)
    assert len(seen) == 2**formula.variables


def brute_force(formula: Formula) -> bool:
    """Whether one of all 2^v assignments satisfies the formula."""
    return any(formula.holds(assignment) for assignment in product((False, True), repeat=formula.variables))


@settings(max_examples=60, deadline=None)
@given(FORMULAS)
def test_the_oracles_agree(formula: Formula) -> None:
    triple = orthogonal_triple(to_orthogonal_vectors(formula))
    assert (triple is not None) == brute_force(formula) == solvable(formula)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("variables", "clauses"), [(9, 20), (10, 60), (12, 50), (12, 70)])
def test_planted_and_random_formulas(variables: int, clauses: int, seed: int) -> None:
    planted, hidden = planted_formula(variables, clauses, 3, seed)
    assert planted.holds(hidden)
    assert orthogonal_triple(to_orthogonal_vectors(planted)) is not None
    drawn = random_formula(variables, clauses, 3, seed)
    triple = orthogonal_triple(to_orthogonal_vectors(drawn))
    assert (triple is not None) == solvable(drawn)
    assert triple is None or drawn.holds(assignment_of(drawn, triple))


def test_the_random_formulas_are_of_both_kinds() -> None:
    answers = {solvable(random_formula(12, clauses, 3, seed)) for clauses in (50, 70) for seed in range(6)}
    assert answers == {True, False}


@given(st.integers(1, 5), st.integers(1, 9), st.integers(0, 2**32 - 1))
def test_the_direct_reduction_subtracts_from_m(n: int, m: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    a, b, c = (torch.randint(0, 2, (n + extra, m), generator=generator) for extra in range(3))
    instance = to_maxip(OrthogonalVectors(a, b, c))
    assert instance.dimension == 3 * m
    assert torch.equal(inner_products(instance.a, instance.b, instance.c), m - inner_products(a, b, c))
    assert (instance.low, instance.high) == (m - 1, m)
    assert None not in gap_maxip(instance)
    assert gap_maxip(instance) == (inner_products(a, b, c) == 0).flatten(1).any(1).tolist()


def test_inner_products_are_the_definition() -> None:
    generator = torch.Generator().manual_seed(0)
    a, b, c = (torch.randint(0, 2, (n, 5), generator=generator) for n in (3, 4, 2))
    products = inner_products(a, b, c)
    for i, j, k in product(range(3), range(4), range(2)):
        assert products[i, j, k] == sum(int(a[i, x] and b[j, x] and c[k, x]) for x in range(5))
    assert largest_products(GapMaxIP(a, b, c, 2, 0.5)).tolist() == products.flatten(1).amax(1).tolist()


@given(st.integers(1, 300))
def test_the_gap_of_one_step_is_detected_at_every_threshold(m: int) -> None:
    assert levels(m, 1 / m) == (m - 1, m)
    assert levels(m, 1.0) == (0, m)


@pytest.mark.parametrize("tenths", range(1, 10))
def test_decimal_gaps_are_exact(tenths: int) -> None:
    """(1 - 0.9) * 10 is slightly less than 1 in floating point."""
    assert levels(10, tenths / 10) == (10 - tenths, 10)


def test_in_between_may_be_anything() -> None:
    ones = torch.ones(1, 4)
    assert gap_maxip(GapMaxIP(torch.tensor([[1, 1, 1, 0]]), ones, ones, 4, 0.5)) == [None]


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"threshold": 0}, "threshold: expected a number above 0"),
        ({"threshold": 4}, "at most the dimension 3, got 4"),
        ({"threshold": float("nan")}, "threshold: expected a finite number"),
        ({"threshold": True}, "threshold: expected a finite number"),
        ({"epsilon": 0.0}, "epsilon: expected a number above 0"),
        ({"epsilon": 1.5}, "epsilon: expected a number above 0, at most 1"),
        ({"a": torch.full((2, 3), 2)}, "a: expected zeros and ones alone, got 2 at"),
        ({"b": torch.full((2, 3), float("nan"))}, "b: expected zeros and ones"),
        ({"c": torch.ones(2, 4)}, "c: expected vectors of dimension 3"),
        ({"c": torch.ones(3)}, "c: expected a tensor of shape"),
        ({"a": torch.ones(0, 3)}, "a: expected a tensor of shape"),
        ({"a": [[1, 0, 1]]}, "a: expected a tensor of shape"),
    ],
)
def test_bad_instances_are_refused(change: dict[str, object], what: str) -> None:
    good = {"a": torch.ones(2, 3), "b": torch.ones(2, 3), "c": torch.ones(2, 3), "threshold": 2, "epsilon": 0.5}
    with pytest.raises(ArgumentError, match=what):
        GapMaxIP(**{**good, **change})


def test_bad_formulas_and_rows_are_refused() -> None:
    with pytest.raises(ArgumentError, match=r"clauses\[1\]: expected literals from 1 to 2"):
        Formula(2, ((1,), (3,)))
    with pytest.raises(ArgumentError, match="2 values"):
        Formula(2, ()).holds((True,))
    with pytest.raises(ArgumentError, match="width"):
        random_formula(2, 3, 3, 0)
    with pytest.raises(ArgumentError, match="never satisfied"):
        planted_formula(2, 3, 0, 0)
    with pytest.raises(ArgumentError, match="rows below 2"):
        assignment_of(Formula(3, ()), (0, 2, 0))
    with pytest.raises(ArgumentError, match="triples for the definition"):
        inner_products(*(torch.ones(1, 1).expand(500, 1) for _ in range(3)))
