"""Judges one query: compares the results of a call with the exact answer in balls and with the certificate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from flint import arb

from separatrix.attention.checker import balls
from separatrix.attention.checker.tuples import Answer


@dataclass(frozen=True)
class QueryJudgement:
    """The result for one query: whether its certificate held, or None if the balls are too wide to decide.

    `what` is "output" or "lse", whichever has the larger ratio of error to bound; `error` and `ratio` are rounded up.
    `fine` says that no ball is wider than the requested fraction of its bound. `fault` is a sentence about a result
    that is wrong under any error bound.
    """

    held: bool | None
    what: str
    error: float
    bound: float
    ratio: float
    fine: bool
    fault: str = ""


def judge(
    answer: Answer, output: Sequence[float], bound: float, lse: float | None, lse_bound: float, fineness: arb
) -> QueryJudgement:
    """Compare the results of a call for a query with the exact answer."""
    if fault := _fault(answer, output, bound, lse, lse_bound):
        return QueryJudgement(False, "output", math.inf, bound, math.inf, True, fault)
    if answer.output is None or answer.lse is None:
        return QueryJudgement(True, "output", 0.0, bound, 0.0, True)
    compared = [("output", x, exact, bound) for x, exact in zip(output, answer.output, strict=True)]
    if lse is not None and math.isfinite(lse):
        compared.append(("lse", lse, answer.lse, lse_bound))
    return max((_compare(*comparison, fineness) for comparison in compared), key=_gravity)


def _compare(what: str, given: float, exact: arb, bound: float, fineness: arb) -> QueryJudgement:
    error = abs(arb(given) - exact)
    if math.isinf(bound):  # the certificate is infinite
        return QueryJudgement(True, what, balls.float_above(error), bound, 0.0, True)
    held = None if not error.is_finite() else True if error <= bound else False if error > bound else None
    fine = error.is_finite() and (error.rad() <= fineness * bound or error.is_exact())
    ratio = 0.0 if error.is_zero() else balls.float_above(error / bound) if bound > 0 else math.inf
    return QueryJudgement(held, what, balls.float_above(error), bound, ratio, fine)


def _gravity(judgement: QueryJudgement) -> tuple[bool, bool, bool, float]:
    """A sort key for judgements by severity: broken, undecided, decided by wide balls, then by closeness to the
    bound."""
    return judgement.held is False, judgement.held is None, not judgement.fine, judgement.ratio


def _fault(answer: Answer, output: Sequence[float], bound: float, lse: float | None, lse_bound: float) -> str:
    """A sentence about a result that is wrong under any error bound; empty if there is none."""
    if not bound >= 0 or not lse_bound >= 0:
        return f"the certificate is {bound}, and that of the log-sum-exp {lse_bound}"
    if not all(map(math.isfinite, output)):
        return "the output is not finite"
    if lse is not None and math.isnan(lse):
        return "the log-sum-exp is NaN"
    if answer.output is None:
        if any(output):
            return "the query attends no tuple, but its output is not zero"
        if lse is not None and lse != -math.inf:
            return f"the query attends no tuple, but its log-sum-exp is {lse}, not -inf"
    elif lse is not None and math.isinf(lse) and math.isfinite(lse_bound):
        return f"the log-sum-exp is {lse}"
    return ""
