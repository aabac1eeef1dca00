"""`nn.TensorAttention` with PyTorch's own tools: autocast, saving, export, and warnings as errors.

Compiled layers are in `tests/nn/test_compiled.py` and `tests/attention/dispatch/test_transforms.py`.
"""

from __future__ import annotations

import pytest
import torch

from separatrix.nn import TensorAttention

KINDS = {
    "exact": {},
    "windowed": {"windows": 3},
    "bounded": {"bound": 1.0},
    "near-linear": {"bound": 1.0, "tolerance": 1e-3},
}
kinds = pytest.mark.parametrize("kind", KINDS)


def model(kind, dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    layer = TensorAttention(8, 2, order=3, generator=generator, dtype=dtype, **KINDS[kind])
    x = torch.randn(2, 7, 8, generator=generator, dtype=dtype)
    return layer, x


def step(run, layer, x):
    """The output and every gradient of one step."""
    layer.zero_grad()
    out = run(x, is_causal=True)
    out.double().square().sum().backward()
    return [out.detach(), *(p.grad.clone() for p in layer.parameters())]


@kinds
def test_a_training_step_under_autocast(kind):
    """Close to the step in float32, with gradients of the parameters' dtype; equal up to bfloat16 rounding."""
    layer, x = model(kind, torch.float32)

    def lowered(*inputs, **options):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return layer(*inputs, **options)

    full, low = step(layer, layer, x), step(lowered, layer, x)
    assert low[0].dtype == torch.bfloat16
    assert {grad.dtype for grad in low[1:]} == {torch.float32}
    for a, b in zip(full, low, strict=True):
        assert (a - b).abs().max() <= 0.1 * a.abs().max() + 1e-3
    assert not torch.equal(full[0], low[0].float())


@kinds
def test_saved_and_loaded_by_safetensors(kind, tmp_path):
    from safetensors.torch import load_model, save_model

    layer, x = model(kind)
    with torch.no_grad():
        layer.out_proj.weight.add_(0.5)
    save_model(layer, tmp_path / "layer.safetensors")
    other, _ = model(kind)
    assert not torch.equal(other(x), layer(x))
    load_model(other, tmp_path / "layer.safetensors")
    assert torch.equal(other(x), layer(x))


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

    layer, x = model("near-linear")
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
    """In a separate interpreter: late imports give late warnings. `forked` runs `python -W error`."""
    done = forked(TRAINING)
    assert (done.returncode, done.stdout, done.stderr) == (0, "trained\n", "")
