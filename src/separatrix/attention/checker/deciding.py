r"""Recomputes the chosen queries of a call and compares their results with the exact answers and with the certificate,
with increasing precision until each query is decided.

A query that attends few enough tuples is summed over all of them (see `tuples`), with increasing precision until the
ball is far narrower than the certificate. For more tuples an expansion of exp is summed, to increasing degrees, and the
bound on its remainder is added to the ball (see `expansion`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from flint import arb

from separatrix.attention.checker import balls
from separatrix.attention.checker.expansion import QueryRanges, attend_expansion, expansion_flops, forecast_errors
from separatrix.attention.checker.problem import CallResults, Floats, Head, Problem
from separatrix.attention.checker.tuples import Answer, attend_tuples
from separatrix.attention.checker.verification import Verification
from separatrix.errors import SeparatrixError

_NUMBERS = 1 << 12
"""The largest number of entries in a program."""
_TUPLES = 10**6
"""The largest number of tuples in a program."""

_PROGRAM = """\
from decimal import Decimal, getcontext
from itertools import product
from math import prod

# The query, and of each set the keys and values that it attends.
query = {query}
keys = {keys}
values = {values}
scale = {scale}
{what}, certificate = {given}, {bound}

getcontext().prec = {digits}
tuples = list(product(*(range(len(key)) for key in keys)))
scores = [
    Decimal(scale) * sum(prod([Decimal(q), *(Decimal(k[j][l]) for k, j in zip(keys, t))]) for l, q in enumerate(query))
    for t in tuples
]
weights = [(score - max(scores)).exp() for score in scores]
{exact}
print(f"the error is {{float(error):.6g}}, and the certificate {{certificate:.6g}}")
"""
_EXACT = {
    "output": """\
exact = [
    sum(w * prod(Decimal(v[j][c]) for v, j in zip(values, t)) for w, t in zip(weights, tuples)) / sum(weights)
    for c in range(len(output))
]
error = max(abs(Decimal(a) - b) for a, b in zip(output, exact))""",
    "lse": "error = abs(Decimal(lse) - max(scores) - sum(weights).ln())",
}


def write_program(
    query: Floats,
    keys: Sequence[Floats],
    values: Sequence[Floats],
    scale: float,
    what: str,
    given: object,
    bound: float,
    bits: int,
) -> str:
    """The program for one query, or, if it would be too long, the commands that check the saved call."""
    numbers = query.size + sum(x.size for x in (*keys, *values))
    if numbers > _NUMBERS or math.prod(len(key) for key in keys) > _TUPLES:
        return "Certified.save writes the call and its results to a file, and `separatrix verify FILE` checks it again."
    return _PROGRAM.format(
        query=query.tolist(),
        keys=[key.tolist() for key in keys],
        values=[value.tolist() for value in values],
        scale=scale,
        what=what,
        given=given,
        bound=bound,
        digits=20 + math.ceil(bits * math.log10(2)),
        exact=_EXACT[what],
    )


TUPLES = 1 << 21
"""The largest number of tuples of a query that are summed one by one, which takes one or two seconds."""
FLOPS = 4e12
"""The largest number of operations of all sums of an expansion, which takes a few minutes."""
_BITS = (128, 256, 512, 1024, 2048, 4096, 8192, 16384)
_DEGREES = tuple(range(3, 24, 2))


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


JudgedQuery = tuple[int, QueryJudgement, int]
"""The flat index of a query, its judgement, and the precision in bits."""


def decide(problem: Problem, given: CallResults, queries: int) -> Verification:
    """The verdict on the recomputed queries of a call."""
    return _verdict(problem, given, list(_judge_all(problem, given, given.choose(queries))))


def _judge_all(problem: Problem, given: CallResults, chosen: Sequence[int]) -> Iterator[JudgedQuery]:
    """Judge the chosen queries; the queries of one head are judged together."""
    heads: dict[tuple[int, ...], list[int]] = {}
    for flat in chosen:
        heads.setdefault(problem.storage(given.index(flat)[:-1]), []).append(flat)
    for together in heads.values():
        head = problem.head(given.index(together[0])[:-1])
        asked = {}
        for flat in together:
            at = given.index(flat)
            asked[flat] = QueryRanges(problem.vector(at), problem.spans(at[-1]))
        many = {flat: query for flat, query in asked.items() if math.prod(head.counts(query.spans)) > TUPLES}
        for flat, query in asked.items():
            if flat not in many:
                yield _by_tuples(head, query, given, flat)
        if many:
            yield from _by_expansion(head, many, given, FLOPS / len(heads))


def _judge(answer: Answer, given: CallResults, flat: int, fineness: int) -> QueryJudgement:
    lse = None if given.lse is None else float(given.lse[flat])
    return judge(
        answer,
        given.output[flat].tolist(),
        float(given.bounds[flat]),
        lse,
        given.lse_bound,
        balls.power_of_two(-fineness),
    )


def _by_tuples(head: Head, query: QueryRanges, given: CallResults, flat: int) -> JudgedQuery:
    keys, values = head.attended(query.spans)
    for bits in _BITS:
        with balls.bits(bits):
            judgement = _judge(attend_tuples(query.vector, keys, values, head.scale, bits), given, flat, fineness=20)
        if judgement.held is False or (judgement.held and judgement.fine):
            break
    if judgement.held is None:
        raise SeparatrixError(
            f"verify: query {given.index(flat)} cannot be decided with {bits} bits: its error is too close to its "
            "certificate, or its scores are too large."
        )
    return flat, judgement, bits


def _by_expansion(
    head: Head, queries: dict[int, QueryRanges], given: CallResults, flops: float
) -> Iterator[JudgedQuery]:
    within = [degree for degree in _DEGREES if expansion_flops(head, degree) <= flops]
    if not within:
        raise _out_of_reach(given, next(iter(queries)), "an expansion would take too long")
    for degree in within[_first(head, queries, given, within) :]:
        with balls.bits(128):
            answers = attend_expansion(head, list(queries.values()), degree)
            judgements = [_judge(a, given, flat, fineness=6) for a, flat in zip(answers, queries, strict=True)]
        if all(judgement.held is False or (judgement.held and judgement.fine) for judgement in judgements):
            break
    for flat, judgement in zip(queries, judgements, strict=True):
        if judgement.held is None:
            raise _out_of_reach(given, flat, f"an expansion of degree {degree} does not decide it")
        yield flat, judgement, 128


def _first(head: Head, queries: dict[int, QueryRanges], given: CallResults, degrees: Sequence[int]) -> int:
    """The index of the first degree whose estimated remainder is small enough, or of the last degree."""
    enough = [True] * len(degrees)
    for flat, query in queries.items():
        for at, (output, lse) in enumerate(forecast_errors(head, query, degrees)):
            small = output <= 2**-8 * given.bounds[flat] and (given.lse is None or lse <= 2**-8 * given.lse_bound)
            enough[at] = enough[at] and small
    return enough.index(True) if any(enough) else len(degrees) - 1


def _out_of_reach(given: CallResults, flat: int, why: str) -> SeparatrixError:
    return SeparatrixError(
        f"verify: query {given.index(flat)} attends more than {TUPLES:,} tuples, and {why}. Check a call with fewer "
        "tokens, smaller scores, fewer dimensions or a larger certificate."
    )


def _verdict(problem: Problem, given: CallResults, judged: Sequence[JudgedQuery]) -> Verification:
    if not judged:
        return Verification(True, 0.0, (), "output", 0.0, 0.0, 0)
    flat, judgement, bits = max(judged, key=lambda query: (not query[1].held, query[1].ratio))
    at = given.index(flat)
    reproducer = ""
    if not judgement.held and not judgement.fault:
        head = problem.head(at[:-1])
        keys, values = head.attended(problem.spans(at[-1]))
        results = given.output if judgement.what == "output" else given.lse
        assert results is not None
        reproducer = write_program(
            problem.vector(at),
            keys,
            values,
            head.scale,
            judgement.what,
            results[flat].tolist(),
            judgement.bound,
            bits,
        )
    return Verification(
        bool(judgement.held),
        judgement.ratio,
        at,
        judgement.what,
        judgement.error,
        judgement.bound,
        len(judged),
        judgement.fault,
        reproducer,
    )


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
