"""Two-hop joins: the accuracy of guessing, learning rates, CPU time, and more facts than in training."""

from __future__ import annotations

from statistics import fmean

from separatrix.report.charts import curve, drawing, error_bars
from separatrix.report.drawings.studies.learning.runs import LINES
from separatrix.report.tables import Results, columns_of, rows_of
from separatrix.report.theme import GREY, Drawing, figure
from separatrix.studies.learning.join import THREE, TWO
from separatrix.studies.learning.join_alike import MILLISECONDS, facts_of
from separatrix.studies.learning.runs import at, by_attention
from separatrix.studies.seeds import interval


@drawing
def join_guessing(results: Results) -> Drawing:
    """The accuracy of guessing among the facts with the second relation, against the number of facts."""
    rows = sorted(rows_of([run for run in results if "relations" in run.parameters]), key=lambda row: int(row["facts"]))
    facts, guessed = [row["facts"] for row in rows], [row["guessing"] for row in rows]
    drawn = figure("facts", "accuracy of a guess", log_x=True, height=420)
    drawn.update_xaxes(tickvals=facts, ticktext=[str(count) for count in facts])
    drawn.add_trace(curve("guessing without a join", facts, guessed, GREY))
    text = (
        "The accuracy of guessing among the facts with the second relation, without joining two facts: "
        f"{guessed[0]:.2f} with {facts[0]} facts, {guessed[-1]:.2f} with {facts[-1]}. Both constructions by hand are "
        "always right."
    )
    return Drawing(drawn, text, columns_of(rows, "facts", "guessing", "by_one_head", "by_two_hops"))


@drawing
def join_longer(results: Results) -> Drawing:
    """The accuracy of each attention on inputs with more facts than it was trained on."""
    ours = by_attention(results)
    lengths = [results[0].parameters["size"][0], *results[0].parameters["longer"]]
    drawn = figure("facts of an input", "accuracy", height=440 + 20 * len(ours))
    drawn.update_xaxes(tickvals=lengths)
    rows = []
    means: dict[str, float] = {}
    for name, runs in ours.items():
        colour, dash = LINES[name]
        seeds = [[run.result["accuracy"][-1], *run.result["elsewhere"]] for run in runs]
        bars = [interval(values) for values in zip(*seeds, strict=True)]
        spread = error_bars([bar.value for bar in bars], [bar.low for bar in bars], [bar.high for bar in bars])
        drawn.add_trace(curve(name, lengths, [bar.value for bar in bars], colour, dash=dash, error_y=spread))
        means[name] = bars[-1].value
        for run, values in zip(runs, seeds, strict=True):
            rows += [
                {"attention": name, "seed": run.seed, "facts": facts, "accuracy": value}
                for facts, value in zip(lengths, values, strict=True)
            ]
    text = (
        f"Accuracy on inputs with as many facts as in training, {lengths[0]}, and with more, the mean of the seeds "
        f"with its 95% interval: among {lengths[-1]} facts {THREE} has {means[THREE]:.2f}, and {TWO} {means[TWO]:.2f}."
    )
    return Drawing(drawn, text, columns_of(rows, "attention", "seed", "facts", "accuracy"))


@drawing
def join_rates(results: Results) -> Drawing:
    """The accuracy of each attention with seed 0, against the learning rate."""
    rows = []
    drawn = figure("learning rate", "accuracy, seed 0", log_x=True, height=440 + 20 * len(by_attention(results)))
    for name, runs in by_attention(results).items():
        colour, dash = LINES[name]
        ends = sorted((run.parameters["lr"], run.result["accuracy"][-1]) for run in runs)
        rows += [{"attention": name, "rate": rate, "accuracy": end} for rate, end in ends]
        drawn.add_trace(curve(name, [rate for rate, _ in ends], [end for _, end in ends], colour, dash=dash))
    rates = sorted({run.parameters["lr"] for run in results})
    drawn.update_xaxes(tickvals=rates, ticktext=[f"{rate:g}" for rate in rates])
    drawn.update_layout(legend={"y": -0.2})
    best = max(results, key=lambda run: float(run.result["accuracy"][-1]))
    text = (
        f"Accuracy after {results[0].parameters['steps']} steps with seed 0 for each learning rate that was tried: the "
        f"largest is {best.result['accuracy'][-1]:.3f} ({best.parameters['attention']} with {best.parameters['lr']:g})."
    )
    return Drawing(drawn, text, columns_of(rows, "attention", "rate", "accuracy"))


@drawing
def join_time(results: Results) -> Drawing:
    """The accuracy of each attention on joins, against the CPU time of training."""
    ours = by_attention(results)
    drawn = figure("CPU time of training, seconds", "accuracy on fresh inputs", height=440 + 20 * len(ours))
    rows = []
    for name, runs in ours.items():
        colour, dash = LINES[name]
        seconds = [step * MILLISECONDS[facts_of(runs[0])][name] / 1000 for step in runs[0].result["step"]]
        means = [fmean(values) for values in zip(*(run.result["accuracy"] for run in runs), strict=True)]
        rows += [{"attention": name, "seconds": x, "accuracy": y} for x, y in zip(seconds, means, strict=True)]
        drawn.add_trace(curve(name, seconds, means, colour, dash=dash, mode="lines"))
    drawn.update_layout(legend={"y": -0.2})
    ends = {name: fmean(at(run, "compute_steps", "accuracy") for run in runs) for name, runs in ours.items()}
    text = (
        f"Accuracy on joins among {facts_of(results[0])} facts against the CPU time of training, the mean of the "
        f"seeds: at equal CPU time {THREE} has {ends[THREE]:.3f}, and {TWO} {ends[TWO]:.3f}."
    )
    return Drawing(drawn, text, columns_of(rows, "attention", "seconds", "accuracy"))
