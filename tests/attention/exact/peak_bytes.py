"""The peak memory of a call."""

from __future__ import annotations

from collections.abc import Callable

import torch


def peak_bytes(function: Callable[[], object]) -> int:
    """The peak memory of PyTorch's CPU allocator during a call, minus the memory in use before it."""
    with torch.profiler.profile(profile_memory=True, record_shapes=False) as profile:
        function()
    held = highest = 0
    for event in sorted(profile.profiler.kineto_results.events(), key=lambda event: event.start_ns()):
        if event.name() == "[memory]":
            held += event.nbytes()
            highest = max(highest, held)
    return highest
