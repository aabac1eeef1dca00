"""The attention contract for sharded attention on two ranks, which are processes that compute call after call."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from multiprocessing import get_context, set_forkserver_preload
from multiprocessing.connection import Connection

import pytest
import torch
import torch.distributed as dist

from separatrix.attention.sharded import sharded_attention, sharded_exact_attention
from tests.contracts.attention_contract import ORDERS, AttentionContract
from tests.ranks import IMPORTED

pytestmark = pytest.mark.timeout(1800)

COUNT = 2
FUNCTIONS = {"exact": sharded_exact_attention, "near-linear": sharded_attention}


def serve(rank: int, folder: str, pipe: Connection) -> None:
    """Run the passes that arrive through the pipe until it is closed, and send the results of this rank back.

    A forward pass is sent as (name of the function, order, tensors, options), a backward pass as the output gradient.
    If a call fails, its error is sent back.
    """
    torch.set_num_threads(1)
    rendezvous = f"file://{folder}/rendezvous"
    dist.init_process_group("gloo", init_method=rendezvous, rank=rank, world_size=COUNT, timeout=timedelta(hours=1))
    leaves, out = [], None
    while True:
        try:
            request = pipe.recv()
        except EOFError:
            break
        try:
            if isinstance(request, torch.Tensor):
                pipe.send(torch.autograd.grad(out, leaves, request, retain_graph=True))
                continue
            name, order, leaves, options = request
            out = FUNCTIONS[name](leaves[0], leaves[1:order], leaves[order:], **options)
            pipe.send(out.detach())
        except Exception as error:
            pipe.send(error)
    dist.destroy_process_group()


class Group:
    """Two ranks, and the pipes to them."""

    def __init__(self, pipes: list[Connection]) -> None:
        self.pipes = pipes

    def run(self, requests: list[object]) -> list:
        """The response of each rank to its request; an error of a rank is raised here."""
        for pipe, request in zip(self.pipes, requests, strict=True):
            pipe.send(request)
        results = [pipe.recv() for pipe in self.pipes]
        for result in results:
            if isinstance(result, Exception):
                raise result
        return results


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Group]:
    """Ranks shared by all tests of this module, because starting them takes seconds."""
    folder = str(tmp_path_factory.mktemp("ranks"))
    set_forkserver_preload(IMPORTED)
    context = get_context("forkserver")
    pairs = [context.Pipe() for _ in range(COUNT)]
    ranks = [context.Process(target=serve, args=(rank, folder, pair[1])) for rank, pair in enumerate(pairs)]
    for rank, pair in zip(ranks, pairs, strict=True):
        rank.start()
        pair[1].close()
    yield Group([pair[0] for pair in pairs])
    for rank, pair in zip(ranks, pairs, strict=True):
        pair[0].close()
        rank.join()
        assert rank.exitcode == 0


class Sharded(torch.autograd.Function):
    """Attention by the ranks as a function of whole tensors, which are split along the sequence."""

    @staticmethod
    def forward(ctx, group, name, order, options, *tensors):
        ctx.group = group
        shards = [cut(x) for x in tensors]
        requests = [
            (name, order, [shard[rank].clone().requires_grad_() for shard in shards], options) for rank in range(COUNT)
        ]
        return torch.cat(group.run(requests), -2)

    @staticmethod
    def backward(ctx, grad_out):
        parts = ctx.group.run([part.clone() for part in cut(grad_out)])
        return None, None, None, None, *(torch.cat(gradients, -2) for gradients in zip(*parts, strict=True))


def cut(x: torch.Tensor) -> list[torch.Tensor]:
    """The shards of a sequence on two ranks; of an odd number of tokens, the first rank has one more."""
    middle = (x.shape[-2] + 1) // COUNT
    return [x[..., :middle, :].detach(), x[..., middle:, :].detach()]


class ShardedContract(AttentionContract):
    """Sharded attention has neither masks nor offsets, nor key heads that several query heads share."""

    name: str
    options: dict[str, float]
    test_a_mask_is_a_slice = None
    test_masks_of_each_batch_entry = None
    test_causal_with_an_offset = None
    test_grouped_heads = None

    @pytest.fixture(autouse=True)
    def _ranks(self, group):
        self.group = group

    def attend(self, query, keys, values, **options):
        tensors = (query, *keys, *values)
        return Sharded.apply(self.group, self.name, len(keys) + 1, {**options, **self.options}, *tensors), None

    @pytest.mark.parametrize("order", ORDERS)
    @pytest.mark.parametrize("options", [{}, {"is_causal": True}])
    def test_gradients(self, order, options):
        super().test_gradients(order, options)


class TestShardedExactAttention(ShardedContract):
    name, options = "exact", {}


class TestShardedAttention(ShardedContract):
    name, options = "near-linear", {"bound": 1.0, "tolerance": 1e-5}
    error = 1e-5
