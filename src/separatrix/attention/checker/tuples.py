r"""Order-k attention of one query by its definition, in balls: every tuple, one exponential each.

    out = sum_t exp(s_t) v_t / sum_t exp(s_t),    s_t = scale sum_l q_l k_1,j1,l ... k_{k-1},j_{k-1},l

over the tuples t = (j_1, ..., j_{k-1}), v_t the entrywise product of v_1,j1, ..., v_{k-1},j_{k-1}. The longest set is
the last one here, so that scores and sums over it are products of matrices. The largest score so far is subtracted from
every score, so that no exponential exceeds the exponent range of arb.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from flint import arb

from separatrix.attention.checker import balls
from separatrix.attention.checker.problem import Floats

_BLOCK = 1 << 16
"""The number of scores that are stored at a time."""

Row = tuple[list[arb], list[arb]]
"""The products of the query with one key of each set so far, and the products of their values, with a 1 appended."""


@dataclass(frozen=True)
class Answer:
    """The exact output of a query, entry by entry, and its log-sum-exp; None for both if it attends no tuple."""

    output: list[arb] | None
    lse: arb | None


def attend_tuples(query: Floats, keys: Sequence[Floats], values: Sequence[Floats], scale: float, bits: int) -> Answer:
    """The answer to a query (d,) over key sets (n_m, d) and value sets (n_m, d_v), with midpoints of `bits` bits."""
    if not all(len(key) for key in keys):
        return Answer(None, None)
    longest = max(range(len(keys)), key=lambda m: len(keys[m]))
    shorter = [m for m in range(len(keys)) if m != longest]
    length, width = values[longest].shape
    with balls.bits(bits):
        columns = balls.matrix(np.ascontiguousarray(keys[longest].T))
        weighed = balls.matrix(np.hstack([values[longest], np.ones((length, 1))]))
        shift, sums = None, [arb(0)] * (width + 1)
        rows: list[Row] = [([arb(scale) * arb(q) for q in query.tolist()], [arb(1)] * (width + 1))]
        for m in shorter:
            rows = _products(rows, keys[m], values[m])
        step = max(_BLOCK // length, 1)
        for start in range(0, len(rows), step):
            part = rows[start : start + step]
            scores = balls.of_entries(len(part), len(query), [x for row, _ in part for x in row]) * columns
            entries = scores.entries()
            highest = max(score.mid() for score in entries)
            if shift is None or highest > shift:
                factor = arb(0) if shift is None else (shift - highest).exp()
                shift, sums = highest, [x * factor for x in sums]
            weights = balls.of_entries(len(part), length, [(score - shift).exp() for score in entries])
            inner = (weights * weighed).tolist()
            for column in range(width + 1):
                sums[column] += sum((row[column] * v[column] for row, (_, v) in zip(inner, part, strict=True)), arb(0))
        assert shift is not None
        return Answer([x / sums[-1] for x in sums[:-1]], shift + sums[-1].log())


def _products(rows: list[Row], key: Floats, value: Floats) -> list[Row]:
    """Each row times each token of one more set."""
    keys = [[arb(x) for x in k] for k in key.tolist()]
    values = [[*(arb(x) for x in v), arb(1)] for v in value.tolist()]
    return [
        ([a * b for a, b in zip(so_far, k, strict=True)], [a * b for a, b in zip(weighed, v, strict=True)])
        for so_far, weighed in rows
        for k, v in zip(keys, values, strict=True)
    ]
