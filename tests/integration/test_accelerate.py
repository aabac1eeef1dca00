"""Accelerate with a model of our layers: prepared, with accumulated gradients, saved during training and resumed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from separatrix.nn import TensorAttention

accelerate = pytest.importorskip("accelerate")

KINDS: dict[str, dict[str, Any]] = {
    "exact": {},
    "near-linear": {"bound": 1.0, "tolerance": 1e-3, "method": "polynomial"},
    "distinct, lookahead, sinks": {"distinct": True, "windows": 3, "lookahead": 1, "sinks": 1},
    "mixed orders, key bias": {"order": [2, 3], "key_bias": 2},
}
ROWS, BATCH = 12, 2


@pytest.fixture(autouse=True)
def _fresh_state() -> Any:
    """Accelerate has one state per process."""
    from accelerate.state import AcceleratorState, GradientState

    yield
    AcceleratorState._reset_state(reset_partial_state=True)
    GradientState._reset_state()


def net(kind: str) -> nn.Module:
    generator = torch.Generator().manual_seed(0)
    layer = TensorAttention(8, 2, dtype=torch.float64, generator=generator, **KINDS[kind])
    return nn.Sequential(nn.LayerNorm(8, dtype=torch.float64), layer)


def rows() -> Tensor:
    return torch.randn(ROWS, 5, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def loss_of(model: nn.Module, x: Tensor) -> Tensor:
    return (model(x) - x.roll(1, -1)).square().mean()


def plain_loop(kind: str, batch: int) -> nn.Module:
    model = net(kind)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for x in rows().split(batch):
        optimiser.zero_grad()
        loss_of(model, x).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimiser.step()
    return model


def accelerated(kind: str, folder: Path, accumulate: int) -> nn.Module:
    """Train with Accelerate, save halfway, and resume in new objects."""
    saved = folder / "halfway"
    for part in range(2):
        machine = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=accumulate)
        data = DataLoader(TensorDataset(rows()), batch_size=BATCH)
        model = net(kind)
        optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2)
        model, optimiser, data = machine.prepare(model, optimiser, data)
        half = len(data) // 2
        if part:
            machine.load_state(saved)
            data = machine.skip_first_batches(data, half)
        for step, (x,) in enumerate(data):
            if not part and step == half:
                break
            with machine.accumulate(model):
                machine.backward(loss_of(model, x))
                if machine.sync_gradients:
                    machine.clip_grad_norm_(model.parameters(), 0.5)
                optimiser.step()
                optimiser.zero_grad()
        if not part:
            machine.save_state(saved)
    return machine.unwrap_model(model)


@pytest.mark.parametrize("accumulate", [1, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_accelerate_trains_as_a_plain_loop(kind: str, accumulate: int, tmp_path: Path) -> None:
    ours = accelerated(kind, tmp_path, accumulate)
    expected = plain_loop(kind, BATCH * accumulate)
    for (name, x), y in zip(ours.named_parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(x, y, rtol=0, atol=1e-9, msg=name)
    assert not torch.equal(ours[1].q_proj.weight, net(kind)[1].q_proj.weight)


def test_bfloat16_autocast() -> None:
    """In mixed precision, projections are in bfloat16, weights and the layer's output in float32."""
    machine = accelerate.Accelerator(cpu=True, mixed_precision="bf16")
    layer = TensorAttention(8, 2, generator=torch.Generator().manual_seed(0))
    x = rows().float()
    with torch.no_grad():
        expected = layer(x)
    layer = machine.prepare(layer)
    out = layer(x)
    assert out.dtype == torch.float32
    assert 0 < (out - expected).abs().max() < 0.05
    machine.backward(out.square().mean())
    assert all(p.grad is not None and p.grad.dtype == torch.float32 for p in layer.parameters())
