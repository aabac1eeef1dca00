"""Layers whose projections are quantised by `torch.ao.quantization.quantize_dynamic`."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from separatrix import ArgumentError
from separatrix.nn import TensorAttention

KINDS = {
    "exact": {},
    "no bias": {"bias": False},
    "normalised": {"qk_norm": True, "head_norm": True, "learned_scale": True},
    "near-linear": {"bound": 1.0, "tolerance": 1e-3},
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # PyTorch recommends torchao
@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor:UserWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_a_layer_with_projections_in_8_bits(kind):
    generator = torch.Generator().manual_seed(0)
    layer = TensorAttention(16, 2, generator=generator, **KINDS[kind]).eval()
    x = torch.randn(2, 7, 16, generator=generator)
    quantised = torch.ao.quantization.quantize_dynamic(layer, {nn.Linear}, dtype=torch.qint8)
    assert not isinstance(quantised.q_proj, nn.Linear)
    with torch.no_grad():
        found, expected = quantised(x, is_causal=True), layer(x, is_causal=True)
        # Inputs and weights are rounded to 8 bits: the errors are some percent, and not zero.
        difference = (found - expected).abs().max()
        assert 0 < difference < 0.1 * expected.abs().max()
        cache = quantised.cache(batch_size=2)
        parts = [quantised.decode(x[:, :4], cache), quantised.decode(x[:, 4:], cache)]
        assert (torch.cat(parts, 1) - expected).abs().max() < 0.1 * expected.abs().max()
    assert quantised.config() == layer.config()
    with pytest.raises(ArgumentError, match=r"the layer's type torch\.float32"):
        quantised(x.double())
