"""Processes that are the ranks of a group, for tests that span several of them."""

from __future__ import annotations

from collections.abc import Callable
from multiprocessing import set_forkserver_preload
from typing import Any

import torch.multiprocessing as mp

IMPORTED = [
    "pytest",
    "torch.distributed",
    "torch.fx.experimental.symbolic_shapes",  # torch imports it at the first backward pass
    "torch.nn.parallel",
    "hypothesis",
    "separatrix.attention.sharded",
]
"""The modules that a server imports once; every rank is a fork of that server, which has done nothing else."""


def start_ranks(work: Callable[..., None], *arguments: Any, count: int) -> None:
    """Run `work(rank, *arguments)` in `count` processes until they end; an error in one of them is raised here."""
    set_forkserver_preload(IMPORTED)
    mp.start_processes(work, arguments, nprocs=count, start_method="forkserver")
