"""Settings of a layer of order 3 on triples, recall and text: learning rates with seed 0, and leads over seeds."""

from __future__ import annotations

from separatrix.report.charts import curve, drawing, error_bars
from separatrix.report.drawings.studies.learning.runs import LINES
from separatrix.report.tables import Results, columns_of
from separatrix.report.theme import Drawing, figure
from separatrix.studies.learning.layer_settings import PLAIN
from separatrix.studies.learning.layer_settings_tasks import NAMES, measure_of, runs_on
from separatrix.studies.learning.runs import Expectation, at, by_attention


@drawing
def layer_rates(results: Results) -> Drawing:
    """The loss of each layer on each task with seed 0, against the learning rate."""
    rows = []
    drawn = figure("loss with the learning rate 0.005, nats", "loss with the learning rate 0.01, nats", height=560)
    layers: dict[str, list[tuple[float, float]]] = {}
    for task, task_name in NAMES.items():
        for name, runs in by_attention(runs_on(task, results)).items():
            losses = {run.parameters["lr"]: at(run, "steps", "loss") for run in runs}
            low, high = sorted(losses)
            layers.setdefault(name, []).append((losses[low], losses[high]))
            rows += [{"task": task_name, "layer": name, "rate": rate, "loss": loss} for rate, loss in losses.items()]
    for name, points in layers.items():
        first, second = zip(*points, strict=True)
        drawn.add_trace(curve(name, first, second, LINES[name][0], mode="markers"))
    drawn.update_layout(legend={"y": -0.2})
    better = sum(second < first for points in layers.values() for first, second in points)
    count = sum(len(points) for points in layers.values())
    text = (
        "Loss with seed 0 for the two learning rates that were tried, of each layer on triples, recall and text: 0.01 "
        f"has the smaller loss in {better} of {count} cases."
    )
    return Drawing(drawn, text, columns_of(rows, "task", "layer", "rate", "loss"))


@drawing
def layer_leads(results: Results) -> Drawing:
    """The lead of each layer over the layer without norms on each task, with its 95% interval."""
    rows: list[dict[str, object]] = []
    significant = 0
    drawn = figure("task", "lead over the layer without norms", height=560)
    for name in by_attention(results):
        if name == PLAIN:
            continue
        leads = [
            Expectation(name, PLAIN).lead(by_attention(runs_on(task, results)), measure_of(task)) for task in NAMES
        ]
        means = [lead.value for lead in leads]
        spread = error_bars(means, [lead.low for lead in leads], [lead.high for lead in leads])
        drawn.add_trace(curve(name, [*NAMES.values()], means, LINES[name][0], mode="markers", error_y=spread))
        significant += sum(lead.low > 0 or lead.high < 0 for lead in leads)
        rows += [
            {"task": task, "layer": name, "lead": lead.value, "low": lead.low, "high": lead.high}
            for task, lead in zip(NAMES.values(), leads, strict=True)
        ]
    drawn.update_layout(legend={"y": -0.2}, scattermode="group")
    text = (
        "The lead of each layer over the layer with the scale 1/sqrt(d) and without norms, in accuracy on triples and "
        f"recall and in nats on text, with its 95% interval: {significant} of {len(rows)} are significant."
    )
    return Drawing(drawn, text, columns_of(rows, "task", "layer", "lead", "low", "high"))
