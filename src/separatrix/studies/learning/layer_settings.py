"""Which layer of order 3 trains best: the scale, norms, a learned scale, and LayerNorm after attention.

The layers of `LAYERS` differ from the first of them, which has the scale 1/sqrt(d) and no norms, in one setting each
(the layer with both norms in two), and have the same number of parameters. They are trained on two-hop joins among 8
facts for 600 steps, each with the better of the learning rates 0.005 and 0.01 by the rule of `join_alike`.

The following was expected, and written down with the rules before any of these runs (the trials reported in `join` had
been seen): the scale 1/sqrt(d) is better than 1/d; norms of queries and keys, norms of the outputs of heads, both and a
learned scale are better than none; LayerNorm after attention is worse than none.

The rule of each claim: it holds if the lead is significantly above zero (95%, paired by seed, equal steps, seeds 1, 2
and 3), fails if it is significantly below zero, and is undecided otherwise.

The rule of the recommendation in the guide: it recommends the setting whose claim holds; if several hold, the setting
with the largest mean lead. If none holds, none is recommended over the layer without norms, and the guide says that no
difference was significant. The scale 1/sqrt(d) is recommended unless its claim fails, and LayerNorm after attention
only if its claim fails.

Planted triples, recall and text were to be compared too, by the rule that a setting must lead significantly on one task
and be behind on none. They were left out because joins took too long; this was decided when half of the layers had been
run on joins, before any run on these tasks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from separatrix.claims.ledger import Claim, Neighbour, claim
from separatrix.lab.cell import Cell
from separatrix.studies.learning.join import ENTITIES, RELATIONS, joined
from separatrix.studies.learning.join_alike import rates_finding
from separatrix.studies.learning.mechanisms import LAYERS
from separatrix.studies.learning.runs import TURNED, Expectation, ahead_by, finding

PLAIN, INVERSE, QK, HEADS, BOTH_NORMS, LEARNED_SCALE, AFTER = LAYERS
TRIED = (0.005, 0.01)
RATES = {PLAIN: 0.005, INVERSE: 0.005, QK: 0.005, HEADS: 0.01, BOTH_NORMS: 0.01, LEARNED_SCALE: 0.01, AFTER: 0.005}
"""The learning rate of each layer on joins, as chosen by the runs with seed 0."""
STEPS = 600


def joins_of(seeds: Sequence[int], rates: Mapping[str, Sequence[float]]) -> Iterator[Cell]:
    """The runs on joins of some layers, each with some learning rates."""
    how = {"size": [8, ENTITIES, RELATIONS], "longer": [], "steps": STEPS, "compute_steps": STEPS}
    for name, tried in rates.items():
        for lr in tried:
            for seed in seeds:
                yield joined.cell(seed=seed, attention=name, lr=lr, batch=64, points=512, **how)


def rates_on_joins(part: str, rates: Mapping[str, float]) -> Claim:
    """The claim that the rule chooses these learning rates on joins."""
    return claim(
        where="Layer settings",
        part=part,
        says="On two-hop joins among 8 facts, with seed 0 and 600 steps, the learning rates of this study are the "
        "better of 0.005 and 0.01 for each layer.",
        profile="full",
        cells=lambda: joins_of([0], dict.fromkeys(rates, TRIED)),
        figures=("join_rates",),
        neighbours=(Neighbour("the other rate is better for every layer", {"other": True}),),
    )(lambda results, other=False: rates_finding(results, other_rates(rates) if other else rates))


def other_rates(rates: Mapping[str, float]) -> dict[str, float]:
    """For each layer, the rate in `TRIED` that it does not use."""
    return {name: min(set(TRIED) - {rate}) for name, rate in rates.items()}


def setting_on_joins(part: str, says: str, better: str, worse: str, rates: Mapping[str, float] = RATES) -> Claim:
    """The claim that one layer becomes better than another on joins, from the runs of all layers in `rates`."""
    return claim(
        where="Layer settings",
        part=part,
        says=f"Trained on two-hop joins among 8 facts for 600 steps, a layer of order 3 {says}.",
        profile="full",
        cells=lambda: joins_of((1, 2, 3), {name: [rate] for name, rate in rates.items()}),
        figures=("learning_curves",),
        neighbours=(TURNED, ahead_by(0.5)),
    )(
        lambda results, turned=False, by=0.0: finding(
            results, "accuracy", [Expectation(better, worse)], plain=PLAIN, turned=turned, by=by
        )
    )


layer_rates = rates_on_joins("learning rates", RATES)
SETTINGS = (
    ("scale", "with the scale $1/\\sqrt{d}$ becomes better than one with $1/d$", PLAIN, INVERSE),
    ("qk norm", "that normalises queries and keys becomes better than one without norms", QK, PLAIN),
    ("head norm", "that normalises the outputs of its heads becomes better than one without norms", HEADS, PLAIN),
    (
        "both norms",
        "that normalises queries, keys and the outputs of its heads becomes better than one without norms",
        BOTH_NORMS,
        PLAIN,
    ),
    ("learned scale", "with a learned scale for each head becomes better than one without", LEARNED_SCALE, PLAIN),
    ("LayerNorm after attention", "without LayerNorm after attention becomes better than one with it", PLAIN, AFTER),
)
"""What is claimed of each setting: its name, the statement, the layer that becomes better, and the other."""
layer_scale, layer_qk, layer_heads, layer_both, layer_learned, layer_after = (
    setting_on_joins(*setting) for setting in SETTINGS
)
