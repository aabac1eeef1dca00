"""A run's state on disk: safetensors, with the settings in its header; written whole or not at all.

The weights, the optimiser's moments, the states of the generators and the window of losses since the last record are
all that the rest of the run depends on, so a run killed anywhere and resumed goes on bit for bit.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from separatrix.errors import ArgumentError, SeparatrixError
from separatrix.selection.settings import TrainingSettings

__all__ = ["Checkpoint", "load_checkpoint", "save_checkpoint"]


@dataclass(frozen=True)
class Checkpoint:
    """The state before the update number `step`.

    moments: Adam's, empty for SGD. window: the sum and number of the batch losses since the last record.
    token_state, query_state: the data generators at the start of the step's block. validation_state: the validation's.
    """

    step: int
    W: Tensor
    V: Tensor
    moments: tuple[Tensor, ...]
    window: Tensor
    token_state: Tensor
    query_state: Tensor
    validation_state: Tensor


_TENSORS = ("W", "V", "window", "token_state", "query_state", "validation_state")


def save_checkpoint(path: Path, settings: TrainingSettings, state: Checkpoint) -> None:
    """Write beside `path`, then rename over it: a reader finds the old file or the new one, never half of one."""
    tensors = {name: getattr(state, name) for name in _TENSORS}
    tensors |= {f"moments.{k}": moment for k, moment in enumerate(state.moments)}
    header = {"settings": settings.to_json(), "step": str(state.step)}
    beside = path.with_name(path.name + ".partial")
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, beside, metadata=header)
    with beside.open("rb") as written:
        os.fsync(written.fileno())
    beside.replace(path)


def load_checkpoint(path: Path, settings: TrainingSettings) -> Checkpoint:
    """The state in `path`, which must belong to the same settings."""
    try:
        with safe_open(path, framework="pt") as file:
            header = file.metadata() or {}
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118 - not a mapping
    except (SafetensorError, OSError) as error:
        raise SeparatrixError(f"checkpoint: {path} cannot be read: {error}") from error
    if header.get("settings") != settings.to_json():
        raise ArgumentError("checkpoint", expected="a checkpoint of the same settings", got=f"{path} of another run")
    moments = [tensors[f"moments.{k}"] for k in range(sum(name.startswith("moments.") for name in tensors))]
    return Checkpoint(int(header["step"]), moments=tuple(moments), **{name: tensors[name] for name in _TENSORS})


def generator_from(state: Tensor) -> torch.Generator:
    """A generator in that state."""
    generator = torch.Generator()
    generator.set_state(state)
    return generator
