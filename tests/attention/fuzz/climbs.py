"""A search for a broken certificate: inputs are changed at random, and a change is kept if the error comes closer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from numpy.random import Generator
from torch import Tensor

from tests.attention.fuzz.backward import TUPLES, check_backward
from tests.attention.fuzz.calls import Call, check_call, draw_call
from tests.attention.fuzz.outcomes import BROKEN, REFUSED, UNPROMISED, Outcome

STEPS = 12


def climb(rng: Generator) -> Outcome:
    """Start from a small call that is answered, and search; return the outcome of the best input."""
    if rng.random() < 0.3:
        found = _climb(rng, "climb of gradients", check_backward)
        if found.how != UNPROMISED:
            return found
    return _climb(rng, "climb", check_call)


def _climb(rng: Generator, kind: str, check: Callable[[Call], Outcome]) -> Outcome:
    best, found = None, Outcome(kind, REFUSED, told="no call was answered")
    for _ in range(STEPS):
        call = draw_call(rng, tuples=TUPLES, kind=kind) if best is None else changed(rng, best)
        outcome = check(call)
        if outcome.how in (BROKEN, UNPROMISED):
            return outcome
        if outcome.how != REFUSED and (best is None or outcome.ratio > found.ratio):
            best, found = call, outcome
    return found


def changed(rng: Generator, call: Call) -> Call:
    """A call with small random changes, or with one tensor or the tolerance rescaled."""
    if rng.random() < 0.15:
        return replace(call, tolerance=call.tolerance * float(10 ** rng.uniform(-1, 1)))
    parts = [call.query, *call.keys, *call.values]
    at = int(rng.integers(len(parts)))
    parts[at] = _perturbed(rng, parts[at])
    sets = len(call.keys)
    return replace(call, query=parts[0], keys=parts[1 : 1 + sets], values=parts[1 + sets :])


def _perturbed(rng: Generator, x: Tensor) -> Tensor:
    wide = x.double()
    way = rng.integers(5)
    noise = torch.from_numpy(rng.standard_normal(tuple(x.shape)))
    if way == 0:  # change all entries slightly
        wide = wide * (1 + 0.2 * noise)
    elif way == 1:  # set a few entries to the largest magnitude
        largest = wide.abs().max() if x.numel() else 1.0
        wide = torch.where(torch.from_numpy(rng.random(tuple(x.shape)) < 0.2), largest * noise.sign(), wide)
    elif way == 2:  # scale the tensor
        wide = wide * float(2 ** rng.uniform(-1, 1))
    elif way == 3:  # flip signs
        wide = torch.where(torch.from_numpy(rng.random(tuple(x.shape)) < 0.2), -wide, wide)
    elif x.shape[-2]:  # replace a row by a copy of another
        source, target = rng.integers(x.shape[-2], size=2)
        wide = wide.clone()
        wide[..., target, :] = wide[..., source, :]
    most = torch.finfo(x.dtype).max
    return wide.clamp(-most, most).to(x.dtype)
