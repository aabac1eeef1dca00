"""An example of a certificate: attention over a few random tokens with the reader's d, B, k and tolerance.

Entries are uniform in [-B, B], and the number of tokens is such that a few million scores are computed. The result is
compared with exact attention in float64.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import torch

from separatrix.attention.near_linear.cost import Shape, polynomial_cost
from separatrix.attention.operator import certified_attention, tensor_attention
from separatrix.errors import SeparatrixError
from separatrix.explorer.compute.machine_speed import one_core
from separatrix.explorer.compute.plan_table import PlanSettings, big, planned

SCORES, PRODUCTS = 3e6, 1e8
"""The limits on the number of tuples, and of tuples times d, for exact attention over the sample."""
ENTRIES = 1e6
"""The limit on rank times d, the number of entries of the table of multi-indices."""
NANOSECONDS = 3e8
"""The limit on the time of the polynomial method by the cost model."""
LONGEST = 1024
FINEST = 1e-8, 1e-10
"""The smallest tolerance of a sample is the larger of the first number and exp(B^k) times the second. Below it the
rounding error of float64 can exceed the tolerance, and every degree would be tried in vain.
"""


@dataclass(frozen=True)
class SampleRun:
    """The parts of the certificate of a run over `n` tokens, and the true error."""

    n: int
    method: str
    rank: int | None
    truncation: float
    rounding: float
    total: float
    error: float


def tokens(sizes: PlanSettings) -> int:
    """The number of tokens of the sample.

    >>> tokens(PlanSettings(10**6, 8, 0.9, 3, 1e-3)), tokens(PlanSettings(10, 8, 0.9, 3, 1e-3))
    (144, 10)
    >>> tokens(PlanSettings(10**6, 8, 1.0, 6, 1.0))
    12
    """
    return min(sizes.n, LONGEST, int(min(SCORES, PRODUCTS / sizes.d) ** (1 / sizes.order)))


@lru_cache(maxsize=256)
def sampled(sizes: PlanSettings) -> SampleRun:
    """Run the planned method on the sample; a `SeparatrixError` says why if it is too costly."""
    n, plan = tokens(sizes), planned(sizes).plan
    if plan.method == "none":
        raise SeparatrixError(f"No sample was run: {plan.why}")
    if plan.rank is not None and plan.degree is not None:
        finest = max(FINEST[0], FINEST[1] * math.exp(sizes.radius))
        if sizes.tolerance < finest:
            raise SeparatrixError(
                f"No sample was run: below a tolerance of {finest:.1g} the rounding error of float64 may exceed "
                "the tolerance, and checking this takes seconds. sx.certified_attention checks it."
            )
        shape = Shape(1, n, (n,) * (sizes.order - 1), sizes.d, sizes.d)
        cost = polynomial_cost(shape, plan.rank, True)
        if plan.rank * sizes.d > ENTRIES or cost.time > NANOSECONDS:
            raise SeparatrixError(
                f"No sample was run: a rank of {big(plan.rank)} at d = {sizes.d} is too costly for a page, even on {n} "
                "tokens. A smaller B or d, or a larger tolerance, lowers the rank."
            )
    generator = torch.Generator().manual_seed(0)
    sets = sizes.order - 1
    drawn = torch.rand(2 * sets + 1, n, sizes.d, generator=generator, dtype=torch.float64)
    query, *rest = sizes.bound * (2 * drawn - 1)
    keys, values = rest[:sets], rest[sets:]
    with one_core():
        result = certified_attention(query, keys, values, tolerance=sizes.tolerance, method=plan.method)
        exact = tensor_attention(query, keys, values)
    error = float((result.output - exact).abs().max())
    certificate = result.certificate
    parts = certificate.truncation, certificate.rounding, certificate.total
    return SampleRun(n, result.plan.method, result.plan.rank, *parts, error)


def rows(samples: list[SampleRun]) -> list[tuple[str, list[str]]]:
    """The rows of the table: a name, and a text for each sample."""
    return [
        ("tokens", [f"{sample.n:,}" for sample in samples]),
        (
            "method",
            [sample.method if sample.rank is None else f"{sample.method}, rank {sample.rank:,}" for sample in samples],
        ),
        ("certified: truncation", [f"{sample.truncation:.2g}" for sample in samples]),
        ("certified: rounding", [f"{sample.rounding:.2g}" for sample in samples]),
        ("certified: total", [f"{sample.total:.2g}" for sample in samples]),
        ("largest true error", [f"{sample.error:.2g}" for sample in samples]),
    ]
