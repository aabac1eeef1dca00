"""Tasks: random inputs, whose tokens have several fields, with the right answers.

A token has one symbol per field, and a model embeds it as the sum of their embeddings, so that positions, tags and
values need no separate encoding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["Draw", "Task", "TaskBatch"]


@dataclass(frozen=True)
class TaskBatch:
    """Inputs of a task with their answers.

    Attributes:
        tokens: (count, n, fields) in int64.
        answers: (count, asked), the answers at the last positions: at all n positions, or only at the last.
    """

    tokens: Tensor
    answers: Tensor


Draw = Callable[[int, torch.Generator], TaskBatch]
"""A function that draws a number of inputs with their answers from a generator."""


@dataclass(frozen=True)
class Task:
    """A task for a model.

    Attributes:
        n: The number of tokens of an input.
        symbols: The number of symbols, over all fields.
        classes: The number of possible answers.
        asked: n if the model answers at every token, 1 if only at the last.
        training: Draws training inputs.
        held_out: Draws held-out inputs.
    """

    n: int
    symbols: int
    classes: int
    asked: int
    training: Draw
    held_out: Draw
