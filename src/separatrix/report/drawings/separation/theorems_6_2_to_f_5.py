"""Theorems 6.2, D.5, E.4 and F.5 of Deng, Song, Yuan and Zhou: success along paths, the four parts beside delta / n."""

from __future__ import annotations

import math
from collections.abc import Sequence

from plotly.subplots import make_subplots  # type: ignore[import-untyped]

from separatrix.claims.ledger import Found
from separatrix.report.strokes import curve, drawing
from separatrix.report.theme import BLUE, COLOURS, GREEN, GREY, ORANGE, RED, THEME, Drawing, Value, figure
from separatrix.separation.paths import ALLOWED, passes, rare_from

_FIRES = "exp_fires_on_d1"


_TICKS = (1, 2, 3, 5, 10, 20, 50, 100, 300)


_PARTS = (
    (_FIRES, "softmax silent on D1", RED),
    ("exp_silent_on_d0", "softmax fires on D0", ORANGE),
    ("lin_silent_on_d1", "linear fires on D1", GREEN),
    ("lin_silent_on_d0", "linear fires on D0", BLUE),
)


def _power(path: str) -> str:
    base, _, exponent = path.partition("^")
    return f"{base}<sup>{exponent}</sup>" if exponent else base


@drawing
def success_along_paths(found: Sequence[Found]) -> Drawing:
    """Success against n for each growth of d; solid where the theorem allows it."""
    models = list(dict.fromkeys(one.parameters["model"] for one in found))
    paths = list(dict.fromkeys(one.parameters["path"] for one in found))
    count = len(models)
    drawn = make_subplots(
        rows=count, cols=1, vertical_spacing=0.3 / count, subplot_titles=models if count > 1 else None
    )
    drawn.update_layout(template=THEME, height=330 * count + 130, margin={"t": 40}, legend={"y": -0.22 / count})
    columns: dict[str, list[Value]] = {
        name: [] for name in ("model", "path", "allowed", "log10_n", "g", "m", "success", "log10_failure")
    }
    for one in found:
        model, path, result = one.parameters["model"], one.parameters["path"], one.result
        allowed = path in ALLOWED[model]
        line = curve(
            f"g = {_power(path)}{'' if count > 1 else ', allowed' if allowed else ', not allowed'}",
            result["log10_n"],
            result["probability"],
            COLOURS[paths.index(path) % len(COLOURS)],
            mode="lines",
            dash="solid" if allowed else "dot",
            legendgroup=path,
            showlegend=model == models[0],
        )
        drawn.add_trace(line, row=models.index(model) + 1, col=1)
        for k, log10_n in enumerate(result["log10_n"]):
            chance = result["success"][k]
            row = (model, path, int(allowed), log10_n, result["g"][k], result["m"][k], result["probability"][k])
            for column, value in zip(columns.values(), (*row, chance if math.isfinite(chance) else None), strict=True):
                column.append(value)
    drawn.update_xaxes(type="log", tickvals=_TICKS, ticktext=[str(tick) for tick in _TICKS])
    drawn.update_xaxes(title_text="log<sub>10</sub> n", row=count, col=1)
    drawn.update_yaxes(title_text="success", range=[-0.03, 1.03])
    first = {one.parameters["path"]: passes(one.result) for one in found if one.parameters["model"] == models[0]}
    reached = ", ".join(f"10^{n:.3g} along {path}" for path, n in first.items() if n is not None)
    never = ", ".join(path for path, n in first.items() if n is None)
    text = (
        f"Exact success against log n for each growth of the number of classes g, solid where the theorem allows it: "
        f"it passes 0.99 at n = {reached}; never along {never}."
    )
    return Drawing(drawn, text, columns)


@drawing
def failure_of_the_parts(found: Sequence[Found]) -> Drawing:
    """The chance that each of the four parts fails, along one allowed path, beside delta / n."""
    along = [one for one in found if one.parameters["path"] == "n^0.1"]
    most = max(one.parameters["width"] for one in along)
    one = next(one for one in along if one.parameters["width"] == most)
    narrow = next(x for x in found if x.parameters == {**one.parameters, "width": 1.0})
    drawn = figure("log<sub>10</sub> n", "log<sub>10</sub> of the chance of failure", log_x=True, height=480)
    x = one.result["log10_n"]
    for (part, name, colour), width in zip(_PARTS, (2, 7, 4, 2), strict=True):  # three of them coincide
        y = [max(value, -400.0) for value in one.result[part]]
        line = curve(f"{name}, C = {most:g}", x, y, colour, mode="lines")
        line.update(line_width=width)
        drawn.add_trace(line)
    y = narrow.result[_FIRES]
    drawn.add_trace(curve("softmax silent on D1, C = 1", narrow.result["log10_n"], y, RED, mode="lines", dash="dot"))
    drawn.add_trace(curve("δ / n", x, [-2 - k for k in x], GREY, mode="lines", dash="dash"))
    drawn.update_yaxes(range=[-75, 2])
    ticks = [tick for tick in _TICKS if tick <= 60]
    drawn.update_xaxes(tickvals=ticks, ticktext=[str(tick) for tick in ticks])
    columns: dict[str, list[Value]] = {"log10_n": list(x), "g": list(one.result["g"]), "m": list(one.result["m"])}
    columns |= {part: [v if math.isfinite(v) else None for v in one.result[part]] for part, _, _ in _PARTS}
    columns["exp_fires_on_d1_C1"] = list(y)
    late = max((rare_from(one.result, part) or math.inf) for part, _, _ in _PARTS)
    few = "is not" if rare_from(narrow.result, _FIRES) is None else "is"
    text = (
        f"The chances that each part fails along g = n^0.1, against log n: with C = {most:g} all four are below "
        f"delta / n from n = 10^{late:.0f} on; with C = 1 softmax on D1 {few}."
    )
    return Drawing(drawn, text, columns)
