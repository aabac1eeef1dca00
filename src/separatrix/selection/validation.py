"""Validation on other tasks than the training task: longer sequences and larger subsets, on points that are fixed
before training.

In Appendix F of Wang, Wei, Hsu and Lee 128 points (X, y) are fixed for each task. A transformer with a fixed encoding
uses the first T rows of the encoding; a transformer with stochastic encodings uses a new encoding for each task at each
validation.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from separatrix.selection.encodings import random_signs, resolve_conflicts, solved_weights
from separatrix.selection.gradient import Inputs, batch_loss
from separatrix.selection.settings import TrainingSettings
from separatrix.selection.task import Batch, SparseTokenSelection
from separatrix.selection.thresholds import feasible_limit


def validation_points(settings: TrainingSettings, generator: torch.Generator) -> dict[str, Batch]:
    """Draw the validation inputs of each task, by the task's name.

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
    x_query: Tensor | None = None,
) -> dict[str, float]:
    """The loss of equation (3) on each validation task.

    Args:
        W: the matrix W.
        V: the matrix V.
        points: the validation inputs of each task.
        settings: the settings of the run.
        fixed: the fixed encoding, of which a task uses the first T rows; None draws a new one for each task.
        generator: the source of randomness for new encodings.
        x_query: the tokens of the queries, as in `Inputs`.
    """
    losses = {}
    for name, (X, y, _) in points.items():
        E, gram = task_encoding(X.shape[1], settings, fixed, generator)
        g = solved_weights(gram[y.unsqueeze(2), y.unsqueeze(1)], y)
        losses[name] = float(batch_loss(W, V, Inputs(X.mT.contiguous(), E, y, g, x_query)))
    return losses


def task_encoding(
    T: int, settings: TrainingSettings, fixed: Tensor | None, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """The encoding of a task with T tokens, (T, width), and its Gram matrix."""
    if fixed is not None:
        E = fixed[:T]
        return E, E @ E.mT
    signs = random_signs(T, settings.width, generator)
    dots, _ = resolve_conflicts(signs, feasible_limit(T, settings.width, settings.threshold), generator)
    return signs / math.sqrt(settings.width), dots / settings.width
