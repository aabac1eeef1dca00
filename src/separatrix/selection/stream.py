"""The data of a run, which background threads prepare in blocks of steps while training runs.

A block of tokens is one long draw of normal numbers; a block of queries consists of subsets, encodings from random bits
and the weights of the subset codes. Each has its own generator and its own thread, which makes its blocks in order, so
the data do not depend on timing. Each block comes with the state of its generator before the block: a run that is
resumed in the middle of a block sets the generator to this state and computes the block again.
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Generic, NamedTuple, TypeVar

import torch
from torch import Tensor

from separatrix.selection.encodings import random_signs, resolve_conflicts, solved_weights
from separatrix.selection.gradient import Inputs
from separatrix.selection.settings import TrainingSettings
from separatrix.selection.task import uniform_subsets
from separatrix.selection.thresholds import feasible_limit

BLOCK = 16
"""The number of steps in a block: enough to draw in bulk, few enough to stay in the cache."""

AHEAD = 2
"""The number of blocks that are computed in advance."""

_QUERY = 6
"""The purpose of the queries' tokens in a run, in addition to the purposes 0 to 5 of
`separatrix.selection.training`."""

Made = TypeVar("Made")


class Queries(NamedTuple):
    """A block of queries.

    Attributes:
        E: The encodings (BLOCK, T, width), or (1, T, width) when they are fixed.
        y: The subsets (BLOCK, batch, q).
        g: The weights (BLOCK, batch, q) that make the subset codes.
    """

    E: Tensor
    y: Tensor
    g: Tensor


def derived_generator(seed: int, purpose: int) -> torch.Generator:
    """The random generator for one purpose of a run; each run and each purpose has its own generator.

    Example:
        >>> derived_generator(0, 1).initial_seed() != derived_generator(0, 2).initial_seed()
        True
    """
    # Other runs use `separatrix.training.generator_for`; the recorded results of the paper's runs depend on this
    # function. A SplitMix64 step: people use the seeds 0, 1, 2, ..., and neighbouring seeds must not give related
    # streams.
    mask = 2**64 - 1
    x = (seed * 16 + purpose + 1) * 0x9E3779B97F4A7C15 & mask
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & mask
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & mask
    return torch.Generator().manual_seed((x ^ (x >> 31)) >> 32)


def make_queries(settings: TrainingSettings, fixed: Tensor | None, generator: torch.Generator) -> Queries:
    """A block of subsets with the weights of their codes, and a block of encodings.

    Encodings are drawn unless `fixed` (T, width) is given.
    """
    T, q, n, width = settings.T, settings.q, settings.batch, settings.width
    y = uniform_subsets(BLOCK * n, T, q, generator).reshape(BLOCK, n, q)
    rows, columns = y.unsqueeze(3), y.unsqueeze(2)
    if fixed is not None:
        gram = (fixed @ fixed.mT)[rows, columns]
        return Queries(fixed.unsqueeze(0), y, solved_weights(gram, y))
    limit = feasible_limit(T, width, settings.threshold)
    signs = random_signs(BLOCK * T, width, generator).reshape(BLOCK, T, width)
    # Step by step, so that the dot products of one step stay in the cache until the few relevant ones are read.
    gram = torch.stack([resolve_conflicts(signs[k], limit, generator)[0][rows[k], columns[k]] for k in range(BLOCK)])
    return Queries(signs.div_(math.sqrt(width)), y, solved_weights(gram / width, y))


def query_tokens(settings: TrainingSettings, step: int, count: int) -> Tensor | None:
    """The tokens of the queries of one step: None for zero, one for all of shape (d,), or drawn, (count, d).

    They depend only on the seed and the step, so that a resumed run draws the same data.
    """
    if settings.query == "zero":
        return None
    if settings.query == "fixed":
        return torch.randn(settings.d, generator=derived_generator(settings.seed, _QUERY))
    # No run has 2^32 steps, so no two runs share a seed here.
    source = derived_generator(settings.seed * 2**32 + step, _QUERY)
    return torch.randn(count, settings.d, generator=source)


@contextmanager
def one_thread() -> Iterator[None]:
    """Let PyTorch's operations run on one thread in the block."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class Prefetch(Generic[Made]):
    """A thread that calls make(generator) in advance and returns the results in order."""

    def __init__(self, make: Callable[[torch.Generator], Made], generator: torch.Generator) -> None:
        self._make, self._generator = make, generator
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="separatrix-stream")
        # A new thread inherits PyTorch's number of threads at its first operation. If data were computed on several
        # threads, these would compete with training for the cores, and wait for each other in busy loops.
        with one_thread():
            self._thread.submit(torch.get_num_threads).result()
        self._waiting: deque[Future[tuple[Tensor, Made]]] = deque()
        for _ in range(AHEAD):
            self._ask()

    def take(self) -> tuple[Tensor, Made]:
        """The generator's state before the next block, and the block.

        The memory of the previous block may be overwritten from now on.
        """
        self._ask()
        return self._waiting.popleft().result()

    def close(self) -> None:
        """Stop the thread after the block that it is computing."""
        self._thread.shutdown(wait=True, cancel_futures=True)

    def _ask(self) -> None:
        self._waiting.append(self._thread.submit(self._produce))

    def _produce(self) -> tuple[Tensor, Made]:
        state = self._generator.get_state()
        return state, self._make(self._generator)


class Blocks:
    """The batches of a run from step `step` on, given the states of both generators at the start of that step's block.

    A batch is a view of its block and is valid until the next call.
    """

    def __init__(
        self,
        settings: TrainingSettings,
        fixed: Tensor | None,
        step: int,
        tokens: torch.Generator,
        queries: torch.Generator,
    ) -> None:
        # There is one buffer for each block made in advance and one for the block in use, which avoids page faults.
        shape = (BLOCK, settings.batch, settings.d, settings.T)
        buffers = itertools.cycle([torch.empty(shape) for _ in range(AHEAD + 1)])
        self._tokens = Prefetch(lambda generator: next(buffers).normal_(generator=generator), tokens)
        self._queries = Prefetch(lambda generator: make_queries(settings, fixed, generator), queries)
        self._at = step % BLOCK
        self._load()

    def batch(self) -> Inputs:
        """The next step's batch."""
        self._enter()
        k = self._at
        self._at += 1
        E, y, g = self._block
        return Inputs(self._X[k], E[k % len(E)], y[k], g[k])

    @property
    def states(self) -> tuple[Tensor, Tensor]:
        """The states of the generators at the start of the block that contains the next step."""
        self._enter()
        return self._token_state, self._query_state

    def close(self) -> None:
        """Stop both threads."""
        self._tokens.close()
        self._queries.close()

    def _enter(self) -> None:
        if self._at == BLOCK:
            self._load()
            self._at = 0

    def _load(self) -> None:
        self._token_state, self._X = self._tokens.take()
        self._query_state, self._block = self._queries.take()
