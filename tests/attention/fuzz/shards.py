"""Shards of one sequence on ranks that are threads of this process, against attention to the whole sequence."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from numpy.random import Generator
from torch import Tensor
from torch.testing._internal.distributed import multi_threaded_pg

import separatrix as sx
from separatrix.attention.checker import check
from separatrix.attention.sharded import sharded_attention
from tests.attention.fuzz.calls import ALL
from tests.attention.fuzz.outcomes import REFUSED, UNPROMISED, Outcome, judged
from tests.attention.fuzz.states import can_keep, draw_bounded, promised

_PATIENCE = 60.0


@contextmanager
def threads_as_ranks() -> Iterator[None]:
    """Replace process groups by groups of threads until the end of the block."""
    multi_threaded_pg._install_threaded_pg()
    torch._C._distributed_c10d._set_thread_isolation_mode(True)
    try:
        yield
    finally:
        torch._C._distributed_c10d._set_thread_isolation_mode(False)
        multi_threaded_pg.ProcessLocalGroup.reset()
        multi_threaded_pg._uninstall_threaded_pg()


def on_ranks(count: int, work: Callable[[int], Any]) -> list[Any]:
    """The results of `work` on each rank; if ranks fail, raise the error of the first of them."""
    store = dist.HashStore()
    seen: dict[int, Any] = {}
    failed: dict[int, BaseException] = {}

    def run(rank: int) -> None:
        dist.init_process_group("gloo", rank=rank, world_size=count, store=store)
        try:
            seen[rank] = work(rank)
        except BaseException as error:
            failed[rank] = error
        finally:
            dist.destroy_process_group()

    with threads_as_ranks():
        threads = [threading.Thread(target=run, args=(rank,), daemon=True) for rank in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(_PATIENCE)
    for rank in range(count):
        if rank in failed:
            raise failed[rank]
    assert len(seen) == count, "a rank did not come to an end"
    return [seen[rank] for rank in range(count)]


def fuzz_shards(rng: Generator) -> Outcome:
    """Draw a sequence and its shards, and check the outputs of all ranks against the tolerance."""
    order = int(rng.integers(2, 5))
    options, (query, keys, values), manner = draw_bounded(rng, order, str(rng.choice(["entries", "order"])))
    is_causal = rng.random() < 0.4
    if is_causal:  # the same length for all
        least = min(len(x) for x in (query, *keys))
        query, keys, values = query[:least], [x[:least] for x in keys], [x[:least] for x in values]
    count = int(rng.integers(2, 5))
    first = _cuts(rng, count, len(query))
    cuts = [first if is_causal else _cuts(rng, count, len(key)) for key in keys]

    def work(rank: int) -> Tensor:
        mine = slice(first[rank], first[rank + 1])
        here = [slice(cut[rank], cut[rank + 1]) for cut in cuts]
        return sharded_attention(
            query[mine],
            [x[part] for x, part in zip(keys, here, strict=True)],
            [x[part] for x, part in zip(values, here, strict=True)],
            is_causal=is_causal,
            **options,
        )

    description = f"order {order}, {query.dtype}, cuts {first} and {cuts}, causal {is_causal}, {manner}, {options}"
    try:
        output = torch.cat(on_ranks(count, work))
    except sx.SeparatrixError as refusal:
        return Outcome("shards", REFUSED, told=f"{description}: {refusal}")
    bound = promised(options["tolerance"], values, query.dtype)
    if torch.isinf(bound) or not can_keep(options["tolerance"], query.dtype):
        return Outcome("shards", UNPROMISED, told=description)
    shape = {"is_causal": is_causal, "scale": options["scale"]}
    return judged("shards", check(output, bound, query, keys, values, queries=ALL, **shape), description)


def _cuts(rng: Generator, count: int, length: int) -> list[int]:
    return [0, *sorted(rng.integers(0, length + 1, count - 1).tolist()), length]
