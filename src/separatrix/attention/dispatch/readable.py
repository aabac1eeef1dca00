"""Checks that the entries of a call's tensors can be read: with a tolerance, the algorithm is chosen by them."""

from __future__ import annotations

import torch
from torch._subclasses.fake_tensor import FakeTensor

from separatrix.attention.call import Call
from separatrix.attention.dispatch.derivatives import has_tangent
from separatrix.attention.dispatch.second_derivatives import no_forward_mode
from separatrix.errors import SeparatrixError


def check_readable(call: Call) -> None:
    """Raise an error if the tensors of a call have no entries, or if their entries may not be read."""
    if torch._C._functorch.peek_interpreter_stack() is not None:
        raise SeparatrixError(
            "tolerance: attention with a certificate reads the tensors' entries to choose an algorithm, which "
            "torch.func (vmap, grad, jvp) does not allow. Give a batch as leading dimensions and take gradients with "
            "torch.autograd, or leave the tolerance out."
        )
    if has_tangent(call.tensors):
        no_forward_mode()
    for index, x in enumerate(call.tensors):
        if x.device.type == "meta" or isinstance(x, FakeTensor):
            raise SeparatrixError(
                "tolerance: attention with a certificate reads the tensors' entries to choose an algorithm, and "
                f"{call.name(index)} has no entries: it is on the device 'meta', or a fake tensor (torch.export). "
                "Leave the tolerance out, or use a layer with a bound, which is planned ahead "
                "(nn.TensorAttention)."
            )
