"""The tables of evidence for higher orders, from the results of the full profile.

`python -m docs._ext.evidence STORE` reads the verdicts and numbers of the claims below from a store and writes them to
`evidence.json`; the store is filled by the commands that `python -m docs._ext.evidence` prints. The tables of pages are
generated from that file alone, by `python -m tests.docs.refresh --made`, together with the figure.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from separatrix.attention.near_linear.bounded_plan import plan_bounded
from separatrix.claims.ledger import Claim, Finding, Interval, claims
from separatrix.claims.verdicts import judge
from separatrix.errors import SeparatrixError
from separatrix.lab.store import Store
from separatrix.studies import load
from separatrix.studies.learning.join import ONE, PRODUCT, THREE, TWO
from separatrix.studies.learning.join_stages import FACTS
from separatrix.studies.learning.join_stages import STEPS as STAGE_STEPS
from separatrix.studies.learning.mechanisms import (
    FURTHER_LAYERS,
    JOINING_ALIKE,
    LAYERED,
    LAYERED_PRODUCT,
    LAYERS,
    MECHANISMS,
    RADII,
    SEPARATE,
)

RECORDED = Path(__file__).resolve().parent / "evidence.json"
TRIPLES, SIZES = "beyond/does-it-learn/triples-every-attention", "beyond/triples-by-training/over-n-and-m"
SIZES_PRODUCT = f"{SIZES}-product-of-two-order-2"
RECALL, TEXT = "beyond/does-it-learn/recall-every-attention", "beyond/does-it-learn/text-every-attention"
GROWTH = "beyond/does-it-learn/what-r-buys-further"
COMPUTE, STEPS = "beyond/language-model/at-equal-compute", "beyond/language-model/at-equal-steps"
STEPS_PRODUCT = "beyond/language-model/product-of-two-order-2-at-equal-steps"
_JOINS = "beyond/two-hop-joins"
JOINS_NORMS, JOINS_CONVERGED = f"{_JOINS}/norms", f"{_JOINS}/two-layers-with-enough-steps"
JOINS, JOINS_LAYERS = f"{_JOINS}/against-order-2-in-one-layer", f"{_JOINS}/against-two-layers-of-order-2"
JOINS_PRODUCT, JOINS_LONGER = f"{_JOINS}/against-a-product-of-two-order-2", f"{_JOINS}/longer-inputs"
EIGHT, LONGER, IMPORTS = (
    f"{_JOINS}/8-facts-against-one-layer",
    f"{_JOINS}/longer-inputs-chosen-alike",
    f"{_JOINS}/8-imports-against-two-layers",
)
_LEARNED = "beyond/does-it-learn"
PRODUCTS = {
    TRIPLES: f"{_LEARNED}/triples-product-of-two-order-2",
    RECALL: f"{_LEARNED}/recall-product-of-two-order-2",
    TEXT: f"{_LEARNED}/text-product-of-two-order-2",
}
"""The claims on the product of two order-2 attentions, by the claims on the other attentions."""
LARGER = {count: f"{_JOINS}/{count}-facts-against-one-layer" for count in ("16", "32")}
"""The claims with the runs of models trained on more than 8 facts, by the number of facts."""
LARGER_FORMS = f"{_JOINS}/16-facts-other-forms"
_SETTINGS = "beyond/layer-settings"
BOTH_NORMS = f"{_SETTINGS}/both-norms"
OTHER_TASKS = f"{BOTH_NORMS}-other-tasks"
FURTHER = f"{_SETTINGS}/value-norm"
STAGES = f"{_JOINS}/64-facts-in-stages"
STAGES_LEADS = f"{STAGES}-against-one-layer", f"{STAGES}-against-two-layers"
STAGES_FORMS = f"{STAGES}-other-forms"
CLAIMS = (
    TRIPLES,
    SIZES,
    SIZES_PRODUCT,
    RECALL,
    TEXT,
    *PRODUCTS.values(),
    GROWTH,
    COMPUTE,
    STEPS,
    STEPS_PRODUCT,
    f"{_JOINS}/learning-rates-chosen-alike",
    EIGHT,
    f"{_JOINS}/8-facts-against-two-layers",
    f"{_JOINS}/sooner-than-two-layers",
    f"{_JOINS}/pairwise-form-sooner",
    f"{_JOINS}/other-forms-and-mixed-orders",
    LONGER,
    f"{_JOINS}/8-imports-against-one-layer",
    IMPORTS,
    *LARGER.values(),
    *(f"{_JOINS}/{count}-facts-against-two-layers" for count in LARGER),
    LARGER_FORMS,
    STAGES,
    *STAGES_LEADS,
    STAGES_FORMS,
    JOINS,
    JOINS_PRODUCT,
    JOINS_LAYERS,
    JOINS_CONVERGED,
    JOINS_LONGER,
    JOINS_NORMS,
    f"{_SETTINGS}/learning-rates",
    f"{_SETTINGS}/scale",
    f"{_SETTINGS}/qk-norm",
    f"{_SETTINGS}/head-norm",
    BOTH_NORMS,
    f"{_SETTINGS}/learned-scale",
    f"{_SETTINGS}/layernorm-after-attention",
    f"{_SETTINGS}/learning-rates-other-tasks",
    f"{_SETTINGS}/scale-other-tasks",
    f"{_SETTINGS}/qk-norm-other-tasks",
    f"{_SETTINGS}/head-norm-other-tasks",
    OTHER_TASKS,
    f"{_SETTINGS}/learned-scale-other-tasks",
    f"{_SETTINGS}/layernorm-after-attention-other-tasks",
    f"{_SETTINGS}/learning-rates-value-norm-and-mixed-orders",
    FURTHER,
    f"{_SETTINGS}/mixed-orders",
)
"""The claims whose numbers the pages show."""

Numbers = Mapping[str, Any]


def fingerprint(claim: Claim) -> str:
    """A hash of the cells of a claim; a record with a different hash belongs to other runs."""
    return sha256("\n".join(sorted(cell.key for cell in claim.cells())).encode()).hexdigest()


def plain(finding: Finding) -> dict[str, Any]:
    """The numbers of a finding as JSON; an interval is its value and its two ends."""
    return {
        name: [value.value, value.low, value.high] if isinstance(value, Interval) else value
        for name, value in finding.numbers.items()
    }


def write(store: Store, path: Path = RECORDED) -> None:
    """Write the results of these claims from a store; if the store has none, keep the records of the same cells.

    Raises:
        SeparatrixError: The store lacks cells of a claim that has no record, or the verdict of a claim cannot be
            computed from the store.
    """
    load("beyond")
    before = json.loads(path.read_text()) if path.exists() else {}
    recorded_claims: dict[str, Any] = {}
    for claim in claims(only=CLAIMS):
        judged = judge(claim, store)
        if judged.missing and before.get(claim.id, {}).get("cells") == fingerprint(claim):
            recorded_claims[claim.id] = before[claim.id]
            continue
        if judged.missing or judged.failed or judged.problem:
            raise SeparatrixError(f"{claim.id}: {judged.finding.note} Run `{claim.command}`.")
        if not judged.finding.comparable:
            raise SeparatrixError(f"{claim.id}: {judged.finding.note}")
        recorded_claims[claim.id] = {
            "verdict": judged.verdict.value,
            "cells": fingerprint(claim),
            "numbers": plain(judged.finding),
        }
    path.write_text(json.dumps({id: recorded_claims[id] for id in CLAIMS}, indent=1, ensure_ascii=False) + "\n")


@cache
def recorded() -> dict[str, dict[str, Any]]:
    """The record of each claim: verdict, hash of its cells, numbers."""
    found: dict[str, dict[str, Any]] = json.loads(RECORDED.read_text())
    return found


def number(id: str, name: str) -> Any:
    """One number of a claim; an interval is a list of its value and ends."""
    return recorded()[id]["numbers"][name]


def mean(id: str, name: str) -> float:
    """The value of an interval."""
    return float(number(id, name)[0])


def listed(text: str, names: Iterable[str]) -> dict[str, str]:
    """The entries of a number that the ledger writes as "name: value, name: value".

    >>> listed("order 2: 1.00, order 2, R = 4: 1.50", ["order 2, R = 4", "order 2"])
    {'order 2, R = 4': '1.50', 'order 2': '1.00'}
    """
    matches = {name: re.search(rf"(?:^|, ){re.escape(name)}: ([\d.]+)(?=,|$)", text) for name in names}
    return {name: match[1] for name, match in matches.items() if match}


def _spread(value: Sequence[float], digits: int) -> str:
    """A mean with half the width of its interval.

    >>> _spread([0.9, 0.8, 1.0], 2)
    '0.90 ± 0.10'
    """
    middle, low, high = value
    return f"{middle:.{digits}f} ± {(high - low) / 2:.{digits}f}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    align = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, align, *rows))


def learned() -> str:
    """Every attention: flops, accuracy on triples and recall at equal steps and compute, loss on text."""
    flops = listed(number(TRIPLES, "flops a step over those of order 2"), MECHANISMS)
    flops |= listed(number(PRODUCTS[TRIPLES], "flops a step over those of order 2"), SEPARATE)
    rows = []
    for name in (*MECHANISMS, *SEPARATE):
        told = [
            _spread(number(PRODUCTS[id] if name in SEPARATE else id, f"{what} at equal {reading}, {name}"), digits)
            for id, what, reading, digits in (
                (TRIPLES, "accuracy", "steps", 2),
                (TRIPLES, "accuracy", "compute", 2),
                (RECALL, "accuracy", "steps", 2),
                (RECALL, "accuracy", "compute", 2),
                (TEXT, "loss", "compute", 3),
            )
        ]
        rows.append([name, flops[name], *told])
    head = ["attention of one layer", "flops a step", "triples, equal steps", "triples, equal compute"]
    return _table([*head, "recall, equal steps", "recall, equal compute", "text in nats, equal compute"], rows)


def sizes() -> str:
    """Planted triples over lengths and moduli: accuracies, and leads of order 3 over order 2 and over the product."""
    (product,) = SEPARATE
    rows = []
    for name in recorded()[SIZES]["numbers"]:
        if match := re.fullmatch(r"(n = (\d+), M = (\d+)): accuracy at order 3, order 2", name):
            third, second = map(float, number(SIZES, name).split(", "))
            third_of_product, multiplied = number(SIZES_PRODUCT, f"{match[1]}: accuracy at order 3, {product}").split(
                ", "
            )
            assert float(third_of_product) == third, "the runs of order 3 are the same"
            leads = [_spread(number(id, f"{match[1]}: lead of order 3"), 2) for id in (SIZES, SIZES_PRODUCT)]
            accuracies = [f"{accuracy:.2f}" for accuracy in (second, float(multiplied), third)]
            rows.append([f"{match[2]} tokens modulo {match[3]}", *accuracies, *leads])
    head = ["task", "order 2", product, "order 3", "lead over order 2", "lead over the product"]
    return _table(head, rows)


def bounds() -> str:
    """The cost and the benefit of a bound on the scores, for each bound."""
    shares = listed(number(RECALL, "largest share of the attention on one pair, by R"), [f"{R:g}" for R in RADII])
    rows = []
    for R in RADII:
        name = f"order 3, R = {R:g}"
        state, length = number(GROWTH, f"{name}: bytes kept, and the n at which order 3 keeps as many").split("; ")
        accuracy = [_spread(number(id, f"accuracy at equal steps, {name}"), 2) for id in (TRIPLES, RECALL)]
        from_n = number(GROWTH, f"{name}: flops below order 3 from n")
        rank = f"{plan_bounded(3, 4, R, 1e-2).rank:,}"
        rows.append([f"{R:g}", rank, shares[f"{R:g}"], *accuracy, f"{from_n:.0f}", state, length])
    head = ["R", "rank", "largest share of one pair in recall", "triples", "recall", "fewer flops than exact from n"]
    return _table([*head, "bytes of the state", "n at which a cache is as large"], rows)


def joins() -> str:
    """Two-hop joins: learning rates, times, accuracies at equal steps and at equal CPU time, and with more facts."""
    asked = ("16", "24", "32")
    rows = []
    for name in JOINING_ALIKE:
        rate, milliseconds = number(EIGHT, f"8 facts: learning rate, milliseconds a step, {name}").split(", ")
        told = [
            _known(EIGHT, f"8 facts: accuracy at equal steps, {name}"),
            _known(EIGHT, f"8 facts: accuracy at equal CPU time, {name}"),
            *(_known(LONGER, f"accuracy among {count} facts, {name}") for count in asked),
        ]
        rows.append([name.removesuffix(", both norms"), rate, milliseconds, *told])
    head = ["attention", "learning rate", "ms a step", "8 facts, equal steps", "8 facts, equal CPU time"]
    return _table([*head, *(f"trained on 8, evaluated on {count}" for count in asked)], rows)


def _known(id: str, name: str) -> str:
    """A mean with half the width of its interval, or an empty text if there are no runs."""
    return _spread(number(id, name), 2) if name in recorded()[id]["numbers"] else ""


def larger_joins() -> str:
    """Models trained on joins among 16 and 32 facts: accuracies at equal steps and at equal CPU time."""
    rows = []
    for name in JOINING_ALIKE:
        cells = []
        for count, id in LARGER.items():
            known = f"{count} facts: accuracy at equal steps, {name}" in recorded()[id]["numbers"]
            source = id if known or count == "32" else LARGER_FORMS
            cells += [
                _known(source, f"{count} facts: accuracy at equal {how}, {name}") for how in ("steps", "CPU time")
            ]
        rows.append([name.removesuffix(", both norms"), *cells])
    head = [f"{count} facts, equal {how}" for count in LARGER for how in ("steps", "CPU time")]
    return _table(["attention", *head], rows)


def stages() -> str:
    """Models that learn joins in stages: the accuracy after each stage, among its facts."""
    stages = [f"{count} facts: accuracy after {steps:,} steps" for count, steps in zip(FACTS, STAGE_STEPS, strict=True)]
    claims = dict.fromkeys(JOINING_ALIKE, STAGES_FORMS) | dict.fromkeys((ONE, PRODUCT, THREE), STAGES_LEADS[0])
    claims[TWO] = STAGES_LEADS[1]
    rows = [
        [name.removesuffix(", both norms"), *(_spread(number(id, f"{stage}, {name}"), 2) for stage in stages)]
        for name, id in claims.items()
    ]
    return _table(["attention", *(stage.replace(": accuracy", ",") for stage in stages)], rows)


def imports() -> str:
    """Joins over imports of a library: accuracies at equal steps and at equal CPU time."""
    rows = [
        [
            name.removesuffix(", both norms"),
            *(_known(IMPORTS, f"8 facts: accuracy at equal {how}, {name}") for how in ("steps", "CPU time")),
        ]
        for name in JOINING_ALIKE
    ]
    return _table(["attention", "8 imports, equal steps", "8 imports, equal CPU time"], rows)


def layers() -> str:
    """Settings of a layer of order 3: accuracies on joins, triples and recall, and losses on text."""
    measures = (("triples", "accuracy", 2), ("recall", "accuracy", 2), ("text", "loss", 3))
    rows = []
    for name in LAYERS:
        on_tasks = [_spread(number(OTHER_TASKS, f"{task}: {what}, {name}"), digits) for task, what, digits in measures]
        rows.append([name, _spread(number(BOTH_NORMS, f"accuracy at equal steps, {name}"), 2), *on_tasks])
    for name in FURTHER_LAYERS:
        rows.append([name, _spread(number(FURTHER, f"accuracy at equal steps, {name}"), 2), *[""] * len(measures)])
    return _table(["layer", "joins of 8 facts", "triples", "recall", "text in nats"], rows)


def language_model() -> str:
    """The language models: flops, and losses at equal compute and at equal steps."""
    second, third = LAYERED
    (product,) = LAYERED_PRODUCT
    flops = listed(number(STEPS_PRODUCT, f"flops a step over those of {second}"), [second, third, product])
    readings = ((COMPUTE, "compute"), (STEPS, "steps"))
    rows = [
        [name, flops[name], *(_spread(number(id, f"loss at equal {how}, {name}"), 3) for id, how in readings)]
        for name in LAYERED
    ]
    rows.append([product, flops[product], "", _spread(number(STEPS_PRODUCT, f"loss at equal steps, {product}"), 3)])
    ahead = number(COMPUTE, f"{second} ahead of {third} at equal compute: loss")
    behind = number(STEPS, f"{third} ahead of {second} at equal steps: loss")
    leads = [ahead, [-end for end in (behind[0], behind[2], behind[1])]]
    rows.append(["loss of order 3 minus loss of order 2, by seed", "", *(_spread(lead, 3) for lead in leads)])
    over_product = number(STEPS_PRODUCT, f"{third} ahead of {product} at equal steps: loss")
    turned = [-over_product[0], -over_product[2], -over_product[1]]
    rows.append(["loss of order 3 minus loss of the product, by seed", "", "", _spread(turned, 3)])
    return _table(["model", "flops a step", "nats, equal compute", "nats, equal steps"], rows)


def verdicts() -> str:
    """The claims with their verdicts."""
    return _table(["claim", "verdict"], ([f"`{id}`", f"**{record['verdict']}**"] for id, record in recorded().items()))


def short() -> str:
    """The table of the section "In short"."""
    third = "order 3, R = 4"
    rows = []
    for task, id, what, digits in (
        ("are there two tokens that sum to zero with the last one? accuracy", TRIPLES, "accuracy", 2),
        ("recall by a key whose parts are in two tokens, accuracy", RECALL, "accuracy", 2),
        ("next character of a text, loss in nats", TEXT, "loss", 2),
    ):
        means = [mean(id, f"{what} at equal compute, {name}") for name in ("order 2", "order 3", third)]
        means += [mean(PRODUCTS[id], f"{what} at equal compute, {name}") for name in SEPARATE]
        rows.append([task, *(f"{value:.{digits}f}" for value in means)])
    losses = [mean(COMPUTE, f"loss at equal compute, {name}") for name in LAYERED]
    rows.append(
        ["the same, four layers, the last of order 3 in windows", *(f"{value:.2f}" for value in losses), "", ""]
    )
    head = ["at equal parameters and compute", "order 2", "order 3", "order 3, scores below 4"]
    return _table([*head, *SEPARATE], rows)


_TABLES: Mapping[str, Callable[[], str]] = {
    "bounds": bounds,
    "imports": imports,
    "joins": joins,
    "language-model": language_model,
    "larger-joins": larger_joins,
    "layers": layers,
    "learned": learned,
    "short": short,
    "sizes": sizes,
    "stages": stages,
    "verdicts": verdicts,
}


def evidence(table: str) -> str:
    """A table by its name."""
    return _TABLES[table]()


def _main(given: Sequence[str]) -> int:
    if len(given) != 1:
        load("beyond")
        print("\n".join(f"{claim.command} --store FOLDER" for claim in claims(only=CLAIMS)))
        return 2
    try:
        with Store.open(given[0]) as store:
            write(store)
    except SeparatrixError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
