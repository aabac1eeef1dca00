"""The models: equal parameters, causality, the last position alone as in the whole model, and counted flops."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch.nn.functional import cross_entropy
from torch.utils.flop_counter import FlopCounterMode

from separatrix.attention import reference
from separatrix.attention.linear import linear_attention
from separatrix.errors import ArgumentError
from separatrix.nn import TensorAttention, rotary
from separatrix.studies.learning.compute import attention_flops, polynomial_flops, step_flops
from separatrix.studies.learning.mechanisms import (
    FURTHER_LAYERS,
    JOINING_ALIKE,
    LAYERED,
    LAYERS,
    MECHANISMS,
    SEPARATE,
    AttentionKind,
    LinearAttention,
    MixedAttention,
    ProductAttention,
    ValueNormAttention,
    layer_of,
    mechanism,
)
from separatrix.studies.learning.models import Model, Sizes, hidden_units, parameter_count
from separatrix.studies.learning.tasks.recall import Recall
from separatrix.studies.learning.tasks.task import Task, TaskBatch
from separatrix.studies.learning.tasks.text import text_task

OTHERS = (JOINING_ALIKE | LAYERS | FURTHER_LAYERS | SEPARATE).items() - MECHANISMS.items()
"""The attentions of joins and of layer settings, whose head dimension is a multiple of 3."""


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def symbols(n: int, asked: int) -> Task:
    def draw(count: int, generator: torch.Generator) -> TaskBatch:
        tokens = torch.randint(11, (count, n, 2), generator=generator)
        return TaskBatch(tokens, tokens[:, -asked:, 0] % 5)

    return Task(n, 11, 5, asked, draw, draw)


@pytest.mark.parametrize("task", [Recall().task, text_task(32), symbols(7, 7)], ids=["recall", "text", "symbols"])
@pytest.mark.parametrize("sizes", [Sizes(), Sizes(12, 3, 50), Sizes(8, 8, 64)], ids=str)
def test_attentions_have_equally_many_parameters(task: Task, sizes: Sizes) -> None:
    counts = {}
    for name, kind in MECHANISMS.items():
        model = Model(task, sizes, kind, generator=generator())
        counts[name] = sum(parameter.numel() for parameter in model.parameters())
        assert counts[name] == parameter_count(task, sizes, kind, model.hidden), name
    assert counts["order 2"] == parameter_count(task, sizes, AttentionKind(), sizes.hidden)
    for name, count in counts.items():
        assert abs(count - counts["order 2"]) <= mechanism(name).layers * (2 * sizes.width + 1) / 2, name
        if sizes == Sizes():
            assert abs(count / counts["order 2"] - 1) < 0.01, name


def test_forms_and_norms_have_equally_many_parameters() -> None:
    task, sizes = Recall().task, Sizes(12, 4, 70)
    for name, kind in OTHERS:
        model = Model(task, sizes, kind, generator=generator())
        count = sum(parameter.numel() for parameter in model.parameters())
        assert count == parameter_count(task, sizes, kind, model.hidden), name
        target = parameter_count(task, sizes, AttentionKind(), sizes.hidden)
        assert abs(count - target) <= kind.layers * (2 * sizes.width + 1) / 2, name


@pytest.mark.parametrize("name", [*MECHANISMS, *sorted(name for name, _ in OTHERS)])
def test_answers_do_not_depend_on_later_tokens(name: str) -> None:
    task = symbols(9, 9)
    model = Model(task, Sizes(12, 2, 70), mechanism(name), generator=generator()).double()
    tokens = task.training(2, generator(1)).tokens
    changed = tokens.clone()
    changed[:, 5:] = (changed[:, 5:] + 1) % 11
    with torch.no_grad():
        before, after = model(tokens), model(changed)
    assert torch.allclose(before[:, :5], after[:, :5], rtol=0, atol=1e-12)
    assert not torch.allclose(before[:, 5:], after[:, 5:], atol=1e-3)


@pytest.mark.parametrize("name", [*MECHANISMS, *sorted(name for name, _ in OTHERS)])
def test_the_last_answer_alone_is_the_last_of_all(name: str) -> None:
    model = Model(symbols(9, 9), Sizes(12, 2, 70), mechanism(name), generator=generator()).double()
    last = Model(symbols(9, 1), Sizes(12, 2, 70), mechanism(name), generator=generator()).double()
    last.load_state_dict(model.state_dict())
    tokens = symbols(9, 9).training(3, generator(1)).tokens
    with torch.no_grad():
        assert torch.allclose(last(tokens), model(tokens)[:, -1:], rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", [name for name, kind in MECHANISMS.items() if kind.bound is not None])
def test_bounded_layers_compute_by_the_polynomial_method_to_their_tolerance(name: str) -> None:
    """Only a tolerance leads to a plan, which changes answers by no more than the tolerance."""
    task, sizes = symbols(6, 6), Sizes(4, 2, 40)
    exact = Model(task, sizes, mechanism(name), generator=generator())
    near = Model(task, sizes, mechanism(name), tolerance=1e-3, generator=generator())
    layer = near.blocks[0].attention
    assert isinstance(layer, TensorAttention)
    assert layer.plan is not None
    assert exact.blocks[0].attention.plan is None
    tokens = task.training(3, generator(1)).tokens
    with torch.no_grad():
        a, b = exact(tokens), near(tokens)
    assert not torch.equal(a, b)
    assert torch.allclose(a, b, atol=0.02)


def test_linear_attention_is_the_function_of_its_projections() -> None:
    layer = LinearAttention(6, 2, "taylor2", generator=generator()).double()
    x = torch.randn(2, 5, 6, generator=generator(1), dtype=torch.float64)
    heads = []
    for h in range(2):
        q, k, v = ((project(x))[..., 3 * h : 3 * h + 3] for project in (layer.q_proj, layer.k_proj, layer.v_proj))
        heads.append(linear_attention(q / 3**0.25, k / 3**0.25, v, feature_map="taylor2", is_causal=True))
    assert torch.allclose(layer(x, is_causal=True), layer.out_proj(torch.cat(heads, -1)), rtol=0, atol=1e-12)


@pytest.mark.parametrize("norms", [(), ("qk_norm",), ("qk_norm", "head_norm")], ids=str)
def test_mixed_attention_is_the_layer_with_orders_by_head(norms: tuple[str, ...]) -> None:
    mixed = MixedAttention(12, 4, 0.7, norms, generator=generator()).double()
    layer = TensorAttention(12, 4, [2, 2, 3, 3], scale=0.7, **dict.fromkeys(norms, True), dtype=torch.float64)
    projections = {"q": layer.q_proj, "k1": layer.k_proj[0], "v1": layer.v_proj[0]}
    projections |= {"k2": layer.k_proj[1], "v2": layer.v_proj[1]}
    for name, projection in projections.items():
        projection.load_state_dict(mixed.projections[name].state_dict())
    layer.out_proj.load_state_dict(mixed.out_proj.state_dict())
    gains = {"q": layer.q_gain, "k1": layer.k_gain[0], "k2": layer.k_gain[1]} if "qk_norm" in norms else {}
    gains |= {"out": layer.out_gain} if "head_norm" in norms else {}
    for name, gain in gains.items():
        with torch.no_grad():
            gain.copy_(torch.nn.init.normal_(mixed.gains[name], generator=generator(2)))
    assert set(mixed.gains) == set(gains)
    x = torch.randn(2, 5, 12, generator=generator(1), dtype=torch.float64)
    torch.testing.assert_close(mixed(x, is_causal=True), layer(x, is_causal=True), rtol=0, atol=1e-12)


def test_the_values_of_heads_are_normalised() -> None:
    layer = ValueNormAttention(12, 4, 3, scale=0.7, generator=generator()).double()
    for gain in layer.v_gain:
        torch.nn.init.normal_(gain, generator=generator(2))
    x = torch.randn(2, 5, 12, generator=generator(1), dtype=torch.float64)
    heads = []
    for h in range(4):
        q, k1, k2, v1, v2 = (
            project(x)[..., 3 * h : 3 * h + 3] for project in (layer.q_proj, *layer.k_proj, *layer.v_proj)
        )
        gains = [gain[3 * h : 3 * h + 3] for gain in layer.v_gain]
        values = [v / v.square().mean(-1, keepdim=True).sqrt() * gain for v, gain in zip((v1, v2), gains, strict=True)]
        heads.append(reference.tensor_attention(q, [k1, k2], values, scale=0.7, is_causal=True)[0])
    torch.testing.assert_close(layer(x, is_causal=True), layer.out_proj(torch.cat(heads, -1)), rtol=0, atol=1e-12)


def test_a_product_in_windows_multiplies_two_layers_of_order_2() -> None:
    """Both layers of order 2 are computed by the definition, with rotary positions and masks for windows of 4 and 2."""
    product = layer_of(
        AttentionKind(3, windows=(4, 2), rotary=100.0, form="separate"), 8, 2, None, generator=generator()
    )
    assert isinstance(product, ProductAttention)
    x = torch.randn(3, 7, 8, generator=generator(1))
    q, keys, values = product.factors.project(x, x, x)
    i, j = torch.arange(7).unsqueeze(1), torch.arange(7)
    heads = []
    for k, v, window in zip(keys, values, (4, 2), strict=True):
        scores = rotary(q, 0, 2, base=100.0) @ rotary(k, 1, 2, base=100.0).mT / 2.0
        heads.append(scores.masked_fill((j > i) | (j <= i - window), -torch.inf).softmax(-1) @ v)
    expected = product.factors.out_proj((heads[0] * heads[1]).transpose(1, 2).flatten(2))
    torch.testing.assert_close(product(x, is_causal=True), expected)


def test_mixed_attention_refuses_an_odd_number_of_heads() -> None:
    with pytest.raises(ArgumentError, match="num_heads: expected an even number"):
        MixedAttention(9, 3, 1.0, generator=generator())


def test_the_scale_is_a_power_of_the_head_dimension() -> None:
    scales = [layer_of(LAYERS[name], 48, 4, None, generator()).scale for name in ("order 3", "order 3, scale 1/d")]
    assert scales == pytest.approx([12**-0.5, 1 / 12])


@pytest.mark.parametrize("name", ["linear elu", "order 2", "order 3"])
def test_gradients(name: str) -> None:
    task = symbols(4, 4)
    model = Model(task, Sizes(4, 2, 20), mechanism(name), generator=generator()).double()
    batch = task.training(2, generator(1))
    weight = model.embedding.detach().clone()

    def loss(weight: torch.Tensor) -> torch.Tensor:
        logits = torch.func.functional_call(model, {"embedding": weight}, (batch.tokens,))
        return cross_entropy(logits.flatten(0, 1), batch.answers.flatten())

    assert torch.autograd.gradcheck(loss, weight.requires_grad_())


@pytest.mark.parametrize("name", ["order 2", "order 3", "order 2, two layers", "order 3, R = 1", *LAYERED])
@pytest.mark.parametrize("asked", [1, 9])
def test_flops_outside_attention_are_those_that_pytorch_counts(
    name: str, asked: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Attention is excluded from both counts: its keys and values are read, and nothing else."""
    task, sizes, kind = symbols(9, asked), Sizes(8, 2, 90 if name in LAYERED else 40), mechanism(name)
    model = Model(task, sizes, kind, generator=generator())

    def summed(self: object, q: torch.Tensor, keys: list, values: list, *_: object, **__: object) -> torch.Tensor:
        return q + sum(x.sum(-2, keepdim=True) for x in (*keys, *values))

    for block in model.blocks:
        monkeypatch.setattr(type(block.attention), "_attend", summed)
    monkeypatch.setattr("separatrix.studies.learning.compute.attention_flops", lambda *_: 0.0)
    tokens = task.training(3, generator(1)).tokens
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model(tokens)
    assert 3 * counter.get_total_flops() == step_flops(task, sizes, kind, 3)


def test_flops_of_attention_by_hand() -> None:
    """Two heads of dimension 3, five tokens; 10 monomials of degree up to 2 in 3 variables; elu has 3 features."""
    assert attention_flops(AttentionKind(3), 2, 3, 5, 1) == 2 * (5 * 5) * (2 * 3 + 2 * 3)
    assert attention_flops(AttentionKind(3), 2, 3, 6, 6) == 2 * (6 * 6 * 6 / 3) * (2 * 3 + 2 * 3)
    assert attention_flops(AttentionKind(features="elu"), 2, 3, 5, 5) == 2 * 2 * 3 * 4 * 10
    assert attention_flops(AttentionKind(3, form="determinant"), 2, 3, 5, 1) == 2 * (5 * 5) * (2 * 6 + 2 * 3)
    assert attention_flops(AttentionKind(3, form="mixed"), 2, 3, 5, 1) == (5 + 5 * 5) * (2 * 3 + 2 * 3)
    bounded = AttentionKind(3, 0.5)
    assert polynomial_flops(bounded, 2, 3, 500, 500) == 2 * 2 * 10 * 4 * 2 * 1000
    assert attention_flops(bounded, 2, 3, 500, 500) == polynomial_flops(bounded, 2, 3, 500, 500)
    assert attention_flops(bounded, 2, 3, 5, 1) == attention_flops(AttentionKind(3), 2, 3, 5, 1)
    with pytest.raises(ArgumentError, match="kind: expected one with a bound"):
        polynomial_flops(AttentionKind(3), 2, 3, 5, 5)


def test_bad_sizes() -> None:
    for name in ("width", "heads", "hidden"):
        with pytest.raises(ArgumentError, match=f"{name}: expected an integer >= 1"):
            dataclasses.replace(Sizes(), **{name: 0})
    with pytest.raises(ArgumentError, match="heads: expected a divisor of width = 16, got 3"):
        Sizes(16, 3)
    with pytest.raises(ArgumentError, match="mechanism: expected linear elu or"):
        mechanism("order 5")
    with pytest.raises(ArgumentError, match="hidden: expected enough"):
        hidden_units(Recall().task, Sizes(16, 4, 8), AttentionKind(3))
