"""`nn.TensorAttention` trained by DistributedDataParallel on two processes, against one process on the whole batch."""

from __future__ import annotations

from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from safetensors.torch import load_file, save_file
from torch.nn.parallel import DistributedDataParallel

from separatrix.nn import TensorAttention
from tests.ranks import start_ranks

RANKS, BATCH, STEPS = 2, 3, 4
KINDS = {"exact": {}, "near-linear": {"bound": 1.0, "tolerance": 1e-3}}


def model(kind, seed):
    generator = torch.Generator().manual_seed(seed)
    layer = TensorAttention(8, 2, order=3, dtype=torch.float64, generator=generator, **KINDS[kind])
    return torch.nn.Sequential(torch.nn.LayerNorm(8, dtype=torch.float64), layer)


def batch(step):
    generator = torch.Generator().manual_seed(100 + step)
    return torch.randn(RANKS * BATCH, 5, 8, generator=generator, dtype=torch.float64)


def train(net, rows):
    """The loss is a mean over rows of equal length, so that the mean over ranks is the mean over all rows."""
    optimiser = torch.optim.SGD(net.parameters(), lr=0.5, momentum=0.9)
    for step in range(STEPS):
        x = batch(step)[rows]
        loss = (net(x) - x.roll(1, -1)).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()


def work(rank, folder):
    torch.set_num_threads(1)
    store = dist.FileStore(f"{folder}/store", RANKS)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=RANKS, timeout=timedelta(hours=1))
    for kind in KINDS:
        net = DistributedDataParallel(model(kind, seed=rank))  # all ranks have the weights of rank 0
        train(net, slice(rank * BATCH, (rank + 1) * BATCH))
        save_file({name: x.contiguous() for name, x in net.module.state_dict().items()}, f"{folder}/{kind}{rank}")
    dist.destroy_process_group()


@pytest.mark.timeout(1800)
def test_two_processes_train_as_one(tmp_path, subtests):
    start_ranks(work, str(tmp_path), count=RANKS)
    for kind in KINDS:
        with subtests.test(kind):
            net = model(kind, seed=0)
            start = {name: x.clone() for name, x in net.state_dict().items()}
            train(net, slice(None))
            found = [load_file(tmp_path / f"{kind}{rank}") for rank in range(RANKS)]
            for name, x in net.state_dict().items():
                assert torch.equal(found[0][name], found[1][name]), name
                torch.testing.assert_close(found[0][name], x, rtol=1e-9, atol=1e-11)
                if not name.endswith(
                    ("k_proj.0.bias", "_extra_state")
                ):  # the latter is the configuration of the weights
                    assert not torch.equal(start[name], x), f"{name} was not trained"
