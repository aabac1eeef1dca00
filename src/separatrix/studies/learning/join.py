"""Two-hop joins in context: accuracy of order 3 compared with other attentions.

All models have the same number of parameters, the same inputs in the same order, the norms qk_norm and head_norm, and
the learning rate 0.01. The attentions are order 3, order 2 in one and in two layers, and the product of two order-2
attentions, whose scores do not depend on two facts jointly.

The rate was chosen with seed 0, after 600 of the 1,200 steps: with 0.01 the accuracies were 0.96 (order 3), 0.63 (two
layers of order 2), 0.61 (the product) and 0.61 (order 2); with 0.005 they were 0.81, 0.63, 0.61 and 0.61. (The pairwise
and the determinant form of order 3, about which there is no claim, had the accuracies 1.00 and 0.98 with the rate 0.01,
and 0.97 and 0.99 with 0.005.) These expectations were written down then; the claims are judged on other seeds:

- one layer of order 3 is ahead of one layer of order 2, and of the product of two order-2 attentions;
- one layer of order 3 is also ahead of two layers of order 2, for which a construction of the join exists
  (`tasks.join`);
- trained on 8 facts, order 3 also joins among 16;
- after 600 steps with the rate 0.005, which is that of the other studies, order 3 with the norms is ahead of order 3
  without them (with seed 0 and the rate 0.01 it was ahead, with 0.96 to 0.65).

The rule: each of these is a separate claim. It holds if every lead that it names is significantly above zero (95%,
paired by seed), fails if a lead is significantly below zero, and is undecided otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch

from separatrix.claims.ledger import CellResult, Claim, Finding, Neighbour, Verdict, claim
from separatrix.lab.cell import Cell
from separatrix.lab.registry import experiment
from separatrix.studies.learning.compute import step_flops
from separatrix.studies.learning.mechanisms import JOINING, mechanism
from separatrix.studies.learning.models import Sizes
from separatrix.studies.learning.runs import LR, TURNED, Expectation, Reading, ahead_by, by_attention, finding, measured
from separatrix.studies.learning.tasks.import_graph import digest
from separatrix.studies.learning.tasks.join import ImportJoin, Join, by_one_head, by_two_hops
from separatrix.studies.seeds import LEARNED, interval, paired

JOIN_SIZES = Sizes(width=48, heads=4, hidden=192)
JOIN_LR = 1e-2
ENTITIES, RELATIONS = 8, 4
_LONGER = (16, 24)
"""The numbers of facts in the longer inputs on which models trained on 8 facts are evaluated."""
PLAIN = "order 3"
ONE, TWO, PRODUCT, THREE = JOINING


@experiment(version=1, name="beyond.join_by_hand")
def joined_by_hand(facts: int, entities: int, relations: int, count: int, seed: int) -> dict[str, Any]:
    """The numbers of inputs that one head of order 3, and two layers of order 2, answer wrongly.

    `guessing` is the accuracy of guessing among the facts with the second relation.
    """
    return _by_hand(Join(facts, entities, relations), count, seed)


@experiment(version=1, name="beyond.join_imports_by_hand")
def joined_imports_by_hand(graph: str, facts: int, entities: int, count: int, seed: int) -> dict[str, Any]:
    """Return how many joins over the held-out part of the import graph with this SHA-256 the constructions answer
    wrongly, and the accuracy of guessing.
    """
    return _by_hand(ImportJoin(facts, entities, graph=graph), count, seed)


def _by_hand(join: Join, count: int, seed: int) -> dict[str, Any]:
    batch = join.task.held_out(count, torch.Generator().manual_seed(seed))
    wrong = {f.__name__: int((f(join, batch.tokens) != batch.answers).sum()) for f in (by_one_head, by_two_hops)}
    _, _, held, seconds = join.fields(batch.tokens)
    fits = (held * seconds[:, -1:]).sum(-1)[:, :-1]
    right = (batch.tokens[:, :-1, 2] == batch.answers) * fits
    return {**wrong, "guessing": float((right.sum(-1) / fits.sum(-1)).mean())}


@experiment(version=1, name="beyond.join")
def joined(
    size: list[int],
    longer: list[int],
    attention: str,
    steps: int,
    compute_steps: int,
    batch: int,
    points: int,
    lr: float,
    seed: int,
) -> dict[str, Any]:
    """One run on joins; `size` is (facts, entities, relations), `longer` the numbers of facts of further held-out
    inputs."""
    longer_tasks = [replace(Join(*size), facts=facts).task for facts in longer]
    how = {"sizes": JOIN_SIZES, "lr": lr, "further_tasks": longer_tasks}
    return measured(Join(*size).task, attention, steps, compute_steps, batch, points, seed, **how)  # type: ignore[arg-type]


def joins(
    facts: int,
    *,
    steps: int,
    seeds: Sequence[int],
    attentions: Sequence[str] = tuple(JOINING),
    longer: Sequence[int] = (),
    batch: int = 64,
    points: int = 512,
    lr: float = JOIN_LR,
) -> Iterator[Cell]:
    """The cells of some attentions on joins; each attention may use as many flops as order 3 in `steps` steps."""
    size = [facts, ENTITIES, RELATIONS]
    for how in _compute(Join(*size), attentions, steps, batch):
        for seed in seeds:
            yield joined.cell(seed=seed, size=size, longer=[*longer], batch=batch, points=points, lr=lr, **how)


def _compute(join: Join, attentions: Sequence[str], steps: int, batch: int) -> Iterator[dict[str, Any]]:
    """The number of steps of each attention, at equal steps and at equal flops."""
    spent = steps * step_flops(join.task, JOIN_SIZES, mechanism(THREE), batch)
    for attention in attentions:
        affords = int(spent / step_flops(join.task, JOIN_SIZES, mechanism(attention), batch) * (1 + 2.0**-40))
        yield {"attention": attention, "steps": steps, "compute_steps": affords}


def _by_hand_cells() -> Iterator[Cell]:
    for facts, entities, relations in ((2, 2, 1), (8, 8, 4), (32, 8, 4), (64, 16, 4)):
        yield joined_by_hand.cell(seed=0, facts=facts, entities=entities, relations=relations, count=64)
    for facts, entities in ((8, 16), (32, 64)):
        yield joined_imports_by_hand.cell(seed=0, graph=digest(), facts=facts, entities=entities, count=64)


@claim(
    where="Two-hop joins",
    part="by hand",
    says="In one layer, a head of order 3 joins two facts in context, also when the facts are edges of the import "
    "graph of Python's standard library; heads of order 2 do so in two layers.",
    cells=_by_hand_cells,
    figures=("join_guessing",),
    alone="The claim says only that two constructions exist. It does not say that a lower order or fewer layers "
    "cannot join two facts.",
)
def joins_by_hand(results: Sequence[CellResult]) -> Finding:
    """The claim holds if neither construction answers any input wrongly."""
    wrong = {name: sum(run.result[name] for run in results) for name in ("by_one_head", "by_two_hops")}
    numbers: dict[str, float | str] = {
        "inputs": sum(run.parameters["count"] for run in results),
        "wrong by one head of order 3": wrong["by_one_head"],
        "wrong by two hops of order 2": wrong["by_two_hops"],
        "accuracy of guessing without a join": ", ".join(
            f"{run.parameters['facts']} {'imports' if 'graph' in run.parameters else 'facts'}: "
            f"{run.result['guessing']:.2f}"
            for run in results
        ),
    }
    return Finding(Verdict.FAILS_AS_PRINTED if any(wrong.values()) else Verdict.HOLDS, numbers)


_BOTH: tuple[Reading, ...] = ("steps", "compute_steps")


def leads(better: Sequence[str], worse: Sequence[str], readings: Sequence[Reading] = _BOTH) -> list[Expectation]:
    """The expectations that each attention of `better` is better than each one of `worse`, at each reading."""
    return [Expectation(first, second, reading) for first in better for second in worse for reading in readings]


def _eight() -> Iterator[Cell]:
    return joins(8, steps=1200, seeds=(1, 2, 3), longer=_LONGER)


_SPLIT = (
    "The leads over one layer of order 2 and over the product of two order-2 attentions were one claim, and were split "
    "into two, unchanged, when the runs had decided the first and had left one comparison of the second undecided.",
)


def _full_claim(
    part: str, says: str, expectations: Sequence[Expectation], margin: float, history: tuple[str, ...] = ()
) -> Claim:
    return claim(
        where="Two-hop joins",
        part=part,
        says=says,
        profile="full",
        cells=_eight,
        figures=("learning_curves", "learning_ends"),
        neighbours=(TURNED, ahead_by(margin)),
        history=history,
    )(lambda results, turned=False, by=0.0: finding(results, "accuracy", expectations, plain=ONE, turned=turned, by=by))


joins_pairs = _full_claim(
    "against order 2 in one layer",
    "Trained on two-hop joins among 8 facts, one layer of order 3 becomes better than one layer of order 2, at equal "
    "parameters and steps and at equal compute.",
    leads([THREE], [ONE]),
    0.5,
    _SPLIT,
)
joins_products = _full_claim(
    "against a product of two order 2",
    "Trained on two-hop joins among 8 facts, one layer of order 3 becomes better than a product of two order-2 "
    "attentions, at equal parameters and steps and at equal compute.",
    leads([THREE], [PRODUCT]),
    0.5,
    _SPLIT,
)
joins_layers = _full_claim(
    "against two layers of order 2",
    "Trained on two-hop joins among 8 facts for 1,200 steps with the learning rate 0.01, which was chosen for order 3, "
    "one layer of order 3 becomes better than two layers of order 2, at equal parameters and steps and at equal "
    "compute.",
    leads([THREE], [TWO]),
    0.5,
)
joins_norms = claim(
    where="Two-hop joins",
    part="norms",
    says="Trained on two-hop joins among 8 facts for 600 steps, a layer of order 3 that normalises queries, keys and "
    "the outputs of its heads becomes better than one that does not.",
    profile="full",
    cells=lambda: joins(8, steps=600, seeds=(1, 2, 3), attentions=(PLAIN, THREE), lr=LR),
    figures=("learning_curves", "learning_ends"),
    neighbours=(TURNED, ahead_by(0.5)),
)(
    lambda results, turned=False, by=0.0: finding(
        results, "accuracy", (Expectation(THREE, PLAIN),), plain=PLAIN, turned=turned, by=by
    )
)


@claim(
    where="Two-hop joins",
    part="longer inputs",
    says=f"Trained on two-hop joins among 8 facts, one layer of order 3 joins among {_LONGER[0]} facts with an "
    f"accuracy above {LEARNED:g}, and better than two layers of order 2.",
    profile="full",
    cells=_eight,
    figures=("join_longer",),
    neighbours=(
        Neighbour("the two layers are better", {"turned": True}),
        Neighbour(f"the same among {_LONGER[1]} facts, with an accuracy above 0.99", {"place": 1, "least": 0.99}),
    ),
)
def joins_longer(
    results: Sequence[CellResult], turned: bool = False, place: int = 0, least: float = LEARNED
) -> Finding:
    """The claim holds if accuracy and lead are significantly above their bounds, and fails if one is significantly
    below."""
    ours = by_attention(results)
    accuracies = {name: [run.result["elsewhere"][place] for run in runs] for name, runs in ours.items()}
    lead = paired(accuracies[THREE], accuracies[TWO])
    lead = replace(lead, value=-lead.value, low=-lead.high, high=-lead.low) if turned else lead
    reached = interval(accuracies[THREE])
    numbers: dict[str, Any] = {
        f"accuracy among {facts} facts, {name}": interval([run.result["elsewhere"][m] for run in runs])
        for m, facts in enumerate(_LONGER)
        for name, runs in ours.items()
    }
    numbers[f"lead of order 3 over two layers, among {_LONGER[place]} facts"] = lead
    if lead.high < 0 or reached.high < least:
        return Finding(Verdict.FAILS_AS_PRINTED, numbers)
    decided = lead.low > 0 and reached.low > least
    return Finding(Verdict.HOLDS if decided else Verdict.UNDECIDED, numbers)
