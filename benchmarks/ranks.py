"""Ranks of near-linear attention: certified calls against an earlier bound by the range of values; bounded layers.

Ranks depend only on the inputs, not on the machine. `BY_RANGE` are the ranks of an earlier version, whose certificates
used the range of the values as a bound on every deviation, whose moments ended at the degree, and whose causal plans
used the largest term of their sample.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from statistics import median

import torch
from torch import Tensor

import separatrix as sx
from benchmarks import Row
from benchmarks.timing import alternate
from separatrix.attention.call import check_call
from separatrix.attention.near_linear.analysis import analyse
from separatrix.attention.near_linear.approximation.monomials import total_degree
from separatrix.attention.near_linear.approximation.remainder import taylor
from separatrix.attention.near_linear.bounded_plan import plan_bounded
from separatrix.attention.near_linear.certificate import certify
from separatrix.attention.near_linear.plan import Recipe
from separatrix.attention.near_linear.run import run_polynomial
from separatrix.errors import SeparatrixError

DIMENSIONS = (4, 8, 16, 32, 64)
LENGTH = 8192
LARGEST_TIMED = 10_000
"""The largest rank by the range that is timed."""
BY_RANGE: dict[tuple[int, bool, str, float, float], tuple[int | None, ...]] = {
    (2, False, "uniform", 0.5, 0.01): (15, 45, 153, 561, 65),
    (2, False, "uniform", 0.5, 0.001): (15, 45, 153, 561, 2145),
    (2, False, "uniform", 1.0, 0.01): (35, 165, 153, 561, 2145),
    (2, False, "uniform", 1.0, 0.001): (70, 495, 969, 6545, 2145),
    (2, False, "uniform", 1.5, 0.01): (126, 495, 4845, 6545, 47905),
    (2, False, "uniform", 1.5, 0.001): (210, 1287, 4845, 58905, None),
    (2, False, "normal", 0.5, 0.01): (70, 165, 153, 561, 2145),
    (2, False, "normal", 0.5, 0.001): (126, 495, 969, 6545, 2145),
    (2, True, "uniform", 0.5, 0.01): (15, 45, 153, 561, 65),
    (2, True, "uniform", 0.5, 0.001): (35, 165, 153, 561, 2145),
    (2, True, "uniform", 1.0, 0.01): (70, 495, 969, 6545, 2145),
    (2, True, "uniform", 1.0, 0.001): (126, 1287, 4845, 58905, 47905),
    (2, True, "uniform", 1.5, 0.01): (330, 3003, 20349, None, None),
    (2, True, "uniform", 1.5, 0.001): (495, 6435, 74613, None, None),
    (2, True, "normal", 0.5, 0.01): (210, 1287, 4845, 6545, 47905),
    (2, True, "normal", 0.5, 0.001): (330, 3003, 4845, 58905, 47905),
    (3, False, "uniform", 0.5, 0.01): (5, 9, 17, 33, 65),
    (3, False, "uniform", 0.5, 0.001): (15, 45, 153, 33, 65),
    (3, False, "uniform", 1.0, 0.01): (35, 45, 153, 561, 2145),
    (3, False, "uniform", 1.0, 0.001): (70, 165, 969, 561, 2145),
    (3, False, "uniform", 1.5, 0.01): (210, 495, 4845, 6545, 47905),
    (3, False, "uniform", 1.5, 0.001): (330, 3003, 4845, 58905, None),
    (3, False, "normal", 0.5, 0.01): (70, 165, 969, 561, 2145),
    (3, False, "normal", 0.5, 0.001): (126, 495, 4845, 6545, 2145),
    (3, True, "uniform", 0.5, 0.01): (5, 9, 17, 33, 65),
    (3, True, "uniform", 0.5, 0.001): (15, 45, 153, 33, 65),
    (3, True, "uniform", 1.0, 0.01): (70, 165, 969, 561, 2145),
    (3, True, "uniform", 1.0, 0.001): (126, 495, 4845, 6545, 47905),
    (3, True, "uniform", 1.5, 0.01): (715, 6435, 74613, None, None),
    (3, True, "uniform", 1.5, 0.001): (1001, 12870, None, None, None),
    (3, True, "normal", 0.5, 0.01): (495, 1287, 4845, 6545, 2145),
    (3, True, "normal", 0.5, 0.001): (715, 3003, 4845, 58905, 47905),
}
"""Ranks by order, causality, distribution and size of the entries, and tolerance, for `DIMENSIONS`; None for none."""


def entries(order: int, distribution: str, size: float, n: int, d: int) -> tuple[Tensor, list[Tensor], list[Tensor]]:
    """Queries, keys and values of one head."""
    generator, shape = torch.Generator().manual_seed(0), (2 * order - 1, n, d)
    x = (
        2 * torch.rand(shape, generator=generator) - 1
        if distribution == "uniform"
        else torch.randn(shape, generator=generator)
    )
    return size * x[0], list(size * x[1:order]), list(size * x[order:])


Setting = tuple[int, bool, str, float, float]


def settings() -> Iterator[tuple[Setting, int, int | None]]:
    """The settings of `BY_RANGE`, with a head dimension and the earlier rank."""
    for setting, before in BY_RANGE.items():
        for d, by_range in zip(DIMENSIONS, before, strict=True):
            yield setting, d, by_range


def name_of(setting: Setting, d: int) -> str:
    order, is_causal, distribution, size, tolerance = setting
    return f"order {order}{', causal' * is_causal}, {distribution} {size:g}, d = {d}, {tolerance:g}"


def certified_rank(order: int, is_causal: bool, distribution: str, size: float, tolerance: float, d: int) -> int | None:
    """The planned rank; None if no rank satisfies the tolerance."""
    inputs = entries(order, distribution, size, LENGTH, d)
    try:
        return sx.plan_attention(*inputs, tolerance=tolerance, is_causal=is_causal, method="polynomial").rank
    except SeparatrixError:
        return None


def certified() -> Iterator[Row]:
    """The ranks of certified calls that have a plan, against those in `BY_RANGE`; and the medians of their ratios."""
    ratios: dict[bool, list[float]] = {False: [], True: []}
    planned = 0
    for setting, d, by_range in settings():
        rank = certified_rank(*setting, d)
        if rank is None:
            continue
        planned += 1
        if by_range is not None:
            ratios[setting[1]].append(rank / by_range)
        yield Row(f"rank, {name_of(setting, d)}", rank, "by the range", by_range, unit="")
    both = ratios[False] + ratios[True]
    for name, parts in (("", both), (", not causal", ratios[False]), (", causal", ratios[True])):
        yield Row(f"median ratio of ranks{name}", median(parts), "a third", 1 / 3, 1.0, unit="")
    ranks = [by_range for *_, by_range in settings()]
    yield Row("settings with a plan", planned, "by the range", sum(rank is not None for rank in ranks), unit="")


def bounded() -> Iterator[Row]:
    """Ranks of bounded layers and states of order 2, computed only from the bound."""
    for tolerance in (1e-2, 1e-3):
        for radius in (0.5, 1.0, 2.0, 4.0):
            for d in DIMENSIONS:
                try:
                    plan = plan_bounded(2, d, radius, tolerance)
                except SeparatrixError:
                    continue
                yield Row(f"rank, bounded, R = {radius:g}, d = {d}, {tolerance:g}", plan.rank, "-", None, unit="")


@torch.no_grad()
def time(setting: Setting, d: int, by_range: int | None, seconds: float) -> Row:
    """The time of a certified call with its planning, against a run and a certificate at the rank in `BY_RANGE`."""
    order, is_causal, distribution, size, tolerance = setting
    inputs = entries(order, distribution, size, LENGTH, d)

    def now() -> sx.Certified:
        return sx.certified_attention(*inputs, tolerance=tolerance, is_causal=is_causal, method="polynomial")

    functions: dict[str, Callable[[], object]] = {"now": now}
    if by_range is not None and by_range <= LARGEST_TIMED:
        call = check_call(*inputs, is_causal=is_causal)
        degree = next(g for g in range(99) if math.comb(d + g, g) == by_range)
        recipe = Recipe(total_degree(d, degree), taylor(degree), torch.float64 if is_causal else torch.float32)

        def before() -> None:
            analysis = analyse(call)
            certify(analysis, run_polynomial(analysis, recipe))

        functions["before"] = before
    best = alternate(functions, seconds=seconds, rounds=2)
    note = f"rank {now().plan.rank} against {by_range}, whose time excludes planning"
    return Row(f"time, {name_of(setting, d)}", best["now"], "the rank by the range", best.get("before"), note=note)


def times(seconds: float = 0.15) -> Iterator[Row]:
    """The times of all settings that have a plan; runs at large earlier ranks, which take seconds, are left out."""
    for setting, d, by_range in settings():
        if certified_rank(*setting, d) is not None:
            yield time(setting, d, by_range, seconds)


def rows() -> list[Row]:
    return [*certified(), *bounded(), *times()]
