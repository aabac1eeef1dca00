"""The figures of the tab Separate: success along one parameter, and rows of the attention matrices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from typing import Any

from separatrix.claims.formulas import readable
from separatrix.explorer.fields import choice
from separatrix.explorer.maps import HEIGHT, along_field
from separatrix.explorer.separate.fields import FIELDS, made
from separatrix.explorer.separate.probabilities import LABELS, called, make
from separatrix.report.charts import curve
from separatrix.report.theme import BLUE, GREEN, GREY, ORANGE, Drawing, Value, figure
from separatrix.separation.hypotheses import broken
from separatrix.separation.results import PARTS, Probabilities
from separatrix.separation.row_shares import KINDS, Query, any_row, paper_row
from separatrix.separation.tokens import AttentionSetting

SYMBOLS = {field.name: field.label for field in FIELDS if field.scale is not None}

ALONG = along_field(
    "Which of the parameters changes from left to right; all others are the setting's.",
    "as in Figures 4, 5 and 7",
    SYMBOLS,
    default="a1",
)
ROW = choice(
    "row",
    "The row of",
    "Which query's row of the attention matrix: the special one (j3, in cross-attention j2), or one of another class.",
    "Definitions D.1 and F.1",
    {"special": "the special query", "other": "another query"},
    default="special",
    shared=True,
)

_POINTS, _ADDED, _FLAT = 30, 16, 0.1


def along(sides: Sequence[Mapping[str, Any]], axis: str) -> Drawing:
    """Success, and for one setting the least probable of its four parts, along a parameter; always with softmax.

    Where every hypothesis of the definition holds, the background is shaded. The data have all four parts.
    """
    log = axis in ("n", "m")
    drawn = figure(SYMBOLS[axis], "probability", log_x=log, height=HEIGHT)
    drawn.update_yaxes(range=[-0.03, 1.03])
    drawn.update_layout(legend={"yref": "container", "y": 0.03, "yanchor": "bottom"})
    columns: dict[str, list[Value]] = {"setting": [], axis: [], **{name: [] for name in PARTS}}
    ends = []
    for i, values in enumerate(sides):
        points = sampled(values, axis)
        x = [float(value) for value, _ in points]
        found = [setting.success_probability() for _, setting in points]
        ends.append((found[0].success, max(one.success for one in found)))
        here = make(values).success_probability().success
        name, colour = ("success", BLUE) if len(sides) == 1 else (f"success, {'AB'[i]}", (BLUE, ORANGE)[i])
        if len(sides) == 1:
            _shade(drawn, points)
            drawn.add_trace(_least_part(x, found))
        drawn.add_trace(curve(name, x, [one.success for one in found], colour, mode="lines"))
        drawn.data[-1].line.width = 3
        marker = {"size": 13, "color": colour, "line": {"color": "white", "width": 2}}
        label = "you are here" if len(sides) == 1 else f"{'AB'[i]} is here"
        drawn.add_scatter(name=label, x=[float(values[axis])], y=[here], mode="markers", marker=marker)
        columns["setting"] += "AB"[i] * len(points)
        columns[axis] += [str(value) for value, _ in points]
        for part in PARTS:
            columns[part] += [getattr(one, part) for one in found]
    return Drawing(drawn, _sentence(axis, ends), columns)


def _least_part(x: Sequence[float], found: Sequence[Probabilities]) -> Any:
    """The curve of the least probable of the four parts of a success, which its hover text names."""
    least = [min(PARTS[:-1], key=lambda part: float(getattr(one, part))) for one in found]
    y = [getattr(one, part) for one, part in zip(found, least, strict=True)]
    drawn = curve("the least probable of its four parts", x, y, GREY, mode="lines", dash="dot")
    drawn.text = [readable(LABELS[part].format("softmax")) for part in least]
    drawn.hovertemplate = "%{text}: %{y:.4g}<extra></extra>"
    return drawn


def _sentence(axis: str, ends: Sequence[tuple[float, float]]) -> str:
    told = [
        f"{'' if len(ends) == 1 else f'in setting {name} '}from {start:.3g} at the left to at most {most:.3g}"
        for name, (start, most) in zip("AB", ends, strict=False)
    ]
    shaded = "; the shade is where Definition D.1 or F.1 holds" if len(ends) == 1 else ""
    return f"The probability of success with softmax along {SYMBOLS[axis]}: {', '.join(told)}{shaded}."


def sampled(values: Mapping[str, Any], axis: str) -> list[tuple[Any, AttentionSetting]]:
    """The settings along an axis, closer where success rises or falls: there the middle of the steepest step is added.

    What was computed once is kept by the settings themselves.
    """
    points = [(x, make({**values, axis: x})) for x in grid(values, axis)]
    if axis not in ("a0", "a1", "b", "c"):
        return points
    heights = [setting.success_probability().success for _, setting in points]
    for _ in range(_ADDED):
        steep = [abs(right - left) for left, right in pairwise(heights)]
        i = steep.index(max(steep))
        if steep[i] < _FLAT:
            break
        middle = (points[i][0] + points[i + 1][0]) / 2
        points.insert(i + 1, (middle, make({**values, axis: middle})))
        heights.insert(i + 1, points[i + 1][1].success_probability().success)
    return points


def grid(values: Mapping[str, Any], axis: str) -> list[Any]:
    """Where a curve is computed first: n among the multiples of the classes, d where they divide n, if some do."""
    g_of = 1 if values["weights"] == "cross" else 2
    if axis == "n":
        g = values["d"] - g_of
        return sorted({max(2, -(-(10**k) // g) * g) for k in range(1, 100, 2)} | {max(2, g), 10**100 // g * g})
    if axis == "m":
        return sorted({round(10 ** (k / 8)) for k in range(49)})
    if axis == "d":
        widths = range(3, 103)
        dividing = [d for d in widths if values["n"] % (d - g_of) == 0]
        return dividing if len(dividing) > 4 else list(widths)[::2]
    low = Decimal("0.01") if axis == "c" else Decimal(0)
    high = Decimal(3) if axis in ("a0", "a1") else Decimal(2)
    return sorted({low + (high - low) * k / _POINTS for k in range(_POINTS + 1)} | {values[axis]})


def _shade(drawn: Any, points: Sequence[tuple[Any, AttentionSetting]]) -> None:
    """Behind the stretches at whose ends the definition holds."""
    good = [not broken(setting.kind, setting.values(), "definition") for _, setting in points]
    start = None
    for (left, right), both in zip(pairwise(points), map(all, pairwise(good)), strict=True):
        if both and start is None:
            start = left[0]
        if start is not None and (not both or right is points[-1]):
            end = right[0] if both else left[0]
            drawn.add_vrect(x0=float(start), x1=float(end), fillcolor=GREEN, opacity=0.1, line_width=0, layer="below")
            start = None


def rows(values: Mapping[str, Any], query: Query) -> Drawing:
    """How a row of the attention matrix is shared out among the kinds of keys: D0 and D1, the mechanism and linear."""
    found = _found(values, query)
    name = called(values["mechanism"])
    kinds = [kind for kind in KINDS if any(one.shares[kind] for one in found)]
    drawn = figure("share of the row", "", height=360)
    drawn.update_xaxes(range=[0, 1.13])
    # Plotly counts the categories from below.
    labels = [[one for one in ("D1", "D0") for _ in kinds], [*reversed(kinds)] * 2]
    for mechanism, colour in zip(dict.fromkeys((name, "linear")), (BLUE, ORANGE), strict=False):
        shares = [
            one.shares for data in ("D1", "D0") for one in found if (one.data, one.mechanism) == (data, mechanism)
        ]
        x = [share[kind] for share in shares for kind in reversed(kinds)]
        drawn.add_bar(name=mechanism, orientation="h", y=labels, x=x, marker_color=colour, cliponaxis=False,
                      text=[f"{one:.3g}" for one in x], textposition="outside")  # fmt: skip
    drawn.update_layout(barmode="group", bargap=0.3, legend={"traceorder": "reversed", "y": -0.18})
    given = {(one.data, one.mechanism): f"{one.shares[KINDS[0]]:.3g}" for one in found}
    whose = "the special query" if query == "special" else "a query of another class"
    text = (
        f"In the row of {whose}, {name} gives the special key {given['D1', name]} on D1 and "
        f"{given['D0', name]} on D0; linear gives it {given['D1', 'linear']} and {given['D0', 'linear']}."
    )
    table = [(one.data, one.mechanism, kind, one.shares[kind]) for one in found for kind in kinds]
    columns = dict(zip(("data", "mechanism", "keys", "share"), map(list, zip(*table, strict=True)), strict=True))
    return Drawing(drawn, text, columns)


@dataclass(frozen=True)
class _Row:
    data: str
    mechanism: str
    shares: Mapping[str, float]


def _found(values: Mapping[str, Any], query: Query) -> list[_Row]:
    setting, mechanism = make(values), values["mechanism"]
    found = []
    for which in (0, 1):
        if mechanism == "softmax":
            shares = paper_row(setting, which, query, softmax=True)
        else:
            shares = any_row(setting, which, query, made(mechanism))
        linear = paper_row(setting, which, query, softmax=False)
        for name, row in {called(mechanism): shares, "linear": linear}.items():
            found.append(_Row(f"D{which}", name, dict(zip(KINDS, row, strict=True))))
    return found
