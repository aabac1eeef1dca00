"""The table of the tab Compute: the plan for n, d, B, k and a tolerance, its cost, and its time on this machine.

Planning is slow for scores of some tens, where the planner tries more than a hundred degrees. Such requests raise an
error, whose message names the smallest degree that could be enough.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from separatrix.attention.near_linear.cost import Shape, exact_cost, polynomial_cost
from separatrix.attention.near_linear.plan import Plan
from separatrix.attention.near_linear.worst_case import max_order, plan_shapes, threshold
from separatrix.errors import SeparatrixError
from separatrix.explorer.compute.machine_speed import Speeds
from separatrix.hardness.exponents import least_degree

EASY_RADIUS, HOPELESS_RADIUS = 20.0, 50.0
"""Scores up to `EASY_RADIUS` are planned in a tenth of a second; above `HOPELESS_RADIUS` no degree is tried."""


@dataclass(frozen=True)
class PlanSettings:
    """A setting: n tokens of dimension d, entries of magnitude at most `bound`, the order k, and the tolerance."""

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
    """A plan, with (ln n)^(1/k), the largest order k with B < (ln n)^(1/k), and the nanoseconds of the cost model."""

    sizes: PlanSettings
    plan: Plan
    border: float
    most: float
    modelled: float


@lru_cache(maxsize=1024)
def planned(sizes: PlanSettings) -> Planned:
    """Plan a setting by `plan_shapes`, and compute what the page shows with the plan.

    >>> example = planned(PlanSettings(10**6, 8, 0.9, 3, 1e-3))
    >>> example.plan.method, example.plan.rank, round(example.border, 2)
    ('polynomial', 495, 2.4)
    """
    if EASY_RADIUS < sizes.radius <= HOPELESS_RADIUS:
        raise too_dear(sizes)
    plan = plan_shapes(sizes.n, sizes.d, sizes.bound, sizes.order, sizes.tolerance)
    if plan.rank is None:
        modelled = exact_cost(sizes.shape, False).time
    else:
        modelled = polynomial_cost(sizes.shape, plan.rank, True).time
    return Planned(sizes, plan, threshold(sizes.n, sizes.order), max_order(sizes.n, sizes.bound), modelled)


def too_dear(sizes: PlanSettings) -> SeparatrixError:
    """The message for sizes that the page does not plan, with a lower bound on the rank."""
    relative = math.log(sizes.tolerance) - (sizes.order - 1) * math.log(sizes.bound)
    degree = least_degree(sizes.radius, relative)
    rank = math.comb(sizes.d + degree, degree)
    return SeparatrixError(
        f"B, k: scores can be as large as B^k = {sizes.radius:.3g}, and planning for scores between {EASY_RADIUS:g} "
        f"and {HOPELESS_RADIUS:g} tries over a hundred degrees, which takes seconds: it is not done here. No "
        f"Chebyshev polynomial of a degree below {degree} keeps {sizes.tolerance:g}, and that degree has rank "
        f"{big(rank)}. To plan it all the same: {command(sizes)}"
    )


def table(settings: Sequence[Planned], speeds: Speeds) -> list[tuple[str, list[str]]]:
    """The rows of the table: a name, and a text for each setting."""
    plans = [setting.plan for setting in settings]
    times = [
        "-" if setting.plan.method == "none" else spelled_seconds(speeds.seconds(setting.plan.method, setting.modelled))
        for setting in settings
    ]
    most = ["any" if math.isinf(setting.most) else f"{setting.most:g}" for setting in settings]
    return [
        ("method", [plan.method for plan in plans]),
        ("degree", ["-" if plan.degree is None else str(plan.degree) for plan in plans]),
        ("rank", ["-" if plan.rank is None else big(plan.rank) for plan in plans]),
        ("error, at most", [_error(plan) for plan in plans]),
        ("flops", [f"{plan.flops:.3g}" for plan in plans]),
        ("working memory", [spelled_bytes(plan.bytes) for plan in plans]),
        ("time here, on one core", times),
        (r"border $(\ln n)^{1/k}$", [f"{setting.border:.3g}" for setting in settings]),
        (r"largest $k$ with $B < (\ln n)^{1/k}$", most),
        ("why", [_sentence(setting.plan.why).replace("(ln n)^(1/k)", r"$(\ln n)^{1/k}$") for setting in settings]),
    ]


def _error(plan: Plan) -> str:
    """The predicted error of a plan as text."""
    return {"exact": "rounding only", "none": "-"}.get(plan.method, f"{plan.predicted_error:g}")


def python(settings: Sequence[PlanSettings]) -> str:
    """Return a Python program that prints the plans of the settings."""
    calls = [
        f"print(sx.plan_shapes(n={setting.n}, d={setting.d}, bound={setting.bound!r}, order={setting.order}, "
        f"tolerance={setting.tolerance!r}))"
        for setting in settings
    ]
    return "\n".join(["import separatrix as sx", "", *calls])


def command(setting: PlanSettings) -> str:
    """Return the command that prints the plan of a setting."""
    return (
        f"separatrix plan --n {setting.n} --d {setting.d} --bound {setting.bound!r} --order {setting.order} "
        f"--tolerance {setting.tolerance!r}"
    )


def big(number: int) -> str:
    """An integer as text, in scientific notation if it is large.

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
    """A duration with two significant digits.

    >>> spelled_seconds(0.0021), spelled_seconds(0.77), spelled_seconds(100.0), spelled_seconds(4e10)
    ('2.1 ms', '770 ms', '1.7 minutes', '1,300 years')
    """
    if seconds < 1:
        return f"{_two_digits(1e3 * seconds)} ms"
    units = (("s", 1.0), ("minutes", 60.0), ("hours", 3600.0), ("days", 86400.0), ("years", 31_557_600.0))
    name, size = [(name, size) for name, size in units if seconds >= size][-1]
    return f"{_two_digits(seconds / size)} {name}"


def _two_digits(number: float) -> str:
    """A number with two significant digits, without an exponent where it has at most nine digits."""
    return f"{float(f'{number:.2g}'):,.0f}" if 10 <= number < 1e9 else f"{number:.2g}"


def _sentence(why: str) -> str:
    return f"{why[0].upper()}{why[1:].removesuffix('.')}."
