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
from separatrix.explorer.separate.fields import FIELDS, mechanism_named
from separatrix.explorer.separate.probabilities import LABELS, called, make
from separatrix.report.charts import curve
from separatrix.report.tables import columns_from
from separatrix.report.theme import BLUE, GREEN, GREY, ORANGE, Drawing, Value, figure
from separatrix.separation.hypotheses import broken
from separatrix.separation.results import PARTS, Probabilities
from separatrix.separation.row_shares import KINDS, Query, any_row, paper_row
from separatrix.separation.tokens import AttentionSetting

SYMBOLS = {field.name: field.label for field in FIELDS if field.scale is not None}

ALONG = along_field(
    "The parameter on the horizontal axis; the other parameters have the values of the setting.",
    "as in Figures 4, 5 and 7",
    SYMBOLS,
    default="a1",
)
ROW = choice(
    "row",
    "The row of",
    "The query whose row of the attention matrix is shown: the special query (j3, in cross-attention j2), or a query "
    "of another class.",
    "Definitions D.1 and F.1",
    {"special": "the special query", "other": "another query"},
    default="special",
    shared=True,
)

_POINTS, _ADDED, _FLAT = 30, 16, 0.1


def along(sides: Sequence[Mapping[str, Any]], axis: str) -> Drawing:
    """Draw the success probability of softmax attention against a parameter.

    For a single setting the least probable of the four parts of success is drawn, too. The background is shaded where
    every hypothesis of the definition holds. The data of the figure have all four parts.
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
        probabilities = [setting.success_probability() for _, setting in points]
        ends.append((probabilities[0].success, max(probability.success for probability in probabilities)))
        here = make(values).success_probability().success
        name, colour = ("success", BLUE) if len(sides) == 1 else (f"success, {'AB'[i]}", (BLUE, ORANGE)[i])
        if len(sides) == 1:
            _shade(drawn, points)
            drawn.add_trace(_least_part(x, probabilities))
        drawn.add_trace(curve(name, x, [probability.success for probability in probabilities], colour, mode="lines"))
        # The second curve is dashed, so that the first is visible where both coincide.
        drawn.data[-1].line.update(width=3, dash=("solid", "dash")[i])
        marker = {"size": 13, "color": colour, "line": {"color": "white", "width": 2}}
        label = "you are here" if len(sides) == 1 else f"{'AB'[i]} is here"
        drawn.add_scatter(name=label, x=[float(values[axis])], y=[here], mode="markers", marker=marker)
        columns["setting"] += "AB"[i] * len(points)
        columns[axis] += [str(value) for value, _ in points]
        for part in PARTS:
            columns[part] += [getattr(probability, part) for probability in probabilities]
    return Drawing(drawn, _sentence(axis, ends), columns)


def _least_part(x: Sequence[float], probabilities: Sequence[Probabilities]) -> Any:
    """The curve of the least probable of the four parts of success; the hover text names the part."""
    least = [min(PARTS[:-1], key=lambda part: float(getattr(probability, part))) for probability in probabilities]
    y = [getattr(probability, part) for probability, part in zip(probabilities, least, strict=True)]
    drawn = curve("the least probable of its four parts", x, y, GREY, mode="lines", dash="dot")
    drawn.text = [readable(LABELS[part].format("softmax")) for part in least]
    drawn.hovertemplate = "%{text}: %{y:.4g}<extra></extra>"
    return drawn


def _sentence(axis: str, ends: Sequence[tuple[float, float]]) -> str:
    ranges = [
        f"{'' if len(ends) == 1 else f'in setting {name} '}from {start:.3g} at the left to at most {most:.3g}"
        for name, (start, most) in zip("AB", ends, strict=False)
    ]
    shaded = "; the conditions of Definition D.1 or F.1 hold where the background is shaded" if len(ends) == 1 else ""
    return f"The probability of success with softmax along {SYMBOLS[axis]}: {', '.join(ranges)}{shaded}."


def sampled(values: Mapping[str, Any], axis: str) -> list[tuple[Any, AttentionSetting]]:
    """The settings along an axis, with more points where success rises or falls.

    The midpoint of the steepest step is added repeatedly. The settings cache their probabilities.
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
    """The first points of a curve: where possible, those at which the number of classes divides n."""
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
    """Shade the intervals at both ends of which the definition holds."""
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
    """Draw the shares of a row of attention by kind of key, on D0 and D1, for the mechanism and linear attention."""
    rows = _found(values, query)
    name = called(values["mechanism"])
    kinds = [kind for kind in KINDS if any(row.shares[kind] for row in rows)]
    drawn = figure("share of the row", "", height=360)
    drawn.update_xaxes(range=[0, 1.13])
    # Plotly orders categories from bottom to top.
    labels = [[data for data in ("D₁", "D₀") for _ in kinds], [*reversed(kinds)] * 2]
    for mechanism, colour in zip(dict.fromkeys((name, "linear")), (BLUE, ORANGE), strict=False):
        shares = [row.shares for data in ("D₁", "D₀") for row in rows if (row.data, row.mechanism) == (data, mechanism)]
        x = [share[kind] for share in shares for kind in reversed(kinds)]
        drawn.add_bar(name=mechanism, orientation="h", y=labels, x=x, marker_color=colour, cliponaxis=False,
                      text=[f"{share:.3g}" for share in x], textposition="outside")  # fmt: skip
    drawn.update_layout(barmode="group", bargap=0.3, legend={"traceorder": "reversed", "y": -0.18})
    given = {(row.data, row.mechanism): f"{row.shares[KINDS[0]]:.3g}" for row in rows}
    whose = "the special query" if query == "special" else "a query of another class"
    text = (
        f"In the row of {whose}, the special key has the weight {given['D₁', name]} on D₁ and {given['D₀', name]} "
        f"on D₀ with {name}, and {given['D₁', 'linear']} and {given['D₀', 'linear']} with linear attention."
    )
    table = [(row.data, row.mechanism, kind, row.shares[kind]) for row in rows for kind in kinds]
    return Drawing(drawn, text, columns_from(("data", "mechanism", "keys", "share"), table))


@dataclass(frozen=True)
class _Row:
    data: str
    mechanism: str
    shares: Mapping[str, float]


def _found(values: Mapping[str, Any], query: Query) -> list[_Row]:
    setting, mechanism = make(values), values["mechanism"]
    rows = []
    for which in (0, 1):
        if mechanism == "softmax":
            shares = paper_row(setting, which, query, softmax=True)
        else:
            shares = any_row(setting, which, query, mechanism_named(mechanism))
        linear = paper_row(setting, which, query, softmax=False)
        for name, row in {called(mechanism): shares, "linear": linear}.items():
            rows.append(_Row(("D₀", "D₁")[which], name, dict(zip(KINDS, row, strict=True))))
    return rows
