"""Layers trained by DistributedDataParallel and by FSDP on two processes, against one process on the whole batch."""

from __future__ import annotations

from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from safetensors.torch import load_file, save_file
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

from tests.integration.models import KINDS, Block
from tests.ranks import start_ranks

RANKS, BATCH, STEPS = 2, 3, 4
STRATEGIES = ("ddp", "fsdp")


def model(kind, seed):
    return Block(kind, torch.Generator().manual_seed(seed)).double()


def wrapped(strategy, kind, rank):
    if strategy == "ddp":
        return DistributedDataParallel(model(kind, seed=rank))  # all ranks have the weights of rank 0
    net = model(kind, seed=0)
    fully_shard(net.attention)
    return fully_shard(net)


def weights(net):
    """The full weights, also those that are sharded between ranks."""
    state = net.state_dict() if isinstance(net, FSDPModule) else net.module.state_dict()
    return {name: (x.full_tensor() if isinstance(x, DTensor) else x).contiguous() for name, x in state.items()}


def batch(step):
    generator = torch.Generator().manual_seed(100 + step)
    return torch.randn(RANKS * BATCH, 5, 8, generator=generator, dtype=torch.float64)


def train(net, rows):
    """The loss is a mean over rows of equal length, so that the mean over ranks is the mean over all rows."""
    optimiser = torch.optim.SGD(net.parameters(), lr=0.5, momentum=0.9)
    for step in range(STEPS):
        x = batch(step)[rows]
        loss = (net(x, None) - x.roll(1, -1)).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()


def work(rank, folder):
    torch.set_num_threads(1)
    store = dist.FileStore(f"{folder}/store", RANKS)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=RANKS, timeout=timedelta(hours=1))
    for strategy in STRATEGIES:
        for kind in KINDS:
            net = wrapped(strategy, kind, rank)
            train(net, slice(rank * BATCH, (rank + 1) * BATCH))
            save_file(weights(net), f"{folder}/{strategy}, {kind}{rank}")
    dist.destroy_process_group()


@pytest.mark.timeout(1800)
def test_two_processes_train_as_one(tmp_path, subtests):
    start_ranks(work, str(tmp_path), count=RANKS)
    for kind in KINDS:
        net = model(kind, seed=0)
        start = {name: x.clone() for name, x in net.state_dict().items()}
        train(net, slice(None))
        for name, x in net.state_dict().items():
            if not name.endswith(("k_proj.0.bias", "_extra_state")):  # `_extra_state` is the configuration
                assert not torch.equal(start[name], x), f"{kind}: {name} was not trained"
        for strategy in STRATEGIES:
            with subtests.test(f"{strategy}, {kind}"):
                of_ranks = [load_file(tmp_path / f"{strategy}, {kind}{rank}") for rank in range(RANKS)]
                for name, x in net.state_dict().items():
                    assert torch.equal(of_ranks[0][name], of_ranks[1][name]), name
                    torch.testing.assert_close(of_ranks[0][name], x, rtol=1e-9, atol=1e-11)
