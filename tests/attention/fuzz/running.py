"""Many cases in several processes, in parts that are saved when they finish: an interrupted run can be resumed."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import nullcontext
from pathlib import Path

import torch

from tests.attention.fuzz.kinds import IN_THREADS, kind_of, run_case
from tests.attention.fuzz.tally import Tally
from tests.contracts.interpreter import interpreting

PART = 200
"""The number of cases in a part."""
PART_OF_TRITON = 20
"""The number of cases in a part in Triton's interpreter, which takes seconds for each."""


def run_part(seed: int, first: int, last: int, triton: bool = False) -> Tally:
    """The cases of a seed from `first` up to but not including `last`, on one thread.

    With `triton`, everything that has a Triton kernel runs on it, in the interpreter; a plain call replaces shards,
    whose ranks are threads, and threads that share a state, because the interpreter has one program index for all
    threads.
    """
    torch.set_num_threads(1)
    tally = Tally(parts=[[seed, first, last]])
    with interpreting() if triton else nullcontext():
        for number in range(first, last):
            kind = "call" if triton and kind_of(number) in IN_THREADS else None
            tally.add(run_case(seed, number, kind), seed, number)
    return tally


def missing(tally: Tally, seed: int, cases: int, size: int = PART) -> Iterator[tuple[int, int, int]]:
    """The parts of a seed that a tally does not have yet."""
    done = {tuple(part) for part in tally.parts}
    for first in range(0, cases, size):
        part = (seed, first, min(first + size, cases))
        if part not in done:
            yield part


def run(cases: int, seed: int, processes: int, out: Path, tell: Callable[[Tally], None], triton: bool = False) -> Tally:
    """Run the first cases of a seed that the tally lacks, and save the tally to a file after each part."""
    tally = Tally.load(out)
    parts = missing(tally, seed, cases, PART_OF_TRITON if triton else PART)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=context) as pool:
        under_way: set[Future[Tally]] = set()
        while True:
            for part in parts:
                under_way.add(pool.submit(run_part, *part, triton))
                if len(under_way) >= 2 * processes:
                    break
            if not under_way:
                return tally
            done, under_way = wait(under_way, return_when=FIRST_COMPLETED)
            for future in done:
                tally.merge(future.result())
            tally.save(out)
            tell(tally)
