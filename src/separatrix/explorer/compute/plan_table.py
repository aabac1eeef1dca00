"""What the tab Compute says of n, d, B, k and a tolerance: the plan, its cost, and its time on this machine.

Planning is cheap except where scores may reach some tens: there more than a hundred degrees are tried, and the request
is refused, with the least degree that could be enough.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from separatrix.attention.near_linear.cost import Shape, exact_cost, polynomial_cost
from separatrix.attention.near_linear.paper_rules import max_order, threshold
from separatrix.attention.near_linear.plan import Plan
from separatrix.attention.near_linear.product_cost import expanded_total_degree
from separatrix.attention.near_linear.worst_case import plan_shapes
from separatrix.errors import SeparatrixError
from separatrix.explorer.compute.machine_speed import Speeds
from separatrix.hardness.exponents import least_degree

EASY_RADIUS, HOPELESS_RADIUS = 20.0, 50.0
"""Scores up to the first are planned in a tenth of a second; above the second nothing is tried at all."""


@dataclass(frozen=True)
class PlanSettings:
    """One setting: n tokens of d coordinates, entries up to `bound`, order k, the error allowed in every entry."""

    n: int
    d: int
    bound: float
    order: int
    tolerance: float

    @property
    def radius(self) -> float:
        """B^k, the largest score at scale 1/d."""
        return self.bound**self.order

    @property
    def shape(self) -> Shape:
        return Shape(1, self.n, (self.n,) * (self.order - 1), self.d, self.d)


@dataclass(frozen=True)
class Planned:
    """The plan; (ln n)^(1/k); the largest order by the paper's rule; nanoseconds on the machine of the cost model."""

    sizes: PlanSettings
    plan: Plan
    border: float
    most: float
    modelled: float


@lru_cache(maxsize=1024)
def planned(sizes: PlanSettings) -> Planned:
    """`plan_shapes` with what stands beside it on the page.

    >>> example = planned(PlanSettings(10**6, 8, 0.9, 3, 1e-3))
    >>> example.plan.method, example.plan.rank, round(example.border, 2)
    ('polynomial', 495, 2.4)
    """
    if EASY_RADIUS < sizes.radius <= HOPELESS_RADIUS:
        raise too_dear(sizes)
    plan = plan_shapes(sizes.n, sizes.d, sizes.bound, sizes.order, sizes.tolerance)
    if plan.degree is None:
        modelled = exact_cost(sizes.shape, False).time
    else:
        modelled = polynomial_cost(sizes.shape, expanded_total_degree(sizes.d, plan.degree), True).time
    return Planned(sizes, plan, threshold(sizes.n, sizes.order), max_order(sizes.n, sizes.bound), modelled)


def too_dear(sizes: PlanSettings) -> SeparatrixError:
    """The reason for not planning these sizes on the page, with the least rank that planning could find."""
    relative = math.log(sizes.tolerance) - (sizes.order - 1) * math.log(sizes.bound)
    degree = least_degree(sizes.radius, relative)
    rank = math.comb(sizes.d + degree, degree)
    return SeparatrixError(
        f"B, k: scores may reach B^k = {sizes.radius:.3g}, and planning between {EASY_RADIUS:g} and "
        f"{HOPELESS_RADIUS:g} tries over a hundred degrees, which takes seconds: it is not done here. No degree below "
        f"{degree} keeps {sizes.tolerance:g}, so the rank would be {big(rank)} at least. To plan it all the same: "
        f"{command(sizes)}"
    )


def table(found: Sequence[Planned], speeds: Speeds) -> list[tuple[str, list[str]]]:
    """The rows of the page's table: a name, and what each setting has there."""
    plans = [one.plan for one in found]
    times = [
        "-" if one.plan.method == "none" else spelled_seconds(speeds.seconds(one.plan.method, one.modelled))
        for one in found
    ]
    most = ["any" if math.isinf(one.most) else f"{one.most:g}" for one in found]
    return [
        ("method", [plan.method for plan in plans]),
        ("degree", ["-" if plan.degree is None else str(plan.degree) for plan in plans]),
        ("rank", ["-" if plan.rank is None else big(plan.rank) for plan in plans]),
        ("error, at most", [_error(plan) for plan in plans]),
        ("flops", [f"{plan.flops:.3g}" for plan in plans]),
        ("working memory", [spelled_bytes(plan.bytes) for plan in plans]),
        ("time here, on one core", times),
        (r"border $(\ln n)^{1/k}$", [f"{one.border:.3g}" for one in found]),
        (r"largest $k$ with $B < (\ln n)^{1/k}$", most),
        ("why", [_sentence(one.plan.why).replace("(ln n)^(1/k)", r"$(\ln n)^{1/k}$") for one in found]),
    ]


def _error(plan: Plan) -> str:
    """The error that a plan may make, in words."""
    return {"exact": "rounding only", "none": "-"}.get(plan.method, f"{plan.predicted_error:g}")


def python(settings: Sequence[PlanSettings]) -> str:
    """Write the plans that the page shows as a program."""
    calls = [
        f"print(sx.plan_shapes(n={one.n}, d={one.d}, bound={one.bound!r}, order={one.order}, "
        f"tolerance={one.tolerance!r}))"
        for one in settings
    ]
    return "\n".join(["import separatrix as sx", "", *calls])


def command(one: PlanSettings) -> str:
    """Write the plan of one setting as a command."""
    return (
        f"separatrix plan --n {one.n} --d {one.d} --bound {one.bound!r} --order {one.order} "
        f"--tolerance {one.tolerance!r}"
    )


def big(number: int) -> str:
    """A whole number that may be very long.

    >>> big(131072), big(10**30)
    ('131,072', '1e+30')
    """
    return f"{number:,}" if number < 10**9 else f"{number:.3g}"


def spelled_bytes(number: float) -> str:
    """
    >>> spelled_bytes(3 * 2**20), spelled_bytes(5e13)
    ('3 MiB', '45.5 TiB')
    """
    for unit in ("B", "KiB", "MiB", "GiB"):
        if number < 1024:
            return f"{number:.3g} {unit}"
        number /= 1024
    return f"{number:.3g} TiB"


def spelled_seconds(seconds: float) -> str:
    """
    >>> spelled_seconds(0.0021), spelled_seconds(100.0), spelled_seconds(4e10)
    ('2.1 ms', '1.7 minutes', '1.3e+03 years')
    """
    if seconds < 1:
        return f"{1e3 * seconds:.2g} ms"
    units = (("s", 1.0), ("minutes", 60.0), ("hours", 3600.0), ("days", 86400.0), ("years", 31_557_600.0))
    name, size = [(name, size) for name, size in units if seconds >= size][-1]
    return f"{seconds / size:.2g} {name}"


def _sentence(why: str) -> str:
    return f"{why[0].upper()}{why[1:].removesuffix('.')}."
