"""How things are measured: alternating, in one process, the best of several; and the memory a call takes."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Mapping
from time import perf_counter

import torch

from separatrix.native import native


def alternate(functions: Mapping[str, Callable[[], object]], *, seconds: float, rounds: int = 5) -> dict[str, float]:
    """The best time of each function, over rounds that run each of them once.

    After a round that does not count there are at least `rounds`, and more until `seconds` have passed. Every other
    round runs backwards, so that none always follows the same one. The best is what the machine can do: whatever
    else runs on it only adds time.
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
    """The most that PyTorch's CPU allocator held at once during a call, results included, above what it held before.

    Unlike the resident set it does not depend on what the process did earlier. What our kernels hold at once is counted
    by themselves and added. Workspaces that a library of matrix products takes for itself pass through neither and are
    not seen. The call is made twice, so that what is made once and kept does not count.
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
    """The most bytes that the kernels held at once since this was asked last."""
    library = native().library
    if library is None:
        return 0
    library.separatrix_highest_bytes.restype = ctypes.c_int64
    return int(library.separatrix_highest_bytes())
