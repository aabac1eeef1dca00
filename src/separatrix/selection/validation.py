"""The tasks off the training distribution: longer sequences and larger subsets, on points fixed before training.

Appendix F of Wang, Wei, Hsu and Lee: for each task 128 points (X, y) are fixed; a fixed architecture uses a prefix of
its encodings, a stochastic one draws a fresh set for each task at each validation.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from separatrix.selection.encodings import random_signs, settle, solved_weights
from separatrix.selection.gradient import Inputs, batch_loss
from separatrix.selection.settings import TrainingSettings
from separatrix.selection.task import Batch, SparseTokenSelection
from separatrix.selection.thresholds import met

__all__ = ["task_encoding", "validate", "validation_points"]


def validation_points(settings: TrainingSettings, generator: torch.Generator) -> dict[str, Batch]:
    """The fixed points of each task, by the task's name.

    >>> list(validation_points(TrainingSettings(), torch.Generator()))
    ['T=250', 'T=300', 'T=350', 'T=400', 'q=5', 'q=6', 'q=7', 'q=8']
    """
    tasks = {f"T={T}": SparseTokenSelection(T, settings.q, settings.d) for T in settings.validation_T}
    tasks |= {f"q={q}": SparseTokenSelection(settings.T, q, settings.d) for q in settings.validation_q}
    return {name: task.batch(settings.validation_batch, generator=generator) for name, task in tasks.items()}


def validate(
    W: Tensor,
    V: Tensor,
    points: dict[str, Batch],
    settings: TrainingSettings,
    fixed: Tensor | None,
    generator: torch.Generator,
) -> dict[str, float]:
    """The loss of equation (3) on each task: with the first T encodings of `fixed`, or with fresh ones."""
    losses = {}
    for name, (X, y, _) in points.items():
        E, gram = task_encoding(X.shape[1], settings, fixed, generator)
        g = solved_weights(gram[y.unsqueeze(2), y.unsqueeze(1)], y)
        losses[name] = float(batch_loss(W, V, Inputs(X.mT.contiguous(), E, y, g)))
    return losses


def task_encoding(
    T: int, settings: TrainingSettings, fixed: Tensor | None, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """T encodings (T, width) and their Gram matrix."""
    if fixed is not None:
        E = fixed[:T]
        return E, E @ E.mT
    signs = random_signs(T, settings.width, generator)
    dots, _ = settle(signs, met(T, settings.width, settings.threshold), generator)
    return signs / math.sqrt(settings.width), dots / settings.width
