"""Order-k attention in rational numbers and 200 digits, tuple by tuple: an oracle that shares no code with the library.

Floating-point numbers are rational, so scores are exact; only exp and the final quotient are rounded, to 200 digits.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction

import mpmath
from torch import Tensor

DIGITS = 200


def real(x: Fraction) -> mpmath.mpf:
    return mpmath.mpf(x.numerator) / x.denominator


def rows_of(x: Tensor) -> list[list[Fraction]]:
    return [[Fraction(entry) for entry in row] for row in x.double().tolist()]


def attention(
    query: Tensor,
    keys: Sequence[Tensor],
    values: Sequence[Tensor],
    scale: float,
    is_causal: bool = False,
    query_offset: int = 0,
    key_masks: Sequence[Tensor] | None = None,
    windows: Sequence[int | None] | None = None,
) -> tuple[list[list[mpmath.mpf]], list[mpmath.mpf]]:
    """Rows of outputs and log-sum-exps of one head, from tensors (L, d); zeros and -inf if nothing is attended."""
    with mpmath.workdps(DIGITS):
        q, ks, vs = rows_of(query), [rows_of(key) for key in keys], [rows_of(value) for value in values]
        width = len(vs[0][0]) if vs[0] else 0
        outputs, lses = [], []
        for i, row in enumerate(q):
            here = i + query_offset
            seen = []
            for m, key in enumerate(ks):
                window = None if windows is None else windows[m]
                may = [
                    j
                    for j in range(len(key))
                    if (key_masks is None or bool(key_masks[m][j]))
                    and (j <= here or not (is_causal or window is not None))
                    and (window is None or j > here - window)
                ]
                seen.append(may)
            scores, products = [], []
            for js in itertools.product(*seen):
                terms = (math.prod((ks[m][j][c] for m, j in enumerate(js)), start=row[c]) for c in range(len(row)))
                scores.append(Fraction(scale) * sum(terms))
                products.append([math.prod(vs[m][j][c] for m, j in enumerate(js)) for c in range(width)])
            if not scores:
                outputs.append([mpmath.mpf(0)] * width)
                lses.append(mpmath.mpf("-inf"))
                continue
            top = max(scores)
            weights = [mpmath.exp(real(max(score - top, Fraction(-10000)))) for score in scores]
            total = mpmath.fsum(weights)
            outputs.append(
                [
                    mpmath.fsum(w * real(v[c]) for w, v in zip(weights, products, strict=True)) / total
                    for c in range(width)
                ]
            )
            lses.append(real(top) + mpmath.log(total))
        return outputs, lses
