"""The two optimisers of the paper's runs, as plain updates whose state is a dictionary of tensors.

SGD is theta <- theta - eta g. Adam is Kingma and Ba's, with PyTorch's defaults 0.9, 0.999 and 1e-8.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8


def sgd_update(parameter: Tensor, gradient: Tensor, lr: float) -> None:
    """theta <- theta - eta g, in place.

    >>> theta = torch.tensor([1.0])
    >>> sgd_update(theta, torch.tensor([2.0]), 0.25)
    >>> theta.item()
    0.5
    """
    parameter.sub_(gradient, alpha=lr)


def adam_state(parameter: Tensor) -> tuple[Tensor, Tensor]:
    """The zero moments of a parameter."""
    return torch.zeros_like(parameter), torch.zeros_like(parameter)


def adam_update(parameter: Tensor, gradient: Tensor, moments: tuple[Tensor, Tensor], lr: float, step: int) -> None:
    """One step of Adam, in place; `step` counts from 1.

    >>> theta = torch.tensor([1.0])
    >>> adam_update(theta, torch.tensor([3.0]), adam_state(theta), lr=0.25, step=1)
    >>> round(theta.item(), 6)  # the first step is the rate itself, for every gradient
    0.75
    """
    first, second = moments
    first.lerp_(gradient, 1 - BETA1)
    second.mul_(BETA2).addcmul_(gradient, gradient, value=1 - BETA2)
    spread = second.sqrt().div_(math.sqrt(1 - BETA2**step)).add_(EPSILON)
    parameter.addcdiv_(first, spread, value=-lr / (1 - BETA1**step))
