"""Derivatives of a function against those of its definition, which uses PyTorch's own operators.

A derivative is linear in the incoming gradient, so one random direction shows an error in any of its entries.
`gradcheck` would evaluate the function twice for every entry of every input, and resolve at most five digits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.autograd import forward_ad

Function = Callable[..., tuple[Tensor, ...]]
"""The function takes tensors in float64 and returns several outputs, all of them finite."""


def _drawn(seed: int, like: Sequence[Tensor]) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [2 * torch.rand(x.shape, dtype=torch.float64, generator=generator) - 1 for x in like]


def _agree(found: Sequence[Tensor], expected: Sequence[Tensor], error: float) -> None:
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=error)


def same_gradients(function: Function, definition: Function, leaves: Sequence[Tensor], error: float) -> None:
    """Compare the gradients of every output alone, with zero incoming gradients for the others, and of all together."""
    outputs = [one(*leaves) for one in (function, definition)]
    count = len(outputs[0])
    for chosen in (*((at,) for at in range(count)), tuple(range(count))):
        actual, expected = (
            torch.autograd.grad(
                [output[at] for at in chosen],
                leaves,
                [_drawn(1, output)[at] for at in chosen],
                retain_graph=True,
                materialize_grads=True,
            )
            for output in outputs
        )
        _agree(actual, expected, error)


def same_second_derivatives(function: Function, definition: Function, leaves: Sequence[Tensor], error: float) -> None:
    """Compare the second derivatives, by the inputs and by the incoming gradients of the outputs."""
    results = []
    for one in (function, definition):
        outputs = one(*leaves)
        incoming = [x.requires_grad_() for x in _drawn(2, outputs)]
        first = torch.autograd.grad(outputs, leaves, incoming, create_graph=True)
        every = (*leaves, *incoming)
        results.append(torch.autograd.grad(first, every, _drawn(3, first), materialize_grads=True))
    _agree(*results, error)


def same_tangents(function: Function, definition: Function, leaves: Sequence[Tensor], error: float) -> None:
    """Compare the forward-mode derivatives along each of the inputs alone and along all of them together."""
    directions = _drawn(4, leaves)
    every = range(len(leaves))
    for chosen in (*({at} for at in every), set(every)):
        results = []
        for one in (function, definition):
            with forward_ad.dual_level():
                duals = [
                    forward_ad.make_dual(leaf.detach(), direction) if at in chosen else leaf.detach()
                    for at, (leaf, direction) in enumerate(zip(leaves, directions, strict=True))
                ]
                outputs = [forward_ad.unpack_dual(x) for x in one(*duals)]
                results.append([torch.zeros_like(x.primal) if x.tangent is None else x.tangent for x in outputs])
        _agree(*results, error)
