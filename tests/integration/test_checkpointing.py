"""Gradient checkpointing: the gradients are those without it, for every method of PyTorch and Transformers."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts, set_checkpoint_early_stop

import separatrix as sx
from separatrix.nn import TensorAttention
from tests.integration.models import CALLS, KINDS


def early_stop(enabled: bool, layer: nn.Module, x: Tensor, **call: object) -> Tensor:
    with set_checkpoint_early_stop(enabled):
        return checkpoint(layer, x, **call, use_reentrant=False)


def reentrant(layer: nn.Module, x: Tensor, **call: object) -> Tensor:
    return checkpoint(lambda y: layer(y, **call), x, use_reentrant=True)


def selective(layer: nn.Module, x: Tensor, **call: object) -> Tensor:
    """The outputs of attention are saved, and the projections are recomputed."""
    saved = [torch.ops.separatrix.attend.default, torch.ops.separatrix.attend_within_bound.default]
    contexts = partial(create_selective_checkpoint_contexts, saved)
    return checkpoint(layer, x, **call, use_reentrant=False, context_fn=contexts)


def on_cpu(layer: nn.Module, x: Tensor, **call: object) -> Tensor:
    with torch.autograd.graph.save_on_cpu():
        return layer(x, **call)


def compiled(layer: nn.Module, x: Tensor, **call: object) -> Tensor:
    torch._dynamo.reset()

    def run(x: Tensor) -> Tensor:
        return checkpoint(layer, x, **call, use_reentrant=False)

    return torch.compile(run, backend="aot_eager", fullgraph=True)(x)


WAYS = {
    "early stop": partial(early_stop, True),
    "no early stop": partial(early_stop, False),
    "reentrant": reentrant,
    "selective": selective,
    "save_on_cpu": on_cpu,
    "compiled": compiled,
}


def gradients(run, layer: nn.Module, x: Tensor) -> list[Tensor]:
    leaves = [x.clone().requires_grad_(), *layer.parameters()]
    layer.zero_grad()
    out = run(layer, leaves[0])
    out.sin().sum().backward()
    return [out.detach(), *(leaf.grad.clone() for leaf in leaves)]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_layer(kind, way):
    generator = torch.Generator().manual_seed(0)
    layer = TensorAttention(8, 2, dtype=torch.float64, generator=generator, **KINDS[kind])
    with torch.no_grad():
        for parameter in layer.parameters():  # some are zero
            parameter.add_(torch.randn(parameter.shape, dtype=torch.float64, generator=generator), alpha=0.2)
    x = torch.randn(2, 7, 8, dtype=torch.float64, generator=generator)
    call = CALLS.get(kind, {"is_causal": True})
    expected = gradients(lambda layer, x: layer(x, **call), layer, x)
    found = gradients(partial(WAYS[way], **call), layer, x)
    assert all(grad.abs().max() > 0 for grad in expected)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


def test_selective_checkpointing_does_not_attend_again(monkeypatch):
    """Attention of plain tensors bypasses the dispatcher; selective checkpointing sees the operator."""
    from separatrix.attention.exact import guarded, plain_tuples

    calls = []

    def counted(function):
        return lambda call: calls.append(call) or function(call)

    for module, name in ((guarded, "forward"), (plain_tuples, "_attend")):
        monkeypatch.setattr(module, name, counted(getattr(module, name)))
    layer, x = TensorAttention(8, 2, generator=torch.Generator().manual_seed(0)), torch.ones(2, 7, 8)
    counts = []
    for run in (partial(early_stop, False), selective):
        calls.clear()
        run(layer, x, is_causal=True).sum().backward()
        counts.append(len(calls))
    assert counts == [2, 1]


@pytest.mark.parametrize("is_causal", [True, False])
def test_attention_with_a_certificate(is_causal):
    """The plan depends on the numbers alone, so the recomputed plan is the same."""
    tensors = torch.rand(5, 300, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))

    def attend(x: Tensor) -> Tensor:
        options = {"tolerance": 1e-3, "method": "polynomial", "is_causal": is_causal}
        return sx.tensor_attention(x[0], [x[1], x[2]], [x[3], x[4]], **options)

    def gradient(run) -> Tensor:
        leaf = tensors.clone().requires_grad_()
        return torch.autograd.grad(run(leaf).sin().sum(), leaf)[0]

    found = gradient(lambda x: checkpoint(attend, x, use_reentrant=False))
    torch.testing.assert_close(found, gradient(attend), rtol=0, atol=0)


def small_model() -> nn.Module:
    """A model of Transformers with two of our layers, which its `gradient_checkpointing_enable` checkpoints."""
    from transformers import PretrainedConfig, PreTrainedModel
    from transformers.modeling_layers import GradientCheckpointingLayer

    class Config(PretrainedConfig):
        model_type = "small-tensor-attention"

    class Block(GradientCheckpointingLayer):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.LayerNorm(8)
            self.attention = TensorAttention(8, 2, order=3)

        def forward(self, x: Tensor) -> Tensor:
            return x + self.attention(self.norm(x), is_causal=True)

    class Model(PreTrainedModel):
        config_class = Config
        supports_gradient_checkpointing = True

        def __init__(self, config: Config) -> None:
            super().__init__(config)
            self.embedding = nn.Embedding(11, 8)
            self.blocks = nn.ModuleList(Block() for _ in range(2))
            self.head = nn.Linear(8, 11)
            self.post_init()

        def forward(self, tokens: Tensor) -> Tensor:
            x = self.embedding(tokens)
            for block in self.blocks:
                x = block(x)
            return self.head(x)

    return Model(Config()).double().train()


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_a_model_of_transformers(use_reentrant, monkeypatch):
    torch.manual_seed(0)
    model = small_model()
    tokens = torch.randint(11, (2, 6), generator=torch.Generator().manual_seed(1))
    calls = []
    forward = TensorAttention.forward
    monkeypatch.setattr(
        TensorAttention, "forward", lambda self, *args, **kwargs: calls.append(self) or forward(self, *args, **kwargs)
    )

    def step() -> tuple[int, list[Tensor]]:
        calls.clear()
        model.zero_grad()
        model(tokens).sin().sum().backward()
        return len(calls), [parameter.grad.clone() for parameter in model.parameters()]

    count, expected = step()
    model.gradient_checkpointing_enable({"use_reentrant": use_reentrant})
    again, found = step()
    assert (count, again) == (2, 4)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
