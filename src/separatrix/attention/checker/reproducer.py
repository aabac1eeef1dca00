"""Writes a program that shows a violated certificate using only Python's decimal arithmetic."""

from __future__ import annotations

import math
from collections.abc import Sequence

from separatrix.attention.checker.problem import Floats

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
