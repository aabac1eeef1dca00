"""States that threads share: each thread attends the state with its own queries, or appends to its own copy."""

from __future__ import annotations

import copy
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import torch
from numpy.random import Generator
from torch import Tensor

import separatrix as sx
from separatrix.attention.checker import check
from tests.attention.fuzz.calls import ALL
from tests.attention.fuzz.outcomes import BROKEN, REFUSED, UNPROMISED, Outcome, judged
from tests.attention.fuzz.states import draw_bounded, promised

THREADS = 3
ROUNDS = 4
"""How often each thread repeats its work."""


def fuzz_threads(rng: Generator) -> Outcome:
    """Draw a state; threads must give the bits of a single thread, within the tolerance."""
    order = int(rng.integers(2, 5))
    options, (query, keys, values), manner = draw_bounded(rng, order, str(rng.choice(["entries", "order"])))
    description = f"order {order}, {query.dtype}, {[len(key) for key in keys]} tokens, {manner}, {options}"
    rows = [torch.from_numpy(rng.integers(len(query), size=int(rng.integers(1, 12)))) for _ in range(THREADS)]
    appends = [bool(x) for x in rng.random(THREADS) < 0.3]
    try:
        state = sx.TensorAttentionState(order, query.shape[1], values[0].shape[1], dtype=query.dtype, **options)
        state.append(keys, values)
        output = state.attend(query)
        works = [_work(state, query[at], keys, values, own) for at, own in zip(rows, appends, strict=True)]
        expected = [work() for work in works]
    except sx.SeparatrixError as refusal:
        return Outcome("threads", REFUSED, told=f"{description}: {refusal}")
    together = Barrier(THREADS)

    def run(thread: int) -> bool:
        together.wait()
        return all(torch.equal(works[thread](), expected[thread]) for _ in range(ROUNDS))

    with ThreadPoolExecutor(THREADS) as pool:
        same = list(pool.map(run, range(THREADS)))
    if not all(same):
        return Outcome(
            "threads", BROKEN, float("inf"), f"{description}\nthreads {same} with other outputs, appends {appends}"
        )
    bound = promised(options["tolerance"], values, query.dtype)
    if torch.isinf(bound):
        return Outcome("threads", UNPROMISED, told=description)
    return judged(
        "threads", check(output, bound, query, keys, values, scale=options["scale"], queries=ALL), description
    )


def _work(
    state: sx.TensorAttentionState, query: Tensor, keys: list[Tensor], values: list[Tensor], appends: bool
) -> Callable[[], Tensor]:
    """The work of a thread: attend the shared state, or copy it, append to the copy and attend with it."""

    def attend() -> Tensor:
        if not appends:
            return state.attend(query)
        own = copy.copy(state)
        own.append([key[:3] for key in keys], [value[:3] for value in values])
        return own.attend(query)

    return attend
