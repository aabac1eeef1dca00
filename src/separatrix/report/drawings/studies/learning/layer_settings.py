"""Settings of a layer of order 3: its lead over the layer without norms, task by task."""

from __future__ import annotations

import plotly.graph_objects as go  # type: ignore[import-untyped]

from separatrix.report.charts import drawing
from separatrix.report.tables import Results, columns_of
from separatrix.report.theme import BLUE, GREEN, GREY, ORANGE, PURPLE, Drawing, figure
from separatrix.studies.learning.layer_settings import PLAIN, TASKS, task_of_run
from separatrix.studies.learning.runs import Expectation, by_attention


@drawing
def layer_settings(results: Results) -> Drawing:
    """The lead of each setting of a layer of order 3 over the layer without norms, on each task."""
    drawn = figure(f"lead over {PLAIN}: accuracy, or nats on text", "", height=560)
    rows = []
    every = []
    for task, colour, shift in zip(TASKS, (BLUE, ORANGE, GREEN, PURPLE), (0.24, 0.08, -0.08, -0.24), strict=True):
        ours = by_attention([run for run in results if task_of_run(run) == task])
        names = [name for name in ours if name != PLAIN]
        leads = [Expectation(name, PLAIN).lead(ours, "loss" if task == "text" else "accuracy") for name in names]
        every += leads
        spread = {"type": "data", "array": [lead.high - lead.value for lead in leads], "thickness": 1.5, "width": 4}
        drawn.add_trace(
            go.Scatter(
                name=task,
                x=[lead.value for lead in leads],
                y=[place + shift for place in range(len(names))],
                error_x=spread,
                mode="markers",
                marker={"color": colour, "size": 8},
            )
        )
        rows += [
            {"setting": name, "task": task, "lead": lead.value, "low": lead.low, "high": lead.high}
            for name, lead in zip(names, leads, strict=True)
        ]
    drawn.add_vline(x=0, line={"color": GREY, "width": 1, "dash": "dash"})
    drawn.update_yaxes(tickvals=list(range(len(names))), ticktext=names, range=[-0.6, len(names) - 0.4])
    drawn.update_layout(legend={"y": -0.15})
    text = (
        f"Leads over {PLAIN} with the scale 1/sqrt(d) and no norms, the mean of the seeds with its 95% interval: of "
        f"{len(rows)} leads {sum(lead.low > 0 for lead in every)} are significantly above zero, and "
        f"{sum(lead.high < 0 for lead in every)} below."
    )
    return Drawing(drawn, text, columns_of(rows, "setting", "task", "lead", "low", "high"))
