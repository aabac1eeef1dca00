"""Which layer of order 3 trains best: the scale, norms, a learned scale, and LayerNorm after attention.

The layers of `LAYERS` differ from the first of them, which has the scale 1/sqrt(d) and no norms, in one setting each
(`both norms` in two), and have as many parameters. They are trained on the tasks of the other studies: two-hop joins
among 8 facts (600 steps, and for each layer the best of the learning rates 0.005 and 0.01 by the rule of `join_alike`),
planted triples, recall and text (as many steps as in those studies, and their learning rate, 0.005).

The following was expected, and written down with the rules before any of these runs (the trials that `join` tells of
had been seen): the scale 1/sqrt(d) is better than 1/d; `qk_norm`, `head_norm`, both and `learned_scale` are better than
none; LayerNorm after attention is worse than none.

The rule of each claim: it holds if the lead is significantly above zero (95%, paired by seed, equal steps, seeds 1, 2
and 3) on one task at least and significantly below zero on none, fails if it is significantly below zero on one, and
is undecided otherwise.

The rule of the recommendation in the guide: the setting whose claim holds; of several, that with the largest mean lead
on joins. If none holds, none is recommended over the layer without norms, and the guide says that no difference was
significant. The scale 1/sqrt(d) is recommended unless its claim fails, LayerNorm after attention only if its claim
fails.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from separatrix.claims.ledger import CellResult, Claim, Finding, Neighbour, Verdict, claim
from separatrix.lab.cell import Cell
from separatrix.studies.learning.join import ENTITIES, RELATIONS, joined
from separatrix.studies.learning.join_alike import rates_finding
from separatrix.studies.learning.mechanisms import LAYERS
from separatrix.studies.learning.runs import TURNED, Expectation, ahead_by, by_attention, on_text, runs
from separatrix.studies.seeds import interval

PLAIN, INVERSE, QK, HEADS, BOTH_NORMS, LEARNED_SCALE, AFTER = LAYERS
TRIED = (0.005, 0.01)
RATES = {
    PLAIN: 0.005,
    INVERSE: 0.005,
    QK: 0.005,
    HEADS: 0.01,
    BOTH_NORMS: 0.01,
    LEARNED_SCALE: 0.01,
    AFTER: 0.005,
}
"""The learning rate of each layer on joins, which the runs with seed 0 have chosen."""
STEPS = 600
TASKS = ("joins", "triples", "recall", "text")


def _joins(seeds: Sequence[int], rates: Mapping[str, Sequence[float]]) -> Iterator[Cell]:
    how = {"size": [8, ENTITIES, RELATIONS], "longer": [], "steps": STEPS, "compute_steps": STEPS}
    for name in LAYERS:
        for lr in rates[name]:
            for seed in seeds:
                yield joined.cell(seed=seed, attention=name, lr=lr, batch=64, points=512, **how)


def _cells() -> Iterator[Cell]:
    names, seeds = tuple(LAYERS), (1, 2, 3)
    yield from _joins(seeds, {name: [rate] for name, rate in RATES.items()})
    yield from runs("match", [8, 11], steps=800, batch=32, seeds=seeds, attentions=names)
    yield from runs("recall", [3, 2, 2], steps=600, batch=64, seeds=seeds, attentions=names)
    yield from runs("text", [32], steps=200, batch=8, seeds=seeds, points=256, attentions=names)


def task_of_run(run: CellResult) -> str:
    """The task of a run, one of `TASKS`."""
    if "text" in run.parameters:
        return "text"
    return {"match": "triples", "recall": "recall"}.get(run.parameters.get("task", ""), "joins")


layer_rates = claim(
    paper="beyond",
    where="Layer settings",
    part="learning rates",
    says="On two-hop joins among 8 facts, with seed 0 and 600 steps, the learning rates of this study are the better "
    "of 0.005 and 0.01 for each layer.",
    profile="full",
    cells=lambda: _joins([0], dict.fromkeys(LAYERS, TRIED)),
    figures=("join_rates",),
    neighbours=(Neighbour("the other rate is better for every layer", {"other": True}),),
)(
    lambda found, other=False: rates_finding(
        found, {name: min(set(TRIED) - {rate}) if other else rate for name, rate in RATES.items()}
    )
)


def _judged(found: Sequence[CellResult], better: str, worse: str, turned: bool, by: float) -> Finding:
    if turned:
        better, worse = worse, better
    numbers: dict[str, Any] = {}
    leads = []
    for task in TASKS:
        ours = by_attention([run for run in found if task_of_run(run) == task])
        what = "loss" if task == "text" else "accuracy"
        leads.append(Expectation(better, worse).lead(ours, what))  # type: ignore[arg-type]
        numbers[f"{task}: lead in {what} of {better} over {worse}"] = leads[-1]
        for name, some in ours.items():
            numbers[f"{task}: {what}, {name}"] = interval(
                [run.result[what][run.result["step"].index(run.parameters["steps"])] for run in some]
            )
    verdict = Verdict.HOLDS if any(lead.low > by for lead in leads) else Verdict.UNDECIDED
    if any(lead.high < by for lead in leads):
        verdict = Verdict.FAILS_AS_PRINTED
    return on_text(Finding(verdict, numbers), found)


def _setting(part: str, says: str, better: str, worse: str) -> Claim:
    return claim(
        paper="beyond",
        where="Layer settings",
        part=part,
        says=f"{says} (joins, planted triples, recall, text), and is significantly worse on none.",
        profile="full",
        cells=_cells,
        figures=("layer_settings",),
        neighbours=(TURNED, ahead_by(0.5)),
    )(lambda found, turned=False, by=0.0: _judged(found, better, worse, turned, by))


_THAN = "is significantly better than one without norms on one task at least"
layer_scale = _setting(
    "scale",
    "A layer of order 3 with the scale 1/sqrt(d) is significantly better than one with 1/d on one task at least",
    PLAIN,
    INVERSE,
)
layer_qk = _setting("qk_norm", f"A layer of order 3 with `qk_norm` {_THAN}", QK, PLAIN)
layer_heads = _setting("head_norm", f"A layer of order 3 with `head_norm` {_THAN}", HEADS, PLAIN)
layer_both = _setting("both norms", f"A layer of order 3 with `qk_norm` and `head_norm` {_THAN}", BOTH_NORMS, PLAIN)
layer_learned = _setting("learned scale", f"A layer of order 3 with `learned_scale` {_THAN}", LEARNED_SCALE, PLAIN)
layer_after = _setting(
    "LayerNorm after attention",
    "A layer of order 3 without LayerNorm after attention is significantly better than one with it on one task or more",
    PLAIN,
    AFTER,
)
