"""Training: its data, its results against a plain autograd loop, bitwise resumption, divergence, and bad input."""

from __future__ import annotations

import dataclasses
import itertools
import threading
from collections.abc import Iterable

import pytest
import torch
from torch import Tensor

from separatrix.errors import ArgumentError
from separatrix.selection.checkpoint import Checkpoint, generator_from
from separatrix.selection.encodings import near_orthogonal_encoding, subset_code
from separatrix.selection.isometry import coherence
from separatrix.selection.settings import TrainingSettings, heat_map_settings, paper_settings
from separatrix.selection.stream import BLOCK, Blocks, Prefetch, derived_generator, query_tokens
from separatrix.selection.task import subset_average
from separatrix.selection.training import Record, resumable, train
from separatrix.selection.transformer import SelectionTransformer, selection_loss
from separatrix.selection.validation import validation_points

SMALL = TrainingSettings(
    T=9,
    q=2,
    d=2,
    width=14,
    threshold=0.6,
    lr=((0, 0.8), (30, 0.3)),
    batch=6,
    steps=75,
    seed=3,
    validate_every=10,
    validation_T=(11, 13),
    validation_q=(3,),
    validation_batch=5,
    snapshots=(0, 40, 75),
)
KINDS = list(itertools.product(["stochastic", "fixed"], ["sgd", "adam"], ["zero", "random"]))


def _settings(encoding: str, optimiser: str, initial: str) -> TrainingSettings:
    return dataclasses.replace(SMALL, encoding=encoding, optimiser=optimiser, initial=initial)


def _same(first: Record, two: Record) -> bool:
    weights = [record.weights for record in (first, two)]
    plain = [dataclasses.replace(record, weights=None) for record in (first, two)]
    if (weights[0] is None) != (weights[1] is None):
        return False
    matrices = zip(*weights, strict=True) if weights[0] is not None and weights[1] is not None else []
    return plain[0] == plain[1] and all(torch.equal(a, b) for a, b in matrices)


def _blocks(settings: TrainingSettings, fixed: Tensor | None, step: int = 0) -> Blocks:
    return Blocks(settings, fixed, step, derived_generator(settings.seed, 0), derived_generator(settings.seed, 1))


@pytest.mark.parametrize("encoding", ["stochastic", "fixed"])
def test_a_batch_has_its_definition(encoding: str) -> None:
    fixed = torch.eye(9, 14) if encoding == "fixed" else None
    blocks = _blocks(SMALL, fixed)
    seen = []
    for _ in range(2 * BLOCK + 3):
        X, E, y, g, _ = blocks.batch()
        assert X.shape == (6, 2, 9)
        torch.testing.assert_close((E[y] * g.unsqueeze(2)).sum(1), subset_code(E, y), rtol=0, atol=1e-5)
        assert coherence(E) <= 0.6 + 1e-6
        seen.append((X.clone(), E.clone(), y.clone()))
    blocks.close()
    firsts = {tuple(X[0, 0].tolist()) for X, _, _ in seen}
    assert len(firsts) == len(seen)
    assert len({tuple(E.flatten().tolist()) for _, E, _ in seen}) == (1 if fixed is not None else len(seen))


def test_data_are_made_on_one_thread_and_the_caller_keeps_its_own() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        made: Prefetch[int] = Prefetch(lambda _: torch.get_num_threads(), torch.Generator())
        counts = [made.take()[1] for _ in range(4)]
        made.close()
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
    assert counts == [1] * 4


def test_the_stream_goes_on_from_the_middle_of_a_block() -> None:
    straight = _blocks(SMALL, None)
    batches = [[x.clone() for x in straight.batch()[:4]] for _ in range(3 * BLOCK)]
    straight.close()
    broken = _blocks(SMALL, None)
    for _ in range(BLOCK + 5):
        broken.batch()
    states = broken.states
    broken.close()
    again = Blocks(SMALL, None, BLOCK + 5, *map(generator_from, states))
    for expected in batches[BLOCK + 5 :]:
        assert all(torch.equal(a, b) for a, b in zip(again.batch()[:4], expected[:4], strict=True))
    again.close()


@pytest.mark.parametrize(
    ("encoding", "optimiser", "initial", "query"),
    [
        *((*kind, "zero") for kind in KINDS),
        ("stochastic", "sgd", "random", "fixed"),
        ("fixed", "adam", "zero", "drawn"),
        ("stochastic", "adam", "random", "drawn"),
    ],
)
def test_a_run_is_the_plain_autograd_loop_on_the_same_data(
    encoding: str, optimiser: str, initial: str, query: str
) -> None:
    settings = dataclasses.replace(_settings(encoding, optimiser, initial), steps=40, snapshots=(0, 40), query=query)
    if optimiser == "adam":
        settings = dataclasses.replace(settings, lr=((0, 0.01),))
    records = list(train(settings))
    start, end = (record.weights for record in records if record.weights is not None)
    model = SelectionTransformer(2, 14)
    with torch.no_grad():
        model.W.copy_(start[0])
        model.V.copy_(start[1])
    kind = torch.optim.SGD if optimiser == "sgd" else torch.optim.Adam
    plain = kind(model.parameters(), lr=settings.rate(0))
    fixed = None
    if encoding == "fixed":
        source = derived_generator(settings.seed, 4)
        fixed = near_orthogonal_encoding(13, 14, threshold=0.6, generator=source).E[:9]
    blocks = _blocks(settings, fixed)
    losses = []
    for step in range(40):
        X, E, y, *_ = blocks.batch()
        tokens = query_tokens(settings, step, settings.batch)
        assert (tokens is None) == (query == "zero")
        plain.param_groups[0]["lr"] = settings.rate(step)
        plain.zero_grad()
        loss = selection_loss(model(X.mT, y, E, tokens), subset_average(X.mT, y))
        loss.backward()
        plain.step()
        losses.append(loss.item())
    blocks.close()
    torch.testing.assert_close(end[0], model.W.detach(), rtol=1e-4, atol=2e-5)
    torch.testing.assert_close(end[1], model.V.detach(), rtol=1e-4, atol=2e-5)
    assert records[-1].loss == pytest.approx(sum(losses[30:]) / 10, rel=1e-4)
    assert [record.step for record in records] == [0, 10, 20, 30, 40]


def _split(yielded: Iterable[Record | Checkpoint]) -> tuple[list[Record], list[Checkpoint]]:
    items = list(yielded)
    return [item for item in items if isinstance(item, Record)], [
        item for item in items if isinstance(item, Checkpoint)
    ]


@pytest.mark.parametrize(("encoding", "optimiser", "initial"), KINDS)
def test_a_run_goes_on_from_any_state_bit_for_bit(encoding: str, optimiser: str, initial: str) -> None:
    query = "drawn" if initial == "random" else "zero"
    settings = dataclasses.replace(_settings(encoding, optimiser, initial), query=query)
    uninterrupted = {record.step: record for record in train(settings)}
    for every in (7, 10, 16, 33, 100):
        records, states = _split(resumable(settings, checkpoint_every=every))
        assert [state.step for state in states] == [*range(every, settings.steps, every), settings.steps]
        assert all(_same(record, uninterrupted[record.step]) for record in records)
        for state in states:
            # A state survives being written and read, and the resumed run does not change it.
            read = Checkpoint.of_tensors(state.step, {name: tensor.numpy() for name, tensor in state.tensors().items()})
            before = {name: tensor.clone() for name, tensor in read.tensors().items()}
            after, later = _split(resumable(settings, start=read, checkpoint_every=every))
            assert [record.step for record in after] == [step for step in uninterrupted if step > state.step]
            assert all(_same(record, uninterrupted[record.step]) for record in after)
            assert all(torch.equal(tensor, before[name]) for name, tensor in read.tensors().items())
            for state_again, two in zip(later, [other for other in states if other.step > state.step], strict=True):
                assert state_again.step == two.step
                assert all(torch.equal(tensor, two.tensors()[name]) for name, tensor in state_again.tensors().items())


def test_a_state_of_another_run_is_refused() -> None:
    _, [state] = _split(resumable(SMALL))
    for other in ({"d": 3}, {"optimiser": "adam"}):
        with pytest.raises(ArgumentError, match="start: expected a state of a run with the same settings"):
            next(resumable(dataclasses.replace(SMALL, **other), start=state))
    with pytest.raises(ArgumentError, match="checkpoint_every: expected an integer >= 1"):
        next(resumable(SMALL, checkpoint_every=0))


def test_records_are_correct() -> None:
    records = list(train(SMALL))
    assert [record.step for record in records] == [0, 10, 20, 30, 40, 50, 60, 70, 75]
    first, last = records[0], records[-1]
    assert (first.loss, first.cosine_W, first.cosine_V) == (None, None, None)
    assert last.loss is not None
    assert set(last.validation) == {"T=11", "T=13", "q=3"}
    assert [record.step for record in records if record.weights is not None] == [0, 40, 75]
    assert [record.lr for record in records[:5]] == [0.8, 0.8, 0.8, 0.3, 0.3]
    assert last.weights is not None
    assert float(last.weights[0][:, :2].abs().max()) == 0.0
    W_star = torch.diag(torch.tensor([0.0] * 2 + [1.0] * 14))
    expected = float((last.weights[0] * W_star).sum() / (last.weights[0].norm() * 14**0.5))
    assert last.cosine_W == pytest.approx(expected, abs=1e-6)


def test_a_fixed_encoding_is_validated_on_its_prefixes() -> None:
    """Recompute every task's loss by the definition, on the first T positions and the same fixed points."""
    settings = _settings("fixed", "sgd", "random")
    record = list(train(settings))[-1]
    assert record.weights is not None
    source = derived_generator(settings.seed, 4)
    E = near_orthogonal_encoding(13, 14, threshold=0.6, generator=source).E
    model = SelectionTransformer(2, 14)
    with torch.no_grad():
        model.W.copy_(record.weights[0])
        model.V.copy_(record.weights[1])
        for name, (X, y, target) in validation_points(settings, derived_generator(settings.seed, 3)).items():
            expected = float(selection_loss(model(X, y, E[: X.shape[1]]), target))
            assert record.validation[name] == pytest.approx(expected, rel=1e-4)


def test_the_task_is_learnt_and_lengthens() -> None:
    """2000 steps on a small task: the loss falls tenfold, also at longer lengths, and W and V align with the truth."""
    settings = TrainingSettings(
        T=12,
        q=2,
        d=3,
        width=48,
        threshold=0.5,
        lr=((0, 1.0),),
        batch=64,
        steps=2000,
        validation_T=(16,),
        validation_q=(3,),
    )
    records = list(train(settings))
    assert records[-1].loss is not None
    assert records[-1].loss < 0.075
    assert records[-1].cosine_W is not None
    assert records[-1].cosine_W > 0.95
    assert records[-1].cosine_V is not None
    assert records[-1].cosine_V > 0.99
    assert records[-1].validation["T=16"] < 0.2 * records[0].validation["T=16"]


@pytest.mark.parametrize("rate", [1e3, 1e30])
def test_a_run_that_diverges_stops_with_a_sentence_and_keeps_its_records(rate: float) -> None:
    settings = dataclasses.replace(SMALL, initial="random", std=1.0, lr=((0, 0.1), (25, rate)))
    records = list(train(settings))
    assert [record.step for record in records[:3]] == [0, 10, 20]
    assert records[-1].stopped is not None
    assert "diverged" in records[-1].stopped
    assert all(record.stopped is None for record in records[:-1])
    assert records[-1].step < 75


def test_a_run_leaves_threads_and_generators_as_they_were() -> None:
    state, count = torch.get_rng_state(), torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        before = threading.active_count()
        run = train(SMALL)
        next(run)
        assert torch.get_num_threads() == 2
        run.close()
        assert threading.active_count() == before
    finally:
        torch.set_num_threads(count)
    assert torch.equal(state, torch.get_rng_state())


def test_seeds_give_different_runs_and_the_same_seed_the_same() -> None:
    first, two, other = (list(train(dataclasses.replace(SMALL, seed=seed)))[-1] for seed in (5, 5, 6))
    assert _same(first, two)
    assert first.loss != other.loss


def test_the_papers_settings() -> None:
    run = paper_settings("fixed", "sgd", "random", seed=2, batch=128)
    assert (run.T, run.q, run.d, run.width, run.steps, run.batch) == (200, 3, 5, 170, 100_000, 128)
    assert (run.rate(0), run.rate(49_999), run.rate(50_000)) == (1.0, 1.0, 1 / 3)
    assert run.longest_T == 400
    assert run.initial_std == pytest.approx(175**-0.5)
    small = heat_map_settings()
    assert (small.T, small.d, small.width, small.initial_std) == (10, 20, 20, 20**-0.5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"encoding": "sinusoidal"}, "encoding: expected 'stochastic' or 'fixed'"),
        ({"optimiser": "lion"}, "optimiser: expected 'sgd' or 'adam'"),
        ({"q": 0}, "q: expected"),
        ({"batch": 0}, "batch: expected"),
        ({"lr": ((5, 1.0),)}, "lr: expected"),
        ({"lr": ((0, 1.0), (0, 0.5))}, "lr: expected"),
        ({"lr": ((0, -1.0),)}, "lr: expected"),
        ({"std": 0.0}, "std: expected"),
        ({"threshold": 0.01}, "threshold: expected"),
        ({"validation_T": (1,)}, "validation_T: expected"),
        ({"validation_q": (10,)}, "validation_q: expected"),
        ({"snapshots": (76,)}, "snapshots: expected"),
    ],
)
def test_bad_settings_are_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        dataclasses.replace(SMALL, **change)
