"""Tasks: tokens of several fields and the right answers, drawn afresh whenever they are needed.

A token is a set of symbols, one a field, and a model embeds it as the sum of their embeddings: a place, a tag or a
value beside a name need no encoding of their own.
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
        answers: (count, asked), the answers at the last positions: all n of them, or the last alone.
    """

    tokens: Tensor
    answers: Tensor


Draw = Callable[[int, torch.Generator], TaskBatch]
"""So many inputs with their answers, drawn with the generator given."""


@dataclass(frozen=True)
class Task:
    """What a model is asked.

    Attributes:
        n: The number of tokens of an input.
        symbols: The number of symbols, over all fields.
        classes: The number of answers that there are.
        asked: n for a model that answers at every token, 1 for one that answers at the last.
        training: Draws inputs to learn from.
        held_out: Draws inputs to be judged by.
    """

    n: int
    symbols: int
    classes: int
    asked: int
    training: Draw
    held_out: Draw
