"""The figures of the tab Learn: the dynamics of one setting or two, the losses of a training run, its W and V."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go  # type: ignore[import-untyped]
from plotly.subplots import make_subplots  # type: ignore[import-untyped]

from separatrix.explorer.learn.dynamics import LONGEST, Descended, Floats
from separatrix.explorer.learn.training_runs import TrainingRun
from separatrix.report.charts import curve
from separatrix.report.tables import columns_from
from separatrix.report.theme import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, SKY, THEME, Drawing, Value, figure

_PANELS = ("loss", "alpha", "C")
_FEW = 20
"""The largest number of records that are drawn with markers."""


def dynamics(runs: Sequence[Descended]) -> Drawing:
    """Draw the loss, alpha and C against the steps: the recursion (solid), the law of the tail (dotted), the theorem's
    bound (dashed).
    """
    drawn = make_subplots(rows=3, cols=1, shared_xaxes=True, vertical_spacing=0.05, row_heights=[0.46, 0.27, 0.27])
    drawn.update_layout(template=THEME, height=720, legend={"y": -0.13})
    drawn.update_xaxes(type="log", exponentformat="power", dtick=1)
    drawn.update_xaxes(title_text="steps", row=3, col=1)
    table: list[tuple[Value, ...]] = []
    for letter, colour, run in zip("AB", (BLUE, ORANGE), runs, strict=False):
        prefix = "" if len(runs) == 1 else f"{letter}: "
        for kind, line, dash in (("recursion", run.run, "solid"), ("law", run.law, "dot")):
            if not len(line.step):
                continue
            numbers = (values.tolist() for values in (line.step, line.loss, line.alpha, line.C))
            table += [(letter, kind, *row) for row in zip(*numbers, strict=True)]
            for panel, name in enumerate(_PANELS, start=1):
                look = {"mode": "lines", "dash": dash, "showlegend": panel == 1, "legendgroup": f"{letter}{kind}"}
                trace = curve(prefix + kind, line.step.tolist(), getattr(line, name).tolist(), colour, **look)
                drawn.add_trace(trace, row=panel, col=1)
        step, allowed = (values.tolist() for values in run.bound)
        limit = curve(f"{prefix}bound of Theorem 3.1", step, allowed, colour, mode="lines", dash="dash")
        drawn.add_trace(limit, row=1, col=1)
    least = min(float(run.last.loss[0]) for run in runs)
    most = max(run.of.d / (2 * run.of.q) for run in runs)
    power = {"type": "log", "exponentformat": "power", "dtick": 1}
    # The bound starts far above every loss, so the limits of the axis are those of the losses.
    drawn.update_yaxes(title_text="loss", **power, range=[np.log10(least / 2), np.log10(most * 8)], row=1, col=1)
    drawn.update_yaxes(title_text="\N{GREEK SMALL LETTER ALPHA}", row=2, col=1)
    drawn.update_yaxes(title_text="C", row=3, col=1)
    text = " ".join(_said(letter, run, len(runs)) for letter, run in zip("AB", runs, strict=False))
    return Drawing(drawn, text, columns_from(("setting", "what", "steps", *_PANELS), table))


def _said(letter: str, descended: Descended, settings: int) -> str:
    of = descended.of
    who = "The loss" if settings == 1 else f"{letter}: the loss"
    beyond = ""
    if of.steps > LONGEST:
        then = "the law computes the others" if of.beyond else r"the law holds only from step $T / \eta$ on"
        beyond = f"; the recursion computes the first {LONGEST:,} steps, and {then}"
    return (
        f"{who} falls from {of.d / (2 * of.q):.3g} to {descended.last.loss[0]:.3g} after {descended.last.step[0]:,.0f} "
        rf"steps, with $\alpha$ at {descended.last.alpha[0]:.3g} and $C$ at {descended.last.C[0]:.3g}{beyond}."
    )


def losses(run: TrainingRun, beside: Sequence[TrainingRun] = ()) -> Drawing:
    """The training loss and the validation losses of a run, and its cosines to the ground truth.

    A run that recorded only losses or only cosines has a figure of one panel, and the caption says so. The training
    losses of the runs in `beside` are drawn in the panel of the losses.
    """
    lines = run.drawable
    panels = sorted({_looks(name)[3] for name in lines})
    both = len(panels) == 2
    rows = {panel: row for row, panel in enumerate(panels, start=1)}
    heights = [0.6, 0.4] if both else [1.0]
    drawn = make_subplots(
        rows=len(panels), cols=1, shared_xaxes=True, vertical_spacing=0.06 * both, row_heights=heights
    )
    drawn.update_layout(template=THEME, height=560, legend={"y": -0.17})
    drawn.update_xaxes(range=[0, run.steps])
    drawn.update_xaxes(title_text="step", row=len(panels), col=1)
    scales: dict[int, dict[str, Any]] = {
        1: {"title_text": "loss", "type": "log", "exponentformat": "power", "dtick": "D2"},
        2: {"title_text": "cosine", "range": [-0.05, 1.05]},
    }
    for panel, row in rows.items():
        drawn.update_yaxes(**scales[panel], row=row, col=1)
    columns: dict[str, list[Value]] = {"step": list(run.step), **{name: list(line) for name, line in lines.items()}}
    mode = "lines" if len(run.step) > _FEW else "lines+markers"
    for name, line in lines.items():
        colour, dash, opacity, panel = _looks(name)
        if "=" in name:
            dash = _DASHES[[other for other in lines if other[0] == name[0]].index(name) % len(_DASHES)]
        look = {"mode": mode, "dash": dash, "opacity": opacity}
        drawn.add_trace(curve(called(name), run.step, line, colour, **look), row=rows[panel], col=1)
    beside_with_loss = [shown_run for shown_run in beside if "loss" in shown_run.drawable and 1 in rows]
    for other_run, colour in zip(beside_with_loss, _BESIDE, strict=False):
        line = curve(f"loss, {other_run.title}", other_run.step, other_run.drawable["loss"], colour, mode="lines")
        drawn.add_trace(line, row=rows[1], col=1)
    if beside_with_loss:
        drawn.update_xaxes(range=[0, max(shown_run.steps for shown_run in (run, *beside_with_loss))])
    sentences = [_reached(shown_run, shown_run.drawable) for shown_run in (run, *beside_with_loss)]
    return Drawing(drawn, " ".join(sentences), columns)


_DASHES = ("dot", "dash", "dashdot", "longdash")
"""The dashes of the validation losses of one colour."""
_BESIDE = (RED, SKY, PURPLE, ORANGE)
"""The colours of the runs that are compared with the chosen run; at most as many runs can be compared."""


def _reached(run: TrainingRun, lines: Mapping[str, Sequence[float | None]]) -> str:
    last = {name: next(value for value in reversed(line) if value is not None) for name, line in lines.items()}
    far = f"at step {run.step[-1]:,} of {run.steps:,}"
    if "loss" in last:
        return f"{run.title} has a loss of {last['loss']:.3g} {far}."
    cosines = [f"{value:.3f} ({name.removeprefix('cosine of ')})" for name, value in last.items() if "cosine" in name]
    near = f"; the cosines with the ground truth are {' and '.join(cosines)}" if cosines else ""
    return f"{run.title}: no training loss was recorded{near} {far}."


def called(line: str) -> str:
    """The label of a curve of a run.

    >>> called("cosine of W"), called("T=96")
    ('cosine of W', 'validation loss, T = 96')
    """
    return f"validation loss, {line.replace('=', ' = ')}" if "=" in line else line


def _looks(name: str) -> tuple[str, str, float, int]:
    """The colour, dash, opacity and panel of a curve."""
    if name.startswith("cosine"):
        return (PURPLE, "solid", 1.0, 2) if name.endswith("W") else (ORANGE, "dash", 1.0, 2)
    if name == "loss":
        return BLUE, "solid", 1.0, 1
    return (GREEN if name.startswith("T=") else GREY), "dot", 0.8, 1


def weights(step: int, W: Floats, V: Floats, name: str) -> Drawing:
    """Draw W and V at a step as heat maps, each with its own colour scale that is centred at zero."""
    drawn = figure("column: tokens, then encodings", "row of W", height=640)
    drawn.update_layout(
        xaxis={"anchor": "y2"},
        yaxis={"domain": [0.36, 1]},
        yaxis2={"domain": [0, 0.28], "title": {"text": "row of V"}},
        margin={"t": 20},
    )
    drawn.update_yaxes(autorange="reversed")
    table: list[tuple[Value, ...]] = []
    for label, matrix, axis, top, share in (("W", W, "y", 1.0, 0.64), ("V", V, "y2", 0.28, 0.28)):
        limit = float(np.abs(matrix).max()) or 1.0
        drawn.add_trace(
            go.Heatmap(
                z=np.round(matrix, 4).tolist(),
                zmin=-limit,
                zmax=limit,
                colorscale="RdBu",
                colorbar={"len": share, "y": top, "yanchor": "top", "thickness": 12},
                yaxis=axis,
                hovertemplate=label + "[%{y}, %{x}] = %{z:.3f}<extra></extra>",
            )
        )
        table += [(step, label, i, j, round(float(matrix[i, j]), 5)) for i, j in np.ndindex(matrix.shape)]
    d = V.shape[0]
    diagonal = float(np.diagonal(W[d:, d:]).mean())
    rest = W[d:, d:][~np.eye(W.shape[0] - d, dtype=bool)]
    text = (
        f"W and V of {name} after {step:,} steps: the diagonal of W's block of encodings is {diagonal:.3g} on average, "
        f"and the other entries of the block are {float(np.sqrt((rest**2).mean())) if rest.size else 0.0:.2g}."
    )
    return Drawing(drawn, text, columns_from(("step", "matrix", "row", "column", "value"), table))
