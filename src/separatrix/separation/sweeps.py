"""The paper's own sweeps, Figures 3, 4, 5 and 7, as data: a baseline and, per figure, the values that change.

Steps are exact decimals. Where the paper gives no value or contradicts itself, we chose:
* tau of softmax regression (Figure 3) is not printed: 0.25.
* m = log n and m = max(log(n / delta), 15) are rounded down (`decimals.log_width`).
* Figures 4(e), 5(e), 7(c), 7(e) also list the swept parameter among the fixed ones: we sweep it.
* Figures 4(f), 5(f) do not give a0, and Figure 7(e) does not give a1: 0.01 and 3, as in the other panels.
* Figures 4(f), 5(f) vary c and keep b = 0.2, so that b + c = 1 holds at c = 0.8 only.
* Figures 7(d), 7(e) have d = 12 with n = 200, but 11 does not divide 200. We cut the stack of identities off after 200
  rows; `reading="d = 11"` gives the width of the other panels instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal

from separatrix.checks import one_of
from separatrix.separation.cross_attention import CrossAttention
from separatrix.separation.decimals import log_width
from separatrix.separation.self_attention import SelfAttention
from separatrix.separation.setting import Setting
from separatrix.separation.softmax_regression import SoftmaxRegression

DELTA = Decimal("0.01")


@dataclass(frozen=True)
class Panel:
    """One panel of a figure.

    Attributes:
        model: the class of the settings.
        axis: the parameter that changes.
        values: the values of this parameter.
        baseline: the values of the other parameters.
        trials: how many trials the paper ran for each value.
        least_width: if neither the baseline nor the axis sets m, the smallest m that follows from n.
        delta: if neither the baseline nor the axis sets m, the delta in m = log(n / delta); None stands for 1.
    """

    model: Callable[..., Setting]
    axis: str
    values: Sequence[Any]
    baseline: Mapping[str, Any]
    trials: int
    least_width: int = 1
    delta: Decimal | None = DELTA


def _steps(first: str, last: str, step: str) -> tuple[Decimal, ...]:
    count = int((Decimal(last) - Decimal(first)) / Decimal(step)) + 1
    return tuple(Decimal(first) + k * Decimal(step) for k in range(count))


def _regression(axis: str, values: Sequence[Any], **baseline: Any) -> Panel:
    return Panel(SoftmaxRegression, axis, values, baseline, trials=1000, delta=None)


def _self(weights: str, axis: str, values: Sequence[Any], **changed: Any) -> Panel:
    usual = {"a0": Decimal("0.01"), "a1": Decimal("1.2"), "b": Decimal("0.2"), "c": Decimal("0.8"), "weights": weights}
    return Panel(SelfAttention, axis, values, {**usual, **changed}, trials=100, least_width=15)


def _cross(axis: str, values: Sequence[Any], **changed: Any) -> Panel:
    return Panel(CrossAttention, axis, values, {"a0": Decimal("0.01"), "a1": 3, "n": 200, **changed}, trials=100)


def _self_panels(figure: int, weights: str) -> dict[str, Panel]:
    return {
        f"{figure}a": _self(weights, "n", range(200, 1001, 10), d=12),
        f"{figure}b": _self(weights, "d", (4, 6, 10, 18, 34, 66), n=256),
        f"{figure}c": _self(weights, "m", range(1, 81), n=200, d=22),
        f"{figure}d": _self(weights, "a1", _steps("0.1", "3", "0.036"), n=200, d=22),
        f"{figure}e": _self(weights, "a0", _steps("0.01", "0.8", "0.01"), n=200, d=22),
        f"{figure}f": _self(weights, "c", _steps("0.5", "0.9", "0.005"), n=200, d=22),
    }


PANELS: Mapping[str, Panel] = {
    "3a": _regression("n", range(100, 2001, 10)),
    "3b": _regression("m", range(1, 101), n=1000),
    **_self_panels(4, "identity"),
    **_self_panels(5, "ones"),
    "7a": _cross("n", range(200, 1001, 10), d=11),
    "7b": _cross("d", (2, 3, 5, 6, 9, 11, 21, 26, 41, 51)),
    "7c": _cross("m", range(1, 81), d=11),
    "7d": _cross("a1", _steps("0.1", "3", "0.036"), d=12),
    "7e": _cross("a0", _steps("0.01", "0.9", "0.01"), d=12),
}
"""The panels of the paper's Figures 3, 4, 5 and 7, by figure and letter."""


def panel_settings(name: str, *, reading: Literal["as printed", "d = 11"] = "as printed") -> list[Setting]:
    """The settings of a panel in the order of its axis.

    Args:
        name: a key of `PANELS`, such as "4b".
        reading: how to read the width of Figures 7(d) and 7(e): "as printed" is d = 12, which does not fit n = 200;
            "d = 11" is the width of the other panels.

    Example:
        >>> settings = panel_settings("4b")
        >>> [(setting.n, setting.d, setting.m) for setting in settings]
        [(256, 4, 15), (256, 6, 15), (256, 10, 15), (256, 18, 15), (256, 34, 15), (256, 66, 15)]
        >>> sum(len(panel_settings(name)) for name in PANELS if name[0] in "457")
        1160
    """
    one_of("name", name, PANELS)
    one_of("reading", reading, ("as printed", "d = 11"))
    panel = PANELS[name]
    fixed = {**panel.baseline, "d": 11} if reading == "d = 11" and name in ("7d", "7e") else panel.baseline
    settings: list[Setting] = []
    for value in panel.values:
        parameters = {**fixed, panel.axis: value}
        parameters.setdefault("m", log_width(parameters["n"], panel.delta, panel.least_width))
        settings.append(panel.model(**parameters, strict=False))
    return settings
