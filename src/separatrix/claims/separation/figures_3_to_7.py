"""Figures 3, 4, 5 and 7: the probability of E_success along the paper's sweeps.

The paper draws curves of 100 or 1000 trials. Here each point has the exact probability (for softmax regression,
certified bounds) and a Monte Carlo estimate with the paper's number of trials. The paper prints no value of its curves,
in a table or in the text, so no program can decide whether they are correct, and the verdict is *illustrated*. The
checks compare the Monte Carlo estimates with the exact probabilities, point by point and all together, and report which
settings satisfy the hypotheses.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

from separatrix.claims.ledger import CellResult, Erratum, Finding, Neighbour, Rank, Verdict, claim, typographical
from separatrix.lab.cell import Cell
from separatrix.lab.registry import experiment
from separatrix.separation import HYPOTHESES, PANELS, Bracket, SelfAttention, Setting, panel_settings

_CHANCE = 1e-9
"""The significance level: a simulated count less likely than this refutes the exact probability or the simulation."""


@experiment(version=1, name="separation.panel")
def panel(
    name: str, reading: Literal["as printed", "d = 11"], every: int, simulated: int, seed: int
) -> dict[str, list[Any] | int | None]:
    """Compute every `every`-th point of a panel exactly, and every `simulated`-th of these by Monte Carlo (0: none).

    `low` and `high` bound the probability, and are equal where it is exact. `inside` says whether the definition and
    the theorem allow the swept parameter; `broken` names the hypotheses that a point violates.
    """
    declared = PANELS[name]
    rows = []
    for at, setting in enumerate(panel_settings(name, reading=reading)[::every]):
        probability = setting.success_probability()
        low, high = (
            (probability.low, probability.high) if isinstance(probability, Bracket) else (probability, probability)
        )
        hits = None
        if simulated and at % simulated == 0:
            hits = setting.simulate(declared.trials, seed + at).success.hits
        rows.append(
            {
                "x": float(setting.values()[declared.axis]),
                "low": low.success,
                "high": high.success,
                "hits": hits,
                "inside": _inside(setting, declared.axis, declared.delta),
                "broken": [str(hypothesis) for hypothesis in setting.broken_hypotheses()],
            }
        )
    first = panel_settings(name, reading=reading)[0]
    entries = first.weight_matrix().numel() if isinstance(first, SelfAttention) else None
    columns: dict[str, list[Any] | int | None] = {key: [row[key] for row in rows] for key in rows[0]}
    return {**columns, "trials": declared.trials, "n": first.n, "weight_entries": entries}


def _inside(setting: Setting, axis: str, delta: Any) -> bool:
    if axis == "m":  # Definition 3.7: m = C log(n / delta) with C > 1
        return setting.m > math.log(setting.n / float(delta or 1))
    values = setting.values()
    about = [h for h in HYPOTHESES[setting.kind] if axis in h.parameters]
    return all(h.holds(values) for h in about if h.level == "definition" or h.interval is not None)


def _panels(figure: str, every: Mapping[str, tuple[int, int]] | None = None) -> Iterator[Cell]:
    for name in (name for name in PANELS if name[0] == figure):
        step, simulated = (every or {}).get(name, (1, 1))
        yield panel.cell(seed=1, name=name, reading="as printed", every=step, simulated=simulated)
        if name in ("7d", "7e"):
            yield panel.cell(seed=1, name=name, reading="d = 11", every=step, simulated=0)


def chance(hits: int, trials: int, low: float, high: float) -> float:
    """The one-sided p-value of the count `hits`, for the most favourable probability in [low, high].

    >>> round(chance(0, 10, 0.5, 0.5) * 2**10, 9), chance(5, 10, 0.4, 0.6)
    (1.0, 1.0)
    """
    if low <= hits / trials <= high:
        return 1.0
    p = low if hits / trials < low else high
    side = range(hits + 1) if hits / trials < p else range(hits, trials + 1)
    return math.fsum(_point(k, trials, p) for k in side)


def _point(k: int, trials: int, p: float) -> float:
    if p in (0.0, 1.0):
        return float(k == trials * p)
    log = math.lgamma(trials + 1) - math.lgamma(k + 1) - math.lgamma(trials - k + 1)
    return math.exp(log + k * math.log(p) + (trials - k) * math.log1p(-p))


def by_name(cells: Sequence[CellResult], reading: str = "as printed") -> dict[str, Mapping[str, Any]]:
    """The panels of one reading, by name."""
    return {cell.parameters["name"]: cell.result for cell in cells if cell.parameters["reading"] == reading}


def all_at_once(points: Sequence[tuple[int, int, float, float]]) -> float:
    """An upper bound on the p-value of the sum of all counts.

    Each point has its hits, its trials and the bounds on its probability. By Bernstein's inequality a sum of
    independent counts with variance v exceeds its mean by x or more with probability at most exp(-x^2 / (2 v + 2 x /
    3)).

    >>> all_at_once([(50, 100, 0.5, 0.5)]), round(all_at_once([(500, 1000, 0.25, 0.4)]), 9)
    (1.0, 1.1e-08)
    """
    hits = sum(hits for hits, *_ in points)
    low, high = (math.fsum(trials * ends[side] for _, trials, *ends in points) for side in (0, 1))
    off = max(hits - high, low - hits, 0.0)
    # The variance is largest at the end of each interval that is closer to one half.
    v = math.fsum(trials * p * (1 - p) for _, trials, *ends in points for p in [min(max(0.5, ends[0]), ends[1])])
    return math.exp(-(off**2) / (2 * v + 2 * off / 3)) if off else 1.0


def _numbers(cells: Sequence[CellResult], scale: float) -> tuple[dict[str, float | str], float]:
    """Return the numbers of each panel and the least p-value, with the probabilities multiplied by `scale`.

    The p-value of all points together is included, because it can reject where single points cannot.
    """
    numbers: dict[str, float | str] = {}
    counts: list[tuple[int, int, float, float]] = []
    for name, result in by_name(cells).items():
        low, high = min(result["low"]), max(result["high"])
        numbers[f"success in panel {name[1]}, along {PANELS[name].axis}"] = f"{low:.4f} to {high:.4f}"
        points = zip(result["hits"], result["low"], result["high"], strict=True)
        counts += [(hits, result["trials"], scale * p, scale * q) for hits, p, q in points if hits is not None]
    least, together = min(chance(*point) for point in counts), all_at_once(counts)
    numbers["points simulated"] = len(counts)
    numbers["least probability of a simulated count"] = least
    numbers["probability of all counts together, at most"] = together
    return numbers, min(least, together)


_SMALLER = Neighbour("probabilities that are smaller by a twentieth", {"scale": 0.95})
_NOT_READ = (
    "The paper prints no value of the curves, in a table or in the text, so that we cannot decide whether "
    "they show this. "
)


def _judged(numbers: dict[str, float | str], least: float, shows: Mapping[str, bool], note: str) -> Finding:
    """Return *illustrated* if the simulated counts fit the exact probabilities.

    An earlier version returned `holds`, although both sides are our computations and no value of the paper is compared.
    """
    if least < _CHANCE:
        misfit = "A simulated count does not fit the exact probability."
        return Finding(Verdict.FAILS_AS_PRINTED, numbers, misfit, shows)
    return Finding(Verdict.ILLUSTRATED, numbers, _NOT_READ + note, shows)


_FIGURE_3 = {"3a": (5, 2), "3b": (1, 10)}


@claim(
    where="Figure 3",
    says=r"The figure shows softmax regression: the share of 1000 trials in which $E_{\text{success}}$ happens, (a) "
    r"against $n$ with $m = \log n$, (b) against $m$ at $n = 1000$.",
    cells=lambda: _panels("3", _FIGURE_3),
    figures=("figure_3",),
    neighbours=(_SMALLER,),
)
def figure_3(cells: Sequence[CellResult], scale: float = 1.0) -> Finding:
    """Use every fifth n and simulate every second of these; use every m and simulate every tenth."""
    return _judged(*_numbers(cells, scale), {}, _FIGURE_3_NOTE)


_FIGURE_3_NOTE = (
    "The paper does not print tau; it is 0.25 here, and another claim shows its effect. The bounds are certified for "
    "the random data, and from n = 200 on both are close to 1 - 2^-m."
)


@claim(
    where="Figure 3",
    part="every point",
    says="The figure shows softmax regression; every point of the paper's sweeps is simulated.",
    cells=lambda: _panels("3"),
    profile="full",
    neighbours=(_SMALLER,),
)
def figure_3_whole(cells: Sequence[CellResult], scale: float = 1.0) -> Finding:
    return _judged(*_numbers(cells, scale), {}, _FIGURE_3_NOTE)


def _only(values: Sequence[Any], x: Sequence[float], at: float) -> bool:
    """Whether the flags are set at exactly one x."""
    return [place for place, value in zip(x, values, strict=True) if value] == [at]


_SWEPT_TWICE = typographical(
    printed="In panel (e) $a_0$ is swept, but $a_0 = 0.01$ is also in the list of the fixed parameters; in panel (f) "
    "$a_0$ is not given.",
    right="$a_0$ is swept in panel (e), and we take $a_0 = 0.01$ in panel (f).",
    why="A parameter has one value at a time, and at most one point of the sweep has $a_0 = 0.01$.",
    slip="swept and fixed",
    shown_by="a_0 = 0.01 at one point of panel (e)",
)
_OUTSIDE_D_1 = Erratum(
    printed=r"The data are set as described in Section D.1, with $a_1 \in [0.1, 3]$ in panel (d), $a_0 \in "
    r"[0.01, 0.8]$ in panel (e), and $c \in [0.5, 0.9]$ with $b = 0.2$ in panel (f).",
    right=r"The points with $a_1 < 0.7$, those with $a_0 \ge 0.1$, and those of panel (f) but for $c = 0.8$ are "
    "outside Definition D.1.",
    why=r"Definition D.1 has $a_1 \ge 0.7$, $a_0 < 0.1$ and $b + c = 1$.",
    rank=Rank.STATEMENT,
    slip="sweeps that leave the definition",
    shown_by="points of panels (d), (e) and (f) outside Definition D.1",
)
_OUTSIDE_F_1 = Erratum(
    printed=r"The data are set as described in Section F.1, with $a_1 \in [0.1, 3]$ in panel (d) and $a_0 \in "
    "[0.01, 0.9]$ in panel (e).",
    right=r"The points with $a_1 \le 1$ and those with $a_0 \ge 0.1$ are outside Definition F.1.",
    why="Definition F.1 has $a_1 > 1$ and $a_0 < 0.1$.",
    rank=Rank.STATEMENT,
    slip="sweeps that leave the definition",
    shown_by="points of panels (d) and (e) outside Definition F.1",
)


def _leaves(result: Mapping[str, Any], parameter: str, allowed: Callable[[float], bool]) -> bool:
    """Whether a panel violates a definition exactly at the points at which the swept parameter is not allowed."""
    ranges = [[name for name in broken if f"({parameter} in " in name] for broken in result["broken"]]
    left = [any(name.startswith("Definition") for name in names) for names in ranges]
    return any(left) and left == [not allowed(x) for x in result["x"]]


def _self_shows(figure: str, cells: Sequence[CellResult]) -> dict[str, bool]:
    panels = by_name(cells)
    e, f = panels[f"{figure}e"], panels[f"{figure}f"]
    summed = [not any("b + c = 1" in hypothesis for hypothesis in broken) for broken in f["broken"]]
    return {
        _SWEPT_TWICE.shown_by: e["x"].count(0.01) == 1 < len(e["x"]),
        _OUTSIDE_D_1.shown_by: _leaves(panels[f"{figure}d"], "a1", lambda a1: a1 >= 0.7)
        and _leaves(e, "a0", lambda a0: a0 < 0.1)
        and _only(summed, f["x"], 0.8),
    }


def _far_from_one(panels: Mapping[str, Mapping[str, Any]], figure: str) -> str:
    a, b = panels[f"{figure}a"], panels[f"{figure}b"]
    return (
        f"At the paper's sizes success is far from 1: {a['low'][0]:.2f} at n = 200, d = 12, m = 15, and over all n of "
        f"panel (a) at most {max(a['high']):.2f}. The largest in panel (b) is {max(b['high']):.3f}, at d = "
        f"{b['x'][b['high'].index(max(b['high']))]:.0f}."
    )


@claim(
    where="Figure 4",
    says=r"The figure shows self-attention with $Q K^\top = I$: the share of 100 trials in which "
    r"$E_{\text{success}}$ happens, against $n$, $d$, $m$, $a_1$, $a_0$, $c$.",
    cells=lambda: _panels("4"),
    figures=("figure_4",),
    errata=(_SWEPT_TWICE, _OUTSIDE_D_1),
    neighbours=(_SMALLER,),
)
def figure_4(cells: Sequence[CellResult], scale: float = 1.0) -> Finding:
    """Count the points that violate the hypotheses of Theorem E.4.

    This was once reported as a misprint, but the paper does not claim otherwise.
    """
    outside = [
        any("Theorem E.4" in hypothesis for hypothesis in broken)
        for p in by_name(cells).values()
        for broken in p["broken"]
    ]
    numbers, least = _numbers(cells, scale)
    numbers["points outside Theorem E.4, which requires b < 0.2 and b^2 + c^2 = 1"] = (
        f"{sum(outside)} of {len(outside)}"
    )
    return _judged(numbers, least, _self_shows("4", cells), _far_from_one(by_name(cells), "4"))


@claim(
    where="Figure 5",
    says=r"The figure shows self-attention with $Q K^\top = \mathbf{1}$: the share of 100 trials in which "
    r"$E_{\text{success}}$ happens, against $n$, $d$, $m$, $a_1$, $a_0$, $c$.",
    cells=lambda: _panels("5"),
    figures=("figure_5",),
    errata=(
        _SWEPT_TWICE,
        _OUTSIDE_D_1,
        typographical(
            printed=r"$X = \mathbf{1}_{n^2}$ (Section 7.2.2 and the caption).",
            right=r"$x = \mathbf{1}_{d^2}$.",
            why=r"$X$ stands for $\text{vec}(Q K^\top)$, which has $d^2$ entries and is $x$ in Definition C.1; in "
            r"Equation (1) $X$ is the $d \times d$ matrix. (Sections 7.2.1 and F.6 print $X = \text{vec}(I_d)$ for "
            "$x$ as well.)",
            shown_by="QK^T has d^2 and not n^2 entries",
        ),
    ),
    neighbours=(_SMALLER,),
)
def figure_5(cells: Sequence[CellResult], scale: float = 1.0) -> Finding:
    a = by_name(cells)["5a"]
    shows = {**_self_shows("5", cells), "QK^T has d^2 and not n^2 entries": a["weight_entries"] == 12**2 != a["n"] ** 2}
    return _judged(*_numbers(cells, scale), shows, _far_from_one(by_name(cells), "5"))


@claim(
    where="Figure 7",
    says=r"The figure shows cross-attention: the share of 100 trials in which $E_{\text{success}}$ happens, against "
    "$n$, $d$, $m$, $a_1$, $a_0$.",
    cells=lambda: _panels("7"),
    figures=("figure_7",),
    errata=(
        Erratum(
            printed="Panels (d) and (e) have $n = 200$ and $d = 12$.",
            right="The panels have $d = 11$, as panels (a) and (c) do; or the stack of identities is cut off.",
            why="Definition F.1 has $n = (d - 1) t$, and 11 does not divide 200. We draw the figure with both "
            "readings.",
            rank=Rank.STATEMENT,
            shown_by="n = (d - 1) t fails at d = 12, holds at d = 11",
        ),
        typographical(
            printed="In panel (e) $a_0$ is swept and $a_0 = 0.01$ is fixed, $a_1$ is not given; in panel (c) $m$ "
            r"is swept and $m = \log(n / \delta)$ is fixed.",
            right="$a_0$ and $m$ are swept; $a_1 = 3$ as elsewhere.",
            why="A parameter cannot be both swept and fixed.",
            slip="swept and fixed",
            shown_by="a_0 = 0.01 at one point of panel (e), m = 9 at one of panel (c)",
        ),
        _OUTSIDE_F_1,
    ),
    neighbours=(_SMALLER,),
)
def figure_7(cells: Sequence[CellResult], scale: float = 1.0) -> Finding:
    printed, corrected = by_name(cells), by_name(cells, "d = 11")
    cut = [
        any("n = (d - 1) t" in hypothesis for hypothesis in broken)
        for name in ("7d", "7e")
        for broken in printed[name]["broken"]
    ]
    even = [
        any("n = (d - 1) t" in hypothesis for hypothesis in broken)
        for p in corrected.values()
        for broken in p["broken"]
    ]
    apart = max(
        abs(x - y) for name in ("7d", "7e") for x, y in zip(printed[name]["low"], corrected[name]["low"], strict=True)
    )
    shows = {
        "n = (d - 1) t fails at d = 12, holds at d = 11": all(cut) and not any(even),
        "a_0 = 0.01 at one point of panel (e), m = 9 at one of panel (c)": printed["7e"]["x"].count(0.01) == 1
        and printed["7c"]["x"].count(9.0) == 1,
        _OUTSIDE_F_1.shown_by: _leaves(printed["7d"], "a1", lambda a1: a1 > 1)
        and _leaves(printed["7e"], "a0", lambda a0: a0 < 0.1),
    }
    numbers, least = _numbers(cells, scale)
    numbers["largest difference between the readings d = 12 and d = 11"] = apart
    note = (
        f"With m = log(n / delta) success stays at {max(printed['7a']['high']):.3f} or below in panel (a): the "
        "probability that F_exp is 0 on D1 is (3/4)^m."
    )
    return _judged(numbers, least, shows, note)
