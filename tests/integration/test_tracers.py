"""`torch.fx` traces a layer as one node, and TorchScript raises an error that names it."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, fx, nn

from separatrix import SeparatrixError
from separatrix.nn import MultiheadTensorAttention, TensorAttention

KINDS = {"exact": {}, "near-linear": {"bound": 1.0, "tolerance": 1e-3}}


class Block(nn.Module):
    def __init__(self, **options: object) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.plain = TensorAttention(8, 2, **options)
        self.paired = MultiheadTensorAttention(8, 2, batch_first=True, **options)

    def forward(self, x: Tensor, padding: Tensor) -> Tensor:
        x = x + self.plain(self.norm(x), key_padding_mask=padding, is_causal=True)
        return x + self.paired(x, x, x, key_padding_mask=padding)[0]


def inputs() -> tuple[Tensor, Tensor]:
    padding = torch.zeros(3, 5, dtype=torch.bool)
    padding[1, 3:] = True
    return torch.randn(3, 5, 8, generator=torch.Generator().manual_seed(0)), padding


@pytest.mark.parametrize("kind", KINDS)
def test_a_layer_is_one_node_of_fx(kind):
    block = Block(**KINDS[kind])
    traced = fx.symbolic_trace(block)
    nodes = [node.target for node in traced.graph.nodes if node.op == "call_module"]
    assert nodes == ["norm", "plain", "paired"]
    torch.testing.assert_close(traced(*inputs()), block(*inputs()), rtol=0, atol=0)
    longer = torch.ones(2, 9, 8), torch.zeros(2, 9, dtype=torch.bool)
    torch.testing.assert_close(traced(*longer), block(*longer), rtol=0, atol=0)


def test_a_layer_by_itself_is_refused_by_fx():
    with pytest.raises(SeparatrixError, match=r"torch\.fx: TensorAttention is one node"):
        fx.symbolic_trace(TensorAttention(8, 2))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # TorchScript's own
@pytest.mark.parametrize("make", [lambda: TensorAttention(8, 2), lambda: TensorAttention(8, 2, order=2), Block])
def test_torchscript_is_refused(make):
    with pytest.raises(SeparatrixError, match=r"torch\.jit\.script: .* Use torch\.export"):
        torch.jit.script(make())
    module = make()
    given = inputs() if isinstance(module, Block) else inputs()[:1]
    with pytest.raises(SeparatrixError, match=r"torch\.jit\.trace: .* Use torch\.export"):
        torch.jit.trace(module, given)
