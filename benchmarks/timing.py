"""Measures time (the best of several alternating rounds in one process) and the memory of a call."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Mapping
from time import perf_counter

import torch

from separatrix.native import native


def alternate(functions: Mapping[str, Callable[[], object]], *, seconds: float, rounds: int = 5) -> dict[str, float]:
    """The best time of each function, over rounds that run each of them once.

    After a warm-up round there are at least `rounds` rounds, and more until `seconds` have passed. Every other round
    runs in reverse order, so that no function always follows the same function. The best time is the closest to the
    undisturbed time, because other processes can only add time.
    """
    for function in functions.values():
        function()
    best = dict.fromkeys(functions, math.inf)
    end = perf_counter() + seconds
    names = list(functions)
    done = 0
    while done < rounds or perf_counter() < end:
        for name in names:
            start = perf_counter()
            functions[name]()
            best[name] = min(best[name], perf_counter() - start)
        names.reverse()
        done += 1
    return best


def peak_bytes(function: Callable[[], object]) -> int:
    """The peak memory of PyTorch's CPU allocator during a call, including results, minus the memory before the call.

    Unlike the resident set size, this peak does not depend on earlier work of the process. Our kernels count the memory
    that they allocate, and their peak is added. Workspaces that a BLAS library allocates are not counted. The call runs
    twice, so that values cached by the first run are not counted.
    """
    function()
    _highest_of_kernels()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        function()
    held = highest = 0
    events = (event for event in profile.profiler.kineto_results.events() if event.name() == "[memory]")
    for event in sorted(events, key=lambda event: event.start_ns()):
        held += event.nbytes()
        highest = max(highest, held)
    return highest + _highest_of_kernels()


def _highest_of_kernels() -> int:
    """The peak number of bytes that the kernels held since the last call of this function."""
    library = native().library
    if library is None:
        return 0
    library.separatrix_highest_bytes.restype = ctypes.c_int64
    return int(library.separatrix_highest_bytes())
