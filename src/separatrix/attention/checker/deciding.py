r"""Recomputes and judges the chosen queries of a call, with increasing precision until each is decided.

A query that attends few enough tuples is summed over all of them (see `tuples`), with increasing precision until the
ball is far narrower than the certificate. For more tuples an expansion of exp is summed, to increasing degrees, and the
bound on its remainder is added to the ball (see `expansion`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from separatrix.attention.checker import balls
from separatrix.attention.checker.expansion import QueryRanges, attend_expansion, expansion_flops, forecast_errors
from separatrix.attention.checker.judging import QueryJudgement, judge
from separatrix.attention.checker.problem import Head, Problem
from separatrix.attention.checker.reproducer import write_program
from separatrix.attention.checker.results import CallResults
from separatrix.attention.checker.tuples import Answer, attend_tuples
from separatrix.attention.checker.verdict import Verification
from separatrix.errors import SeparatrixError

TUPLES = 1 << 21
"""The largest number of tuples of a query that are summed one by one, which takes one or two seconds."""
FLOPS = 4e12
"""The largest number of operations of all sums of an expansion, which takes a few minutes."""
_BITS = (128, 256, 512, 1024, 2048, 4096, 8192, 16384)
_DEGREES = tuple(range(3, 24, 2))


def decide(problem: Problem, given: CallResults, queries: int) -> Verification:
    """The verdict on the recomputed queries of a call."""
    return _verdict(problem, given, list(_judge_all(problem, given, given.choose(queries))))


@dataclass(frozen=True)
class _JudgedQuery:
    """A judged query, and the precision in bits."""

    flat: int
    judgement: QueryJudgement
    bits: int


def _judge_all(problem: Problem, given: CallResults, chosen: Sequence[int]) -> Iterator[_JudgedQuery]:
    """Judge the chosen queries, those of one head together."""
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


def _by_tuples(head: Head, query: QueryRanges, given: CallResults, flat: int) -> _JudgedQuery:
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
    return _JudgedQuery(flat, judgement, bits)


def _by_expansion(
    head: Head, queries: dict[int, QueryRanges], given: CallResults, flops: float
) -> Iterator[_JudgedQuery]:
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
        yield _JudgedQuery(flat, judgement, 128)


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


def _verdict(problem: Problem, given: CallResults, judged: Sequence[_JudgedQuery]) -> Verification:
    if not judged:
        return Verification(True, 0.0, (), "output", 0.0, 0.0, 0)
    worst = max(judged, key=lambda query: (not query.judgement.held, query.judgement.ratio))
    judgement, at = worst.judgement, given.index(worst.flat)
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
            results[worst.flat].tolist(),
            judgement.bound,
            worst.bits,
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
