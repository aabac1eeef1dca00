"""The claims on language models: fair cells, correct models, and verdicts that depend on the results."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
import torch

from separatrix.claims.ledger import CellResult, Interval, Verdict
from separatrix.studies.learning import language_model
from separatrix.studies.learning.compute import attention_flops, step_flops
from separatrix.studies.learning.language_model import PAIRS, PRODUCT, TRIPLES, sizes_of, trained
from separatrix.studies.learning.mechanisms import LAYERED, MECHANISMS, AttentionKind, mechanism
from separatrix.studies.learning.models import Model, hidden_units, parameter_count
from separatrix.studies.learning.runs import RECORDED_TEXT
from separatrix.studies.learning.tasks.text import digest, text_task
from tests.studies.cells import claims_of

OURS = claims_of(language_model)
HOLDS, FAILS, OPEN = Verdict.HOLDS, Verdict.FAILS_AS_PRINTED, Verdict.UNDECIDED


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_one_layer_in_four_is_of_order_3_in_windows() -> None:
    task = text_task(40)
    sizes = sizes_of(task, 16, 4)
    counts = []
    for name, kind in LAYERED.items():
        model = Model(task, sizes, kind, generator=generator())
        layers = [block.attention for block in model.blocks]
        assert [layer.order for layer in layers] == ([2, 2, 2, 3] if name == TRIPLES else [2] * 4)
        assert [layer.windows for layer in layers] == [None] * 3 + ([(512, 32)] if name == TRIPLES else [None])
        counts.append(sum(weight.numel() for weight in model.parameters()))
        assert counts[-1] == parameter_count(task, sizes, kind, model.hidden)
    assert hidden_units(task, sizes, mechanism(PAIRS)) == 64
    assert abs(counts[0] - counts[1]) <= 4 * (2 * 16 + 1) / 2


def test_an_order_at_every_second_layer() -> None:
    kind = AttentionKind(3, bound=2.0, layers=5, windows=(4, 2), every=2)
    assert kind.stack == (AttentionKind(), AttentionKind(3, 2.0, windows=(4, 2))) * 2 + (AttentionKind(),)
    for attention in MECHANISMS.values():
        assert [replace(layer, layers=attention.layers) for layer in attention.stack] == [attention] * attention.layers


def test_flops_in_windows_are_those_of_the_attended_tuples() -> None:
    """Two heads of dimension 3, seven tokens, windows of 5 and 2: tuples are counted one by one."""
    kind = AttentionKind(3, windows=(5, 2))
    seen = [(i, j, k) for i, j, k in product(range(7), repeat=3) if i - 5 < j <= i and i - 2 < k <= i]
    assert attention_flops(kind, 2, 3, 7, 7) == 2 * len(seen) * (2 * 3 + 2 * 3)
    assert attention_flops(kind, 2, 3, 7, 1) == 2 * 5 * 2 * (2 * 3 + 2 * 3)
    pairs = [(i, j) for w in (5, 2) for i, j in product(range(7), repeat=2) if i - w < j <= i]
    assert attention_flops(replace(kind, form="separate"), 2, 3, 7, 7) == 2 * len(pairs) * (2 * 3 + 2 * 3)


@pytest.mark.parametrize("id", OURS)
def test_the_models_have_the_same_settings(id: str) -> None:
    """All models have the same settings, except the learning rate, and the same seeds, without 0.

    At equal compute, their flops differ by at most one step.
    """
    kinds: dict[str, list[object]] = {}
    spent, step = {}, {}
    for cell in OURS[id].cells():
        arguments = dict(cell.arguments)
        name, steps = arguments.pop("attention"), arguments.pop("compute_steps")
        assert arguments.pop("lr") == language_model.RATES["steps" if id.endswith("steps") else "compute_steps"][name]
        kinds.setdefault(name, []).append((cell.seed, arguments))
        task = text_task(arguments["n"])
        step[name] = step_flops(
            task, sizes_of(task, arguments["width"], arguments["heads"]), mechanism(name), arguments["batch"]
        )
        spent[name] = steps * step[name]
        assert arguments["text"] == digest()
        assert cell.seed != 0
    assert all(settings == kinds[PAIRS] for settings in kinds.values())
    assert set(kinds) == ({PAIRS, TRIPLES, PRODUCT} if "product" in id else {PAIRS, TRIPLES})
    assert spent[TRIPLES] == arguments["steps"] * step[TRIPLES]
    if id.endswith("steps"):
        assert spent[PAIRS] == arguments["steps"] * step[PAIRS]
    else:
        assert spent[TRIPLES] - step[PAIRS] < spent[PAIRS] <= spent[TRIPLES]


def test_a_run_is_of_the_sizes_and_the_rate_that_its_cell_names() -> None:
    arguments = {"n": 6, "width": 8, "heads": 2, "attention": TRIPLES, "batch": 2, "points": 4}
    run = trained(text=digest(), lr=0.01, **arguments, steps=2, compute_steps=3, seed=1)
    assert run["step"] == [0, 1, 2, 3]
    task = text_task(6)
    sizes = sizes_of(task, 8, 2)
    assert run["parameters"] == parameter_count(
        task, sizes, mechanism(TRIPLES), hidden_units(task, sizes, LAYERED[TRIPLES])
    )
    assert run["step_flops"] == step_flops(task, sizes, mechanism(TRIPLES), 2)
    slower = trained(text=digest(), lr=0.001, **arguments, steps=2, compute_steps=3, seed=1)
    assert slower["loss"][0] == run["loss"][0]
    assert slower["loss"][1] != run["loss"][1]


def runs(
    pairs: tuple[float, float],
    triples: tuple[float, float],
    products: tuple[float, float] | None = None,
    *,
    text: str = RECORDED_TEXT,
) -> list[CellResult]:
    """Results of four seeds of each model: nearly these losses at equal steps and at equal compute."""
    cells = []
    ends_of = {PAIRS: pairs, TRIPLES: triples} | ({} if products is None else {PRODUCT: products})
    for (name, ends), seed in product(ends_of.items(), (1, 2, 3, 4)):
        arguments = {"text": text, "attention": name, "steps": 10, "compute_steps": 20}
        losses = [3.0, *(end + 0.01 * seed for end in ends)]
        result = {"step": [0, 10, 20], "loss": losses, "accuracy": [0.0] * 3, "parameters": 1000, "step_flops": 7.0}
        cells.append(CellResult(arguments, seed, {**result, "python": "3.99.1"}))
    return cells


@pytest.mark.parametrize(
    ("pairs", "triples", "compute", "steps"),
    [((2.0, 1.0), (1.5, 1.5), HOLDS, HOLDS), ((2.0, 1.0), (2.5, 0.5), FAILS, FAILS)],
)
def test_each_claim_is_read_at_its_own_steps(
    pairs: tuple[float, float], triples: tuple[float, float], compute: Verdict, steps: Verdict
) -> None:
    cells = runs(pairs, triples)
    assert OURS["language-model/at-equal-compute"].check(cells).verdict is compute
    assert OURS["language-model/shorter"].check(cells).verdict is compute
    finding = OURS["language-model/at-equal-steps"].check(cells)
    assert finding.verdict is steps
    assert f"loss at equal compute, {PAIRS}" not in finding.numbers
    lead = finding.numbers[f"{TRIPLES} ahead of {PAIRS} at equal steps: loss"]
    assert isinstance(lead, Interval)
    assert lead.value == pytest.approx(pairs[0] - triples[0])


@pytest.mark.parametrize(("loss", "verdict"), [(2.5, HOLDS), (1.5, FAILS)])
def test_order_3_is_compared_with_the_product_at_equal_steps(loss: float, verdict: Verdict) -> None:
    """The losses of order 2 and those at equal compute do not decide."""
    for others in (1.0, 3.0):
        cells = runs((others, others), (2.0, others), (loss, others))
        finding = OURS["language-model/product-of-two-order-2-at-equal-steps"].check(cells)
        assert finding.verdict is verdict
        lead = finding.numbers[f"{TRIPLES} ahead of {PRODUCT} at equal steps: loss"]
        assert isinstance(lead, Interval)
        assert lead.value == pytest.approx(loss - 2.0)


def test_insignificant_differences_decide_nothing_and_more_parameters_fail() -> None:
    claim = OURS["language-model/at-equal-compute"]
    cells = runs((2.0, 1.0), (2.0, 1.1))
    assert claim.check(cells).verdict is HOLDS
    worse = replace(cells[0], result={**cells[0].result, "loss": [3.0, 2.0, 1.6]})
    assert claim.check([worse, *cells[1:]]).verdict is OPEN
    larger = replace(cells[0], result={**cells[0].result, "parameters": 1011})
    assert claim.check([larger, *cells[1:]]).verdict is FAILS
    assert not claim.check(runs((2.0, 1.0), (2.0, 1.1), text="0123")).comparable
