"""Tensor parallelism by PyTorch's `parallelize_module`: two ranks, each with half of the heads of every layer.

The ranks train and decode with the same inputs and save their results, and the test compares them with one process.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard, register_fsdp_forward_method
from torch.distributed.tensor import DTensor, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from separatrix.errors import ArgumentError
from separatrix.nn import TensorAttention
from tests.ranks import start_ranks

RANKS = 2
LAYERS: dict[str, dict[str, Any]] = {
    "exact": {},
    "exact, grouped, rotary, in windows": {"num_kv_heads": 2, "rotary": 100.0, "windows": (5, None)},
    "exact, grouped, normalised": {"num_kv_heads": 2, "qk_norm": True, "head_norm": True, "learned_scale": True},
    "bounded, exact": {"bound": 2.0},
    "bounded, near-linear": {"bound": 0.5, "tolerance": 1e-3, "method": "polynomial"},
    "bounded, near-linear, grouped": {"bound": 0.5, "tolerance": 1e-3, "num_kv_heads": 2},
    "bounded, sharded temperature": {"bound": 2.0, "tolerance": 1e-2},
    "bounded, with FSDP": {"bound": 2.0},
}
PLAN = {
    "attention.q_proj": ColwiseParallel(),
    "attention.k_proj.*": ColwiseParallel(),
    "attention.v_proj.*": ColwiseParallel(),
    "attention.out_proj": RowwiseParallel(),
}


class Block(nn.Module):
    """A residual block, whose attention `PLAN` splits between ranks."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.attention = TensorAttention(16, 4, dtype=torch.float64, generator=generator, **options)
        for parameter in self.attention.parameters():
            if parameter.dim() == 1:  # biases and temperatures that differ between heads
                nn.init.uniform_(parameter, -1.0, 1.0, generator=generator)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.attention(x, is_causal=True)


def inputs() -> Tensor:
    return torch.randn(3, 9, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def whole(x: Tensor) -> Tensor:
    """A copy of x with the parts of all ranks; a sum, unlike a clone, waits for pending communication."""
    return (x.full_tensor() if isinstance(x, DTensor) else x).detach() + 0


def results(block: Block) -> dict[str, Any]:
    """The outputs of a call and of decoding with a reordered beam, the gradients, and the weights after a step."""
    x = inputs()
    optimiser = torch.optim.SGD(block.parameters(), lr=0.1)
    out = block(x)
    out.square().sum().backward()
    grads = {name: whole(parameter.grad) for name, parameter in block.named_parameters()}
    layer = block.attention
    with torch.no_grad():
        cache = layer.cache(3)
        parts = [layer.decode(x[:, :4], cache), layer.decode(x[:, 4:5], cache)]
        saved = cache.state_dict()
        cache = layer.cache(3)
        cache.load_state_dict(saved)
        cache.reorder([2, 0])
        parts += [layer.decode(x[[2, 0], i : i + 1], cache) for i in range(5, 9)]
        single = layer.cache()
        alone = whole(layer.decode(x[0], single))
    optimiser.step()
    if isinstance(layer, FSDPModule):
        layer.reshard()  # the weights of the last call are those before the step
    weights = {name: whole(parameter) for name, parameter in block.named_parameters()}
    decoded = [torch.cat(parts[:2], 1), torch.cat(parts[2:], 1), alone]
    heads = (cache.batch_shape[-1], single.batch_shape[-1])
    return {"out": whole(out), "grads": grads, "weights": weights, "decoded": decoded, "heads": heads}


def work(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=RANKS)
    both = init_device_mesh("cpu", (1, RANKS), mesh_dim_names=("data", "heads"))
    mesh = both["heads"]
    seen = {}
    for name, options in LAYERS.items():
        block = Block(**options)
        if "sharded temperature" in name:
            shard = distribute_tensor(block.attention.temperature, mesh, [Shard(0)])
            block.attention.temperature = nn.Parameter(shard)
        parallelize_module(block, mesh, PLAN)
        if "FSDP" in name:
            fully_shard(block.attention, mesh=both["data"])
            register_fsdp_forward_method(block.attention, "decode")
        seen[name] = results(block)
    multi_query = parallelize_module(Block(num_kv_heads=1), mesh, PLAN)
    try:
        multi_query(inputs())
    except ArgumentError as error:
        seen["one head of keys"] = str(error)
    torch.save(seen, f"{folder}/{rank}.pt")
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    folder: Path = tmp_path_factory.mktemp("ranks")
    start_ranks(work, str(folder), count=RANKS)
    return [torch.load(folder / f"{rank}.pt") for rank in range(RANKS)]


@pytest.mark.parametrize("name", LAYERS)
def test_two_ranks_give_the_results_of_one_process(name: str, found: list[dict[str, Any]]) -> None:
    expected = results(Block(**LAYERS[name]))
    kv_heads = LAYERS[name].get("num_kv_heads", 4)
    assert expected["heads"] == (kv_heads, kv_heads)
    tolerance = {"rtol": 0, "atol": 1e-9}
    for rank in range(RANKS):
        ours = found[rank][name]
        assert ours["heads"] == (kv_heads // RANKS, kv_heads // RANKS)
        torch.testing.assert_close(ours["out"], expected["out"], **tolerance)
        torch.testing.assert_close(ours["decoded"], expected["decoded"], **tolerance)
        torch.testing.assert_close(ours["grads"], expected["grads"], **tolerance)
        torch.testing.assert_close(ours["weights"], expected["weights"], **tolerance)
    if "bound" in LAYERS[name]:
        assert (expected["grads"]["attention.temperature"] != 0).all()


def test_heads_that_ranks_cannot_share_are_refused(found: list[dict[str, Any]]) -> None:
    for rank in range(RANKS):
        assert "num_kv_heads" in found[rank]["one head of keys"]
