"""`nn.TensorAttention` in fresh interpreters: exported programs that are loaded, and warnings as errors."""

from __future__ import annotations

import pytest
import torch

from separatrix.nn import TensorAttention

LOADING = """
import sys, torch
import separatrix.nn
from safetensors.torch import load_file, save_file
inputs, program, found = sys.argv[1:]
out = torch.export.load(program).module()(load_file(inputs)["x"])
save_file({"out": out.detach()}, found)
"""


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the exporter's own
def test_an_exported_layer_is_loaded_by_another_process(forked, tmp_path):
    from safetensors.torch import load_file, save_file

    generator = torch.Generator().manual_seed(0)
    layer = TensorAttention(8, 2, generator=generator, dtype=torch.float64, bound=1.0, tolerance=1e-3)
    x = torch.randn(2, 7, 8, generator=generator, dtype=torch.float64)
    inputs, program, found = (str(tmp_path / name) for name in ("inputs", "layer.pt2", "found"))
    save_file({"x": x}, inputs)
    torch.export.save(torch.export.export(layer, (x,)), program)
    done = forked(LOADING, inputs, program, found)
    assert (done.returncode, done.stderr) == (0, "")
    torch.testing.assert_close(load_file(found)["out"], layer(x), rtol=0, atol=1e-14)


TRAINING = """
import torch, separatrix as sx
generator = torch.Generator().manual_seed(0)
for options in ({}, {"bound": 1.0, "tolerance": 1e-3}):
    layer = sx.nn.TensorAttention(8, 2, order=3, generator=generator, **options)
    optimiser = torch.optim.AdamW(layer.parameters(), lr=1e-2)
    x = torch.randn(2, 6, 8, generator=generator)
    losses = []
    for _ in range(5):
        loss = (layer(x, is_causal=True) - x).square().mean()
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0], losses
q = torch.rand(3, 50, 4, generator=generator)
result = sx.certified_attention(q[0], q[1], q[2], tolerance=1e-3, method="polynomial")
state = sx.TensorAttentionState(2, 4, 4, bound=1.0, tolerance=1e-3)
state.append([q[1]], [q[2]])
state.attend(q[0])
sx.linear_attention(q[0], q[1], q[2])
print("trained")
"""


def test_training_where_warnings_are_errors(forked):
    """The test uses a fresh interpreter, because late imports give late warnings. `forked` runs `python -W error`."""
    done = forked(TRAINING)
    assert (done.returncode, done.stdout, done.stderr) == (0, "trained\n", "")
