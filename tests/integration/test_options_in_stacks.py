"""Every option of the layer inside other software: a step of training gives the output and the gradients of the layer.

Export, `torch.compile` and AOTInductor are tested in `test_export`, gradient checkpointing in `test_checkpointing`,
DistributedDataParallel and FSDP in `tests/test_fits_in_ddp.py`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_model, save_model
from torch import Tensor, nn

from separatrix.nn import MultiheadTensorAttention
from tests.integration.models import KINDS, Block

TARGETS = r".*attention\.(q_proj|out_proj|(k|v|bias)_proj\.\d+)"
PADDING = torch.zeros(2, 7, dtype=torch.bool)
PADDING[0, 2] = PADDING[1, 5] = True
kinds = pytest.mark.parametrize("kind", KINDS)


def block_of(kind: str, seed: int = 0) -> Block:
    """A block whose parameters are random, also those that are zero or one initially."""
    generator = torch.Generator().manual_seed(seed)
    block = Block(kind, generator).double()
    with torch.no_grad():
        for parameter in block.parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.add_(0.2 * noise)
    return block


def draw() -> Tensor:
    return torch.randn(2, 7, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(9))


def step(module: nn.Module, run: Callable[..., Tensor] | None = None) -> dict[str, Tensor]:
    """The output and all gradients of a step."""
    x = draw().requires_grad_()
    out = (run or module)(x, PADDING)
    out.sin().sum().backward()
    return {"out": out.detach(), "x": x.grad, **{name: p.grad for name, p in module.named_parameters()}}


def copied(block: Block, kind: str, folder: Path) -> nn.Module:
    return copy.deepcopy(block)


def pickled(block: Block, kind: str, folder: Path) -> nn.Module:
    torch.save(block, folder / "block.pt")
    return torch.load(folder / "block.pt", weights_only=False)


def saved(block: Block, kind: str, folder: Path) -> nn.Module:
    save_model(block, folder / "block.safetensors")
    loaded = block_of(kind, seed=1)
    load_model(loaded, folder / "block.safetensors")
    return loaded


def from_meta(block: Block, kind: str, folder: Path) -> nn.Module:
    with torch.device("meta"):
        empty = Block(kind, None).double()
    assert all(parameter.is_meta for parameter in empty.parameters())
    empty.to_empty(device="cpu").load_state_dict(block.state_dict())
    return empty


def accelerated(block: Block, kind: str, folder: Path) -> nn.Module:
    accelerate = pytest.importorskip("accelerate")
    return accelerate.Accelerator(cpu=True).prepare(copy.deepcopy(block))


STACKS = {f.__name__: f for f in (copied, pickled, saved, from_meta, accelerated)}


@kinds
@pytest.mark.parametrize("stack", STACKS)
def test_a_step_of_training(kind: str, stack: str, tmp_path: Path) -> None:
    block = block_of(kind)
    module = STACKS[stack](block, kind, tmp_path)
    expected = step(block)
    assert not torch.equal(expected["out"], step(block_of(kind, seed=1))["out"])
    torch.testing.assert_close(step(module), expected, rtol=0, atol=0)


@kinds
def test_in_an_encoder_layer_of_pytorch(kind: str) -> None:
    block = block_of(kind)
    encoder = nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True, norm_first=True, dtype=torch.float64)
    encoder.self_attn = MultiheadTensorAttention(8, 2, batch_first=True, dtype=torch.float64, **KINDS[kind])
    encoder.self_attn.attention, encoder.norm1 = block.attention, block.norm
    prefix = block.options.get("prefix", 0)
    mask = torch.ones(7, 7, dtype=torch.bool).triu(1)
    mask[:prefix, :prefix] = False
    options = {"src_mask": mask, "is_causal": not prefix} if block.options else {}

    def alone(x: Tensor, padding: Tensor) -> Tensor:
        y = block(x, padding)
        return y + encoder._ff_block(encoder.norm2(y))

    results = []
    for run in (alone, lambda x, padding: encoder(x, src_key_padding_mask=padding, **options)):
        encoder.zero_grad()
        results.append(step(encoder, run))
    torch.testing.assert_close(*results, rtol=0, atol=1e-12)


@kinds
def test_lora_is_trained_and_merged(kind: str) -> None:
    peft = pytest.importorskip("peft")
    block = block_of(kind)
    expected, count = block(draw(), PADDING), sum(isinstance(module, nn.Linear) for module in block.modules())
    lora = peft.get_peft_model(block, peft.LoraConfig(r=2, target_modules=TARGETS, init_lora_weights=False)).double()
    gradients = step(lora)
    assert sum(grad is not None for name, grad in gradients.items() if "lora" in name) == 2 * count
    assert all(grad is None for name, grad in gradients.items() if "base" in name and "lora" not in name)
    out, merged = lora(draw(), PADDING), lora.merge_and_unload()
    assert (out - expected).abs().max() > 1e-3
    torch.testing.assert_close(merged(draw(), PADDING), out, rtol=0, atol=1e-12)


@kinds
def test_under_autocast(kind: str) -> None:
    """Close to the step in float32, with gradients of the type of the parameters; not equal, because of rounding."""
    block = block_of(kind).float()

    def lowered(x: Tensor, padding: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return block(x.float(), padding)

    expected = step(block, lambda x, padding: block(x.float(), padding))
    block.zero_grad()
    low = step(block, lowered)
    assert not torch.equal(low["out"], expected["out"])
    for name, value in expected.items():
        assert low[name].dtype == (torch.float64 if name == "x" else torch.float32)
        assert (low[name] - value).abs().max() <= 0.1 * value.abs().max() + 1e-2, name
