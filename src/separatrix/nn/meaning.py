"""What the weights of a layer mean: the numbers without which they compute another function.

A query times a key is a score only by the scale, or within the bound, that the weights were trained with. These numbers
are saved with the weights, as the layer's extra state, and compared when weights are loaded. They are a tensor of the
bytes of a JSON text, because safetensors keeps tensors alone.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from separatrix.attention.streaming.saved_state import as_bytes, from_bytes
from separatrix.errors import ArgumentError

Meaning = Mapping[str, object]
KEY = "_extra_state"
"""What PyTorch calls it in a state dict, behind the name of the layer."""
FREE = ("tolerance",)
"""What is saved with the weights and may be another in the layer that they are loaded into."""


class Remembers(nn.Module):
    """A module that saves its `_meaning` with its weights, and refuses weights that mean something else."""

    def _meaning(self) -> Meaning:
        """The numbers by name, as JSON has them."""
        raise NotImplementedError

    def get_extra_state(self) -> Tensor:
        """What is saved with the weights: order, heads, scale, bound and tolerance, as the bytes of a JSON text."""
        return as_bytes(self._meaning())

    def set_extra_state(self, state: Any) -> None:
        """Refuse weights of a layer of another order, scale or bound, or with other heads; the tolerance is free.

        Raises:
            ArgumentError: The weights mean something else in this layer. It names what differs, there and here.
        """
        if (
            isinstance(state, Tensor)
            and state.is_floating_point()
            and torch.equal(state, state.to(torch.uint8).to(state))
        ):
            state = state.to(torch.uint8)  # of a state dict that was cast as a whole: every type holds bytes exactly
        here, there = self._meaning(), from_bytes(state, f"state_dict['{KEY}']")
        for name in here:
            if name in FREE or here[name] == there.get(name):
                continue
            expected = f"weights of a layer with {name} = {here[name]}, as this one"
            raise ArgumentError("state_dict", expected=expected, got=f"those of {name} = {there.get(name)}")

    def _load_from_state_dict(self, state_dict: Mapping[str, Any], prefix: str, *rest: Any) -> None:
        """Compare what the weights mean before any of them is loaded.

        A state dict with only some of them, such as the adapters that PEFT saves, need not say it.
        """
        if prefix + KEY in state_dict:
            self.set_extra_state(state_dict[prefix + KEY])
        elif all(prefix + name in state_dict for name, _ in self.named_parameters()):
            told = ", ".join(f"{name} = {value}" for name, value in self._meaning().items())
            warnings.warn(
                f"The state dict has no '{prefix + KEY}': it does not say what its weights mean, as those saved by "
                f"earlier versions do not. If they are of a layer with {told}, load them with strict=False.",
                stacklevel=2,
            )
        super()._load_from_state_dict(state_dict, prefix, *rest)
