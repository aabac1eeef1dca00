"""Gradients of certified calls, against the exact gradients and their certificates."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.random import Generator
from torch import Tensor

import separatrix as sx
from tests.attention.checker.gradients import check_gradients
from tests.attention.fuzz.calls import Call, draw_call
from tests.attention.fuzz.outcomes import REFUSED, UNPROMISED, Outcome, judged

TUPLES = 24
"""The largest number of tuples that a query attends: gradients take more time than outputs."""


def promise(result: Any) -> Any:
    """The certificate of a result's gradients, or None if it has none."""
    return getattr(result.certificate, "gradient", None)


def fuzz_gradients(rng: Generator) -> Outcome:
    """Draw a small call, run both passes, and check every gradient."""
    return check_backward(draw_call(rng, tuples=TUPLES, kind="gradient"))


SIZES = {
    torch.float64: (-1040, 1000),
    torch.float32: (-146, 120),
    torch.bfloat16: (-130, 120),
    torch.float16: (-23, 12),
}
"""The exponents of the smallest and the largest incoming gradient, for each dtype."""


def fuzz_incoming(rng: Generator) -> Outcome:
    """Check the gradients of a small call for an incoming gradient of any magnitude that its dtype represents."""
    call = draw_call(rng, tuples=TUPLES, kind="incoming gradient")
    return check_backward(call, int(rng.integers(*SIZES[call.query.dtype])))


def check_backward(call: Call, power: int = 0) -> Outcome:
    """Run a call and its backward pass, with an incoming gradient that depends on the shapes alone, times 2^power."""
    kind = f"{call.kind}, {call.method}"
    leaves = [x.detach().requires_grad_() for x in (call.query, *call.keys, *call.values)]
    sets = len(call.keys)
    call = replace(call, query=leaves[0], keys=leaves[1 : 1 + sets], values=leaves[1 + sets :])
    try:
        result = call.run()
        promised = promise(result)
        if promised is None or not result.output.requires_grad:
            return Outcome(kind, UNPROMISED, told=call.told())
        incoming = torch.ldexp(draw_incoming(tuple(result.output.shape)), torch.tensor(power)).to(result.output.dtype)
        gradients = torch.autograd.grad(result.output, leaves, incoming, allow_unused=True, materialize_grads=True)
    except sx.SeparatrixError as refusal:
        return Outcome(kind, REFUSED, told=f"{call.told()}: {refusal}")
    if not all(bool(torch.isfinite(x).all()) for x in gradients) and beyond_type(call, incoming):
        return Outcome(kind, UNPROMISED, told=call.told())
    parts = (gradients[0], gradients[1 : 1 + sets], gradients[1 + sets :])
    description = f"{call.told()}, incoming gradient times 2^{power}"
    return judged(kind, check_gradients(parts, incoming, promised, *call.arguments, **call.options), description)


def beyond_type(call: Call, incoming: Tensor) -> bool:
    """Whether a gradient overflows its dtype; its certificate then promises nothing."""
    leaves = [x.detach().double().requires_grad_() for x in (call.query, *call.keys, *call.values)]
    sets = len(call.keys)
    out = sx.tensor_attention(leaves[0], leaves[1 : 1 + sets], leaves[1 + sets :], **call.options)
    exact = torch.autograd.grad(out, leaves, incoming.double(), allow_unused=True, materialize_grads=True)
    return max(float(x.abs().max()) for x in exact if x.numel()) > 0.99 * torch.finfo(incoming.dtype).max


def draw_incoming(shape: tuple[int, ...]) -> Tensor:
    """A gradient of the output; sometimes it is zero or tiny for some of the queries."""
    rng = np.random.default_rng(shape)
    incoming = rng.standard_normal(shape)
    if rng.random() < 0.3:
        incoming = incoming * rng.choice([0.0, 1e-12, 1.0], (*shape[:-1], 1))
    return torch.from_numpy(incoming)
