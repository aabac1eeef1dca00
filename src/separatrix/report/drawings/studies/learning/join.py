"""Two-hop joins: the accuracy of guessing, learning rates, CPU time, and more facts than in training."""

from __future__ import annotations

from statistics import fmean

from separatrix.report.charts import Axis, Chart, Curve, Curves
from separatrix.report.drawings.studies.learning.runs import colour_of, dash_of, seed_means
from separatrix.report.tables import Results, groups_of, one_row_per_entry, rows_of
from separatrix.report.theme import GREY
from separatrix.studies.learning.join import THREE, TWO
from separatrix.studies.learning.join_alike import MILLISECONDS, facts_of
from separatrix.studies.learning.join_stages import FACTS, accuracies
from separatrix.studies.learning.runs import at, by_attention
from separatrix.studies.seeds import interval


@Curves(
    series=Curve("guessing", "guessing without a join", GREY),
    x=Axis("facts", "facts", log=True, ticks="data"),
    y=Axis("accuracy of a guess"),
    columns=("facts", "guessing", "by_one_head", "by_two_hops"),
)
def join_guessing(results: Results) -> Chart:
    """The accuracy of guessing among the facts with the second relation, against the number of facts."""
    rows = sorted(rows_of([run for run in results if "relations" in run.parameters]), key=lambda row: int(row["facts"]))
    least, most = rows[0], rows[-1]
    return rows, (
        "The accuracy of guessing among the facts with the second relation, without joining two facts: "
        f"{least['guessing']:.2f} with {least['facts']} facts, {most['guessing']:.2f} with {most['facts']}. Both "
        "constructions by hand are always right."
    )


@Curves(
    series=Curve("mean", "{attention}", colour_of, dash=dash_of, spread=("low", "high"), spread_thickness=2),
    by=("attention",),
    x=Axis("facts of an input", "facts", ticks="data"),
    y=Axis("accuracy"),
    height=440,
    height_per_trace=20,
    columns=("attention", "seed", "facts", "accuracy"),
)
def join_longer(results: Results) -> Chart:
    """The accuracy of each attention on inputs with more facts than it was trained on."""
    lengths = [results[0].parameters["size"][0], *results[0].parameters["longer"]]
    table = [
        {"attention": name, "seed": run.seed, "facts": facts, "accuracy": accuracy}
        for name, runs in by_attention(results).items()
        for run in runs
        for facts, accuracy in zip(lengths, [run.result["accuracy"][-1], *run.result["elsewhere"]], strict=True)
    ]
    rows = []
    for (name, facts), group in groups_of(table, "attention", "facts").items():
        bar = interval([row["accuracy"] for row in group])
        rows.append({"attention": name, "facts": facts, "mean": bar.value, "low": bar.low, "high": bar.high})
    means = {row["attention"]: row["mean"] for row in rows}
    text = (
        f"Accuracy on inputs with as many facts as in training, {lengths[0]}, and with more, the mean of the seeds "
        f"with its 95% interval: among {lengths[-1]} facts {THREE} has {means[THREE]:.2f}, and {TWO} {means[TWO]:.2f}."
    )
    return rows, text, table


@Curves(
    series=Curve("accuracy", "{attention}", colour_of, dash=dash_of),
    by=("attention",),
    x=Axis("learning rate", "rate", log=True, ticks="data"),
    y=Axis("accuracy, seed 0"),
    height=440,
    height_per_trace=20,
    legend_y=-0.2,
)
def join_rates(results: Results) -> Chart:
    """The accuracy of each attention with seed 0, against the learning rate."""
    rows = [
        {"attention": name, "rate": run.parameters["lr"], "accuracy": run.result["accuracy"][-1]}
        for name, runs in by_attention(results).items()
        for run in sorted(runs, key=lambda run: float(run.parameters["lr"]))
    ]
    best = max(results, key=lambda run: float(run.result["accuracy"][-1]))
    return rows, (
        f"Accuracy after {results[0].parameters['steps']} steps with seed 0 for each learning rate that was tried: the "
        f"largest is {best.result['accuracy'][-1]:.3f} ({best.parameters['attention']} with {best.parameters['lr']:g})."
    )


@Curves(
    series=Curve("accuracy", "{attention}", colour_of, dash=dash_of, mode="lines"),
    by=("attention",),
    x=Axis("CPU time of training, seconds", "seconds"),
    y=Axis("accuracy on fresh inputs"),
    height=440,
    height_per_trace=20,
    legend_y=-0.2,
)
def join_time(results: Results) -> Chart:
    """The accuracy of each attention on joins, against the CPU time of training."""
    ours = by_attention(results)
    curves = [
        {
            "attention": name,
            "seconds": [step * MILLISECONDS[facts_of(runs[0])][name] / 1000 for step in runs[0].result["step"]],
            "accuracy": seed_means(runs, "accuracy"),
        }
        for name, runs in ours.items()
    ]
    ends = {name: fmean(at(run, "compute_steps", "accuracy") for run in runs) for name, runs in ours.items()}
    return one_row_per_entry(curves, "seconds", "accuracy"), (
        f"Accuracy on joins among {facts_of(results[0])} facts against the CPU time of training, the mean of the "
        f"seeds: at equal CPU time {THREE} has {ends[THREE]:.3f}, and {TWO} {ends[TWO]:.3f}."
    )


@Curves(
    series=Curve("mean", "{attention}", colour_of, dash=dash_of, spread=("low", "high"), spread_thickness=2),
    by=("attention",),
    x=Axis("facts of the stage", "facts", log=True, ticks="data"),
    y=Axis("accuracy after the stage"),
    height=440,
    height_per_trace=20,
    columns=("attention", "facts", "mean", "low", "high"),
)
def join_stages(results: Results) -> Chart:
    """The accuracy of each attention after each stage, among the facts of the stage."""
    rows = []
    for stage, count in enumerate(FACTS):
        for name, seeds in accuracies(results, stage, count).items():
            bar = interval(seeds)
            rows.append({"attention": name, "facts": count, "mean": bar.value, "low": bar.low, "high": bar.high})
    ends = ", ".join(f"{row['attention']} {row['mean']:.2f}" for row in rows if row["facts"] == FACTS[-1])
    return rows, (
        "Accuracy of models that learn joins in stages of more and more facts, after each stage and among its facts, "
        f"the mean of the seeds with its 95% interval: among {FACTS[-1]} facts {ends}."
    )
