"""Formulas in conjunctive normal form, from which the chain of reductions starts, and random formulas.

A literal is a nonzero integer as in DIMACS: v is variable v, -v its negation. Entry v - 1 of an assignment is the value
of variable v.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from separatrix.checks import whole
from separatrix.errors import ArgumentError

Assignment = tuple[bool, ...]


@dataclass(frozen=True)
class Formula:
    """A conjunction of clauses, each a disjunction of literals.

    An empty clause is false, and a formula without clauses is true.

    Args:
        variables: the number of variables, which are numbered from 1.
        clauses: the literals of each clause.

    Example:
        >>> formula = Formula(2, ((1, 2), (-1, 2)))
        >>> formula.holds((False, True)), formula.holds((True, False))
        (True, False)
    """

    variables: int
    clauses: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        whole("variables", self.variables, low=0)
        for at, clause in enumerate(self.clauses):
            if clause and not (-self.variables <= min(clause) and max(clause) <= self.variables and 0 not in clause):
                wrong = next(literal for literal in clause if not 1 <= abs(literal) <= self.variables)
                expected = f"literals from 1 to {self.variables} or their negations"
                raise ArgumentError(f"clauses[{at}]", expected=expected, got=wrong)

    def holds(self, assignment: Sequence[bool]) -> bool:
        """Whether every clause has a literal that is true under the assignment."""
        if len(assignment) != self.variables:
            raise ArgumentError("assignment", expected=f"{self.variables} values", got=f"{len(assignment)}")
        return all(any(assignment[abs(literal) - 1] == (literal > 0) for literal in clause) for clause in self.clauses)


def random_formula(variables: int, clauses: int, width: int, seed: int) -> Formula:
    """Draw a random formula: its clauses are independent and uniform.

    Args:
        variables: the number of variables.
        clauses: the number of clauses.
        width: the number of variables in a clause, which are all different.
        seed: the seed of the random numbers.

    Example:
        >>> random_formula(6, 2, 3, seed=0) == random_formula(6, 2, 3, seed=0)
        True
    """
    _check_width(variables, width)
    draw = random.Random(seed)
    return Formula(variables, tuple(_clause(draw, variables, width) for _ in range(clauses)))


def planted_formula(variables: int, clauses: int, width: int, seed: int) -> tuple[Formula, Assignment]:
    """Draw a random formula that a hidden assignment satisfies, and return both.

    Each clause is drawn as in `random_formula`, and redrawn until the hidden assignment satisfies it.

    Args:
        variables: the number of variables.
        clauses: the number of clauses.
        width: the number of variables in a clause, which are all different.
        seed: the seed of the random numbers.

    Example:
        >>> formula, hidden = planted_formula(9, 60, 3, seed=0)
        >>> formula.holds(hidden)
        True
    """
    _check_width(variables, width)
    if width == 0 and clauses:
        raise ArgumentError("width", expected="at least 1: an empty clause is never satisfied", got=width)
    draw = random.Random(seed)
    hidden = tuple(draw.random() < 0.5 for _ in range(variables))
    drawn: list[tuple[int, ...]] = []
    while len(drawn) < clauses:
        clause = _clause(draw, variables, width)
        if any(hidden[abs(literal) - 1] == (literal > 0) for literal in clause):
            drawn.append(clause)
    return Formula(variables, tuple(drawn)), hidden


def _clause(draw: random.Random, variables: int, width: int) -> tuple[int, ...]:
    return tuple(v if draw.random() < 0.5 else -v for v in draw.sample(range(1, variables + 1), width))


def _check_width(variables: int, width: int) -> None:
    whole("width", width, low=0, high=variables)
