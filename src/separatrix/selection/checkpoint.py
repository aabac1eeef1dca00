"""The complete state of a training run, from which the run can be continued bit for bit.

A state consists of the weights, the optimiser's moments, the states of the generators, and the sum and number of the
losses since the last record. It is stored as a few named tensors, which the caller of
`separatrix.selection.training.resumable` may store anywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

_TENSORS = ("W", "V", "window", "token_state", "query_state", "validation_state")


@dataclass(frozen=True)
class Checkpoint:
    """The state before the update with index `step`.

    Attributes:
        moments: The moments of Adam, empty for SGD.
        window: The sum and the number of the batch losses since the last record.
        token_state: The state of the generator of tokens at the start of the step's block.
        query_state: The state of the generator of queries at the start of the step's block.
        validation_state: The state of the random generator of the validation data.
    """

    step: int
    W: Tensor
    V: Tensor
    moments: tuple[Tensor, ...]
    window: Tensor
    token_state: Tensor
    query_state: Tensor
    validation_state: Tensor

    def tensors(self) -> dict[str, Tensor]:
        """Return the tensors of the state by name, without the step."""
        return {name: getattr(self, name) for name in _TENSORS} | {
            f"moments.{k}": moment for k, moment in enumerate(self.moments)
        }

    def fits(self, other: Checkpoint) -> bool:
        """Return whether two states have tensors of the same names and shapes, as the states of one run do."""
        shapes = [{name: tensor.shape for name, tensor in checkpoint.tensors().items()} for checkpoint in (self, other)]
        return shapes[0] == shapes[1]

    @classmethod
    def of_tensors(cls, step: int, tensors: Mapping[str, Any]) -> Self:
        """Make a state from its tensors by name, or from arrays with the same values."""
        copies = {name: torch.as_tensor(value).clone() for name, value in tensors.items()}
        moments = [copies[f"moments.{k}"] for k in range(sum(name.startswith("moments.") for name in copies))]
        return cls(step, moments=tuple(moments), **{name: copies[name] for name in _TENSORS})


def generator_from(state: Tensor) -> torch.Generator:
    """Make a generator with the given state."""
    generator = torch.Generator()
    generator.set_state(state)
    return generator
