"""A run's state on disk: safetensors, with the settings and a SHA-256 in its header; written whole or not at all.

The weights, the optimiser's moments, the states of the generators and the window of losses since the last record are
all that the rest of the run depends on, so a run killed anywhere and resumed goes on bit for bit.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from separatrix.errors import ArgumentError, SeparatrixError
from separatrix.files import write_whole
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
    """Write a state to `path`: a reader finds the old file or the new one, never half of one."""
    tensors = {name: getattr(state, name) for name in _TENSORS}
    tensors |= {f"moments.{k}": moment for k, moment in enumerate(state.moments)}
    header = {"settings": settings.to_json(), "step": str(state.step)}
    write_whole(path, _sealed({name: tensor.contiguous() for name, tensor in tensors.items()}, header))


def _sealed(tensors: dict[str, Tensor], header: dict[str, str]) -> bytes:
    """The bytes of a safetensors file whose header has a SHA-256 of all the rest; the same state has the same bytes.

    safetensors itself writes the fields of a header in any order.
    """
    packed = save(tensors)
    end = 8 + int.from_bytes(packed[:8], "little")
    fields = json.loads(packed[8:end]) | {"__metadata__": header}
    header["sha256"] = _seal(fields, packed[end:])
    text = json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + packed[end:]


def _seal(fields: dict[str, Any], data: bytes) -> str:
    """The SHA-256 of a file's header, but for the SHA-256 in it, and of its tensors."""
    told = {name: value for name, value in fields["__metadata__"].items() if name != "sha256"}
    head = json.dumps({**fields, "__metadata__": told}, sort_keys=True)
    return sha256(head.encode() + data).hexdigest()


def load_checkpoint(path: Path, settings: TrainingSettings) -> Checkpoint:
    """The state in `path`, which must be as it was written, and belong to the same settings."""
    try:
        data = path.read_bytes()
        end = 8 + int.from_bytes(data[:8], "little")
        fields = json.loads(data[8:end])
        header = fields["__metadata__"]
        if header["sha256"] != _seal(fields, data[end:]):
            raise ValueError("it is not as it was written")
        tensors = {name: tensor.clone() for name, tensor in load(data).items()}
    except (SafetensorError, OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise SeparatrixError(
            f"checkpoint: {path} is damaged or cannot be read ({error}). Bring it back, or remove it to start again."
        ) from error
    if header["settings"] != settings.to_json():
        raise ArgumentError("checkpoint", expected="a checkpoint of the same settings", got=f"{path} of another run")
    moments = [tensors[f"moments.{k}"] for k in range(sum(name.startswith("moments.") for name in tensors))]
    return Checkpoint(int(header["step"]), moments=tuple(moments), **{name: tensors[name] for name in _TENSORS})


def generator_from(state: Tensor) -> torch.Generator:
    """A generator in that state."""
    generator = torch.Generator()
    generator.set_state(state)
    return generator
