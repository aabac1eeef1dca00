"""Planted triples: are there two tokens whose sum with the last token is zero?"""

from __future__ import annotations

import torch

from separatrix.hardness.match_instances import planted_instances
from separatrix.studies.learning.tasks.task import Task, TaskBatch

__all__ = ["match_task"]


def match_task(n: int, modulus: int) -> Task:
    """The task of deciding whether two of n tokens and the last one sum to zero modulo M.

    Example:
        >>> match_task(8, 11).training(4, torch.Generator().manual_seed(0)).tokens.shape
        torch.Size([4, 8, 1])
    """

    def draw(count: int, generator: torch.Generator) -> TaskBatch:
        x, label = planted_instances(count, n, modulus, 3, generator=generator)
        return TaskBatch(x.flip(1).unsqueeze(-1), label.long().unsqueeze(1))

    return Task(n, modulus, 2, 1, draw, draw)
