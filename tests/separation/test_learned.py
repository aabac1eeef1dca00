"""Learned weights: the data and the score are the paper's, and training reduces the loss."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

import pytest
import torch

from separatrix.errors import ArgumentError
from separatrix.separation import CrossAttention, SelfAttention, SoftmaxRegression, by_hand, learn
from separatrix.separation.datasets import AttentionInput, cross_attention_input, self_attention_input
from separatrix.separation.examples import Examples, attend, draw_examples, initial_weights, rows_at, stack
from separatrix.separation.learned import _loss, _score
from separatrix.separation.networks import linear_network, linear_regression, softmax_network, softmax_regression

SELF = {"a0": "0.09", "a1": 1, "b": "0.2", "c": "0.8"}
# n = 7 leaves classes of two sizes, n = 4 classes of one row.
SETTINGS: list[SelfAttention | CrossAttention] = [
    SelfAttention(9, 5, 3, **SELF, weights="identity"),
    SelfAttention(7, 5, 3, **SELF, weights="ones", strict=False),
    SelfAttention(4, 6, 3, **SELF, weights="identity"),
    CrossAttention(8, 5, 3, a0="0.09", a1=2),
    CrossAttention(7, 4, 3, a0="0.09", a1=2, strict=False),
]
BOTH = ("softmax", "linear")


def literal(setting: SelfAttention | CrossAttention, a: float, j3: int) -> AttentionInput:
    if isinstance(setting, CrossAttention):
        return cross_attention_input(setting.n, setting.d, a, special_query=1, special=j3)
    return self_attention_input(setting.n, setting.d, a, 0.2, 0.8, j3)


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("mechanism", BOTH)
def test_the_score_is_positive_where_the_papers_network_fires(setting: Any, mechanism: str) -> None:
    """Compare all n tokens and n x n attention with distinct tokens and multiplicities."""
    generator = torch.Generator().manual_seed(0)
    network = softmax_network if mechanism == "softmax" else linear_network
    weights = setting.weight_matrix()
    fired = set()
    for j3 in range(setting.n):
        a = 2 * torch.rand(6, generator=generator, dtype=torch.float64)
        y = 2 * torch.randn(1, setting.d, 3, generator=generator, dtype=torch.float64)
        rows = stack([rows_at(setting, a, torch.full((6,), j3))])
        s = _score(attend(rows, weights, softmax=mechanism == "softmax", regression=False), y, setting.threshold)
        F = [network(literal(setting, x, j3), weights, y[0], setting.threshold).item() for x in a.tolist()]
        assert [x > 0 for x in s[0].tolist()] == [x > 0 for x in F]
        fired |= {x > 0 for x in F}
    assert fired == {True, False}


@pytest.mark.parametrize("mechanism", BOTH)
def test_so_it_is_in_softmax_regression(mechanism: str) -> None:
    setting, generator = SoftmaxRegression(12, 3), torch.Generator().manual_seed(3)
    examples = draw_examples(setting, 20, generator)
    y = torch.randn(12, 3, generator=generator, dtype=torch.float64)
    c = attend(stack([examples]), initial_weights(setting), softmax=mechanism == "softmax", regression=True)
    s = _score(c, y[None], setting.threshold)[0]
    network = softmax_regression if mechanism == "softmax" else linear_regression
    for keys, score in zip(examples.keys, s.tolist(), strict=True):
        data = dataclasses.replace(setting.sample(0)[0], A=keys)
        assert (score > 0) == (network(data, y, setting.threshold).item() > 0)


@pytest.mark.parametrize("setting", [*SETTINGS, SoftmaxRegression(30, 2)])
def test_examples_are_labelled_and_in_their_ranges(setting: Any) -> None:
    examples = draw_examples(setting, 50, torch.Generator().manual_seed(1))
    assert examples.label.tolist() == [-1.0] * 50 + [1.0] * 50
    assert (examples.multiplicity.sum(1) == setting.n).all()
    if isinstance(setting, SoftmaxRegression):
        log_n = torch.tensor(setting.n, dtype=torch.float64).log()
        largest = (examples.keys.squeeze(-1) / log_n).amax(1)
        assert (largest[:50] <= 1.4).all()
        torch.testing.assert_close(largest[50:], torch.full((50,), 4.0).double())
        assert ((examples.keys.squeeze(-1) / log_n > 1.4).sum(1)[50:] == 1).all()
        return
    unit = torch.tensor(setting.n, dtype=torch.float64).log() ** (1 if isinstance(setting, CrossAttention) else 0.5)
    a = examples.queries[:, 0, 0] / unit
    assert (a[:50] <= 0.09).all()
    assert (a[50:] >= float(setting.a1)).all()
    assert (a[50:] <= float(setting.a1) + 1).all()


@pytest.mark.parametrize("softmax", [True, False])
@pytest.mark.parametrize("setting", [SETTINGS[1], SETTINGS[3]])
def test_the_gradient_is_that_of_the_loss(setting: Any, softmax: bool) -> None:
    generator = torch.Generator().manual_seed(2)
    examples: Examples = stack([draw_examples(setting, 3, generator)])
    y = torch.randn(1, setting.d, 2, generator=generator, dtype=torch.float64, requires_grad=True)
    X = (initial_weights(setting) + 0.1 * torch.randn(setting.d, setting.d, generator=generator)).requires_grad_()

    def loss(y: torch.Tensor, X: torch.Tensor) -> torch.Tensor:
        c = attend(examples, X, softmax=softmax, regression=False)
        return _loss(_score(c, y, setting.threshold), examples.label)

    assert torch.autograd.gradcheck(loss, (y, X))


def test_seeds_do_not_touch_one_another_nor_the_global_generator() -> None:
    how: dict[str, Any] = {"examples": 8, "steps": 40, "factors": (1, 4), "held_out": 50}
    state = torch.get_rng_state()
    together = learn(SETTINGS[0], "softmax", "y and X", seeds=[5, 6], **how)
    (alone,) = learn(SETTINGS[0], "softmax", "y and X", seeds=[6], **how)
    assert torch.equal(state, torch.get_rng_state())
    assert together == learn(SETTINGS[0], "softmax", "y and X", seeds=[5, 6], **how)
    assert [learned.seed for learned in together] == [5, 6]
    assert (together[1].train, together[1].held_out, together[1].signs) == (alone.train, alone.held_out, alone.signs)
    assert together[1].loss == pytest.approx(alone.loss, rel=1e-6)
    assert together[0].loss != together[1].loss


@pytest.mark.parametrize("trained", ["y", "y and X"])
@pytest.mark.parametrize("setting", [SETTINGS[0], SETTINGS[3], SoftmaxRegression(12, 3)])
def test_training_lowers_the_loss(setting: Any, trained: Literal["y", "y and X"]) -> None:
    """The loss falls below log 2, that of a constant network; at a tiny learning rate the answers do not change."""
    how: dict[str, Any] = {"examples": 24, "seeds": [1], "held_out": 40}
    (start,) = learn(setting, "softmax", trained, steps=1, rate=1e-12, **how)
    (end,) = learn(setting, "softmax", trained, steps=200, **how)
    assert end.loss < min(start.loss, 0.69)
    assert start.held_out[0] == start.signs == end.signs
    assert end.train.value > 0.9


def test_linear_attention_learns_its_length_and_no_other() -> None:
    setting = SelfAttention(60, 5, 8, **SELF, weights="ones")
    for mechanism in BOTH:
        models = learn(setting, mechanism, "y", examples=16, steps=300, seeds=[1, 2], factors=(1, 64))
        for model in models:
            here, there = (estimate.value for estimate in model.held_out)
            assert here > 0.95
            assert there > 0.95 if mechanism == "softmax" else there < 0.6


@pytest.mark.parametrize("setting", [SETTINGS[0], SETTINGS[3], CrossAttention(400, 5, 1, a0="0.09", a1=2)])
@pytest.mark.parametrize("mechanism", BOTH)
def test_by_hand_separates_by_the_papers_networks(setting: Any, mechanism: Literal["softmax", "linear"]) -> None:
    weights = by_hand(setting, mechanism)
    assert weights.K is not None
    y = torch.zeros(setting.d, 1, dtype=torch.float64)
    y[0] = weights.K
    network = softmax_network if mechanism == "softmax" else linear_network
    for a, fires in ((0.0, False), (0.09, False), (float(setting.a1), True), (float(setting.a1) + 1, True)):
        for j3 in (0, 3):
            F = network(literal(setting, a, j3), setting.weight_matrix(), y, setting.threshold).item()
            assert (F > 0) == fires


def test_the_construction_cannot_distinguish_equal_data_sets() -> None:
    assert by_hand(CrossAttention(8, 5, 1, a0=1, a1=1, strict=False), "linear").K is None


@pytest.mark.parametrize(
    ("changed", "names"),
    [
        ({"mechanism": "cosine"}, "mechanism"),
        ({"trained": "X"}, "trained"),
        ({"examples": 0}, "examples"),
        ({"steps": 0}, "steps"),
        ({"held_out": 0}, "held_out"),
        ({"seeds": []}, "seeds"),
        ({"seeds": [-1]}, "seeds"),
        ({"rate": 0.0}, "rate"),
        ({"factors": ()}, "factors"),
        ({"factors": (10**9,)}, "factors"),
        ({"setting": SoftmaxRegression(10, 2), "factors": (1, 2)}, "factors"),
    ],
)
def test_errors_name_the_argument(changed: dict[str, Any], names: str) -> None:
    how = {"setting": SETTINGS[0], "mechanism": "linear", "trained": "y", "examples": 2, "steps": 1, "seeds": [0]}
    with pytest.raises(ArgumentError) as error:
        learn(**{**how, **changed})
    assert error.value.argument == names
