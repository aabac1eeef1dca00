"""SAT decided by attention: a formula is reduced step by step to attention, whose output decides it.

    CNF  ->  3OV  ->  Gap-MaxIP  ->  order-3 attention

There are two reductions from 3OV to Gap-MaxIP, which the argument `road` selects. "direct" has 3 m coordinates and the
gap 1/m; it works for formulas of up to about 25 variables (attention to 2^v triples is not a fast solver, and by the
lower bound no such solver is fast). "protocol" uses the Merlin-Arthur protocol and keeps the gap 1/2, at small sizes
only.

The answer "satisfiable" comes with an assignment that was found by attention and checked against the formula. The
answer "not satisfiable" rests on the margins proved in `attention_decision`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from separatrix.checks import one_of
from separatrix.errors import ArgumentError
from separatrix.hardness.attention_decision import LARGEST_SET, LARGEST_WORK, attention_sizes, triple_by_attention
from separatrix.hardness.cheating_merlin import LARGEST_SEARCH
from separatrix.hardness.cnf import Assignment, Formula
from separatrix.hardness.dimacs import read_admitted
from separatrix.hardness.maxip import levels, to_maxip
from separatrix.hardness.orthogonal_vectors import Triple, assignment_of, parts, to_orthogonal_vectors
from separatrix.hardness.protocol import Protocol
from separatrix.hardness.protocol_vectors import protocol_sizes, to_gap_maxip

Road = Literal["direct", "protocol"]
_MOST_VARIABLES = 99
"""For formulas with more variables the sizes of the later problems are not computed."""


@dataclass(frozen=True)
class Step:
    """One problem of the chain of reductions, and a description of its size."""

    problem: str
    sizes: str


@dataclass(frozen=True)
class Decision:
    """The decision about a formula; `bool(decision)` says whether the formula is satisfiable.

    Attributes:
        satisfiable: whether the formula is satisfiable.
        assignment: an assignment that satisfies it; None if there is none.
        steps: the problems of the chain.
    """

    satisfiable: bool
    assignment: Assignment | None
    steps: tuple[Step, ...]

    def __bool__(self) -> bool:
        return self.satisfiable


@dataclass(frozen=True)
class ChainSizes:
    """The problems of the chain for a formula, and whether they are small enough to be solved."""

    steps: tuple[Step, ...]
    fits: bool


def satisfiable(path: str | Path, *, road: Road = "direct") -> Decision:
    """Decide by order-3 attention whether the formula in a DIMACS file can be satisfied.

    Args:
        path: the file.
        road: the reduction to Gap-MaxIP, "direct" or "protocol" (see the module's docstring).

    Raises:
        ArgumentError: if the file is invalid, or if its problem line announces a formula that is too large; in that
            case the clauses are not read.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = Path(folder) / "small.cnf"
        ...     _ = file.write_text("p cnf 3 4\\n1 2 0\\n-1 2 0\\n-2 3 0\\n-1 -3 0\\n")
        ...     decision = satisfiable(file)
        >>> decision.satisfiable, decision.assignment
        (True, (False, True, True))
    """
    formula = read_admitted(path, lambda variables, clauses: _fitting(variables, clauses, road))
    return decide_formula(formula, road=road)


def decide_formula(formula: Formula, *, road: Road = "direct") -> Decision:
    """Decide by order-3 attention whether a formula can be satisfied.

    Args:
        formula: the formula.
        road: the reduction to Gap-MaxIP, "direct" or "protocol" (see the module's docstring).

    Raises:
        ArgumentError: if the formula is too large.

    Example:
        >>> bool(decide_formula(Formula(2, ((1,), (-1, 2), (-2, -1))))), bool(decide_formula(Formula(0, ())))
        (False, True)
    """
    sizes = _fitting(formula.variables, len(formula.clauses), road)
    vectors = to_orthogonal_vectors(formula)
    triple: Triple | None
    if road == "direct":
        triple = triple_by_attention(to_maxip(vectors))
    else:
        reduction = to_gap_maxip(vectors, _protocol(vectors.dimension))
        rows = triple_by_attention(reduction.instance)
        triple = None if rows is None else reduction.triple(rows)
    if triple is None:
        return Decision(False, None, sizes.steps)
    assignment = assignment_of(formula, triple)
    if not formula.holds(assignment):
        raise AssertionError(f"attention found {triple}, whose assignment does not satisfy the formula: {formula}")
    return Decision(True, assignment, sizes.steps)


def chain_sizes(variables: int, clauses: int, road: Road) -> ChainSizes:
    """The sizes of the problems of the chain for a formula, computed without constructing them.

    Args:
        variables: the number of variables of the formula.
        clauses: the number of its clauses.
        road: the reduction to Gap-MaxIP, "direct" or "protocol" (see the module's docstring).

    Example:
        >>> for step in chain_sizes(9, 20, "direct").steps:
        ...     print(f"{step.problem}: {step.sizes}")
        CNF: 9 variables, 20 clauses
        3OV: 8, 8 and 8 vectors of dimension 20
        Gap-MaxIP: 8, 8 and 8 vectors of dimension 60, threshold 20, against at most 19
        attention: 8 queries, 9 and 9 keys of width 80, beta = 554.5, B = 8.216, 51,840 multiplications
    """
    one_of("road", road, get_args(Road))
    m = max(1, clauses)  # A formula without clauses still has a coordinate.
    cnf = Step("CNF", f"{variables:,} variables, {clauses:,} clauses")
    if variables > _MOST_VARIABLES:
        return ChainSizes((cnf, Step("3OV", f"2^{variables} triples of vectors of dimension {m:,}")), fits=False)
    n_a, n_b, n_c = (2 ** len(part) for part in parts(variables))
    vectors = Step("3OV", f"{n_a:,}, {n_b:,} and {n_c:,} vectors of dimension {m:,}")
    queries, dimension, threshold, epsilon, words = n_a, 3 * m, m, 1 / m, 1
    steps = [cnf, vectors]
    if road == "protocol":
        protocol = _protocol(m)
        sizes = protocol_sizes((n_a, n_b, n_c), protocol)
        queries, dimension, words = sizes.rows, sizes.dimension, sizes.words
        threshold, epsilon = protocol.length, float(1 - protocol.soundness_bound)
        description = f"{protocol.parts} parts of {protocol.r}, F_{protocol.p}, codes of length {protocol.length}"
        steps.append(Step("protocol", f"{description}, {words:,} words of Merlin's"))
    low, high = levels(threshold, epsilon)
    gap = f"threshold {high}, against at most {low}"
    steps.append(Step("Gap-MaxIP", f"{queries:,}, {n_b:,} and {n_c:,} vectors of dimension {dimension:,}, {gap}"))
    call = attention_sizes(queries, (n_b, n_c), dimension, low, high)
    keys = f"{call.queries:,} queries, {call.keys[0]:,} and {call.keys[1]:,} keys of width {call.width:,}"
    cost = f"beta = {call.beta:.4g}, B = {call.bound:.4g}, {call.work:,} multiplications"
    steps.append(Step("attention", f"{keys}, {cost}"))
    return ChainSizes(tuple(steps), call.fits and words <= LARGEST_SEARCH)


def _protocol(m: int) -> Protocol:
    """The protocol with two clauses in each part: r = 2 is the smallest r at which Merlin has more than one word."""
    return Protocol(m, parts=-(-m // 2))


def _fitting(variables: int, clauses: int, road: Road) -> ChainSizes:
    """The sizes of the chain for a formula; an error if they are too large."""
    sizes = chain_sizes(variables, clauses, road)
    if sizes.fits:
        return sizes
    reached = "; ".join(f"{step.problem}: {step.sizes}" for step in sizes.steps)
    fitting = [v for v in range(_MOST_VARIABLES) if chain_sizes(v, clauses, road).fits]
    some = f"{clauses:,} clauses would fit with up to {fitting[-1]} variables" if fitting else "no such formula fits"
    limits = f"at most {LARGEST_WORK:,} multiplications and {LARGEST_SET:,} numbers in a set"
    if road == "protocol":
        limits += f" and {LARGEST_SEARCH:,} words of Merlin's"
    raise ArgumentError("the formula", expected=f"a chain of {limits} ({some})", got=reached)
