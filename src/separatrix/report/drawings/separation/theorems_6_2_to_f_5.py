"""Theorems 6.2, D.5, E.4 and F.5 of Deng, Song, Yuan and Zhou: success along paths, the four parts beside delta / n."""

from __future__ import annotations

import math

from plotly.subplots import make_subplots  # type: ignore[import-untyped]

from separatrix.report.charts import Axis, Bound, Chart, Curve, Curves, curve, drawing, tick_labels
from separatrix.report.drawings.separation.lemmas_d_2_to_f_16 import FLOOR, finite
from separatrix.report.tables import Results, Row, columns_of, one_row_per_entry
from separatrix.report.theme import BLUE, COLOURS, GREEN, ORANGE, RED, THEME, Drawing
from separatrix.separation.paths import ALLOWED, passes, rare_from

_FIRES = "exp_fires_on_d1"
_TICKS = (1, 2, 3, 5, 10, 20, 50, 100, 300)
_PARTS = {
    _FIRES: ("softmax silent on D<sub>1</sub>", RED, 2),
    "exp_silent_on_d0": ("softmax fires on D<sub>0</sub>", ORANGE, 7),
    "lin_silent_on_d1": ("linear fires on D<sub>1</sub>", GREEN, 4),
    "lin_silent_on_d0": ("linear fires on D<sub>0</sub>", BLUE, 2),
}
"""The label, the colour and the line width of each part; three of them coincide."""


def _power(path: str) -> str:
    base, _, exponent = path.partition("^")
    return f"{base}<sup>{exponent}</sup>" if exponent else base


def _formula(path: str) -> str:
    """The growth of a path in LaTeX, such as $g = n^{0.03}$."""
    base, _, exponent = path.replace("log", r"\log").partition("^")
    return f"$g = {base}^{{{exponent}}}$" if exponent else f"$g = {base}$"


@drawing
def success_along_paths(results: Results) -> Drawing:
    """The success probability against n, for widths d of several growth rates."""
    models = list(dict.fromkeys(cell.parameters["model"] for cell in results))
    paths = list(dict.fromkeys(cell.parameters["path"] for cell in results))
    count = len(models)
    drawn = make_subplots(
        rows=count, cols=1, vertical_spacing=0.3 / count, subplot_titles=models if count > 1 else None
    )
    drawn.update_layout(template=THEME, height=330 * count + 130, margin={"t": 40}, legend={"y": -0.22 / count})
    rows: list[Row] = []
    for cell in results:
        model, path, result = cell.parameters["model"], cell.parameters["path"], cell.result
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
        rows += [
            {
                "model": model,
                "path": path,
                "allowed": int(allowed),
                "log10_n": log10_n,
                "g": result["g"][at],
                "m": result["m"][at],
                "success": result["probability"][at],
                "log10_failure": finite(result["success"][at]),
            }
            for at, log10_n in enumerate(result["log10_n"])
        ]
    drawn.update_xaxes(type="log", **tick_labels(_TICKS))
    drawn.update_xaxes(title_text="log<sub>10</sub> n", row=count, col=1)
    drawn.update_yaxes(title_text="success", range=[-0.03, 1.03])
    first = {cell.parameters["path"]: passes(cell.result) for cell in results if cell.parameters["model"] == models[0]}
    reached = ", ".join(f"$10^{{{n:.3g}}}$ for {_formula(path)}" for path, n in first.items() if n is not None)
    never = ", ".join(_formula(path) for path, n in first.items() if n is None)
    text = (
        f"The exact probability of success by the growth of the number of classes g, solid where the theorem applies: "
        f"it passes 0.99 at n = {reached}; never for {never}."
    )
    return Drawing(drawn, text, columns_of(rows, *rows[0]))


@Curves(
    series=(
        *(
            Curve(f"drawn {part}", f"{label}, C = {{C:g}}", colour, mode="lines", width=width)
            for part, (label, colour, width) in _PARTS.items()
        ),
        Curve("exp_fires_on_d1_C1", "softmax silent on D<sub>1</sub>, C = 1", RED, mode="lines", dash="dot"),
    ),
    x=Axis("log<sub>10</sub> n", "log10_n", log=True, ticks=[tick for tick in _TICKS if tick <= 60]),
    y=Axis("log<sub>10</sub> of the failure probability", range=(-75, 2)),
    bound=Bound("δ / n", lambda log10_n: -2 - log10_n),
    height=480,
    columns=("log10_n", "g", "m", *_PARTS, "exp_fires_on_d1_C1"),
)
def failure_of_the_parts(results: Results) -> Chart:
    """The probability that each of the four parts of success fails, against n, and the allowed delta / n."""
    along = [cell for cell in results if cell.parameters["path"] == "n^0.1" and "width" in cell.parameters]
    most = max(cell.parameters["width"] for cell in along)
    widest = next(cell for cell in along if cell.parameters["width"] == most)
    narrow = next(cell for cell in results if cell.parameters == {**widest.parameters, "width": 1.0})
    curves = {name: widest.result[name] for name in ("log10_n", "g", "m")}
    curves |= {part: [finite(value) for value in widest.result[part]] for part in _PARTS}
    curves |= {f"drawn {part}": [max(value, FLOOR) for value in widest.result[part]] for part in _PARTS}
    curves["exp_fires_on_d1_C1"] = narrow.result[_FIRES]
    late = max((rare_from(widest.result, part) or math.inf) for part in _PARTS)
    few = "is not" if rare_from(narrow.result, _FIRES) is None else "is"
    return one_row_per_entry([{"C": most, **curves}], *curves), (
        f"The probability that each part fails along g = n^0.1, against log n: with C = {most:g} all four are below "
        f"delta / n from n = 10^{late:.0f} on; with C = 1 softmax on D1 {few}."
    )
