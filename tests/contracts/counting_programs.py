"""Triton's interpreter counts roundings in place of computing, as `counting` does for PyTorch's operators."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import _disable_current_modes

from separatrix.attention.dispatch import gpu
from separatrix.attention.near_linear.triton import backend, launch
from tests.contracts.counting import Counting


@contextmanager
def counting_programs(dtype: torch.dtype) -> Iterator[None]:
    """Count the roundings to a dtype in PyTorch's operators and in the Triton kernels of near-linear attention."""
    from triton.runtime import interpreter

    builder, handle = interpreter.InterpreterBuilder, interpreter.TensorHandle
    name = {torch.float32: "fp32", torch.float64: "fp64"}[dtype]

    def one(type):
        return 1.0 if type.scalar.name == name else 0.0

    def exact(self, source, type):
        """Integers and constants have not been rounded."""
        return handle(np.zeros(source.data.shape, interpreter._get_np_dtype(type)), type.scalar)

    def add(self, a, b):
        return handle(np.maximum(a.data, b.data) + a.data.dtype.type(one(a.dtype)), a.dtype.scalar)

    def multiply(self, a, b):
        return handle(a.data + b.data + a.data.dtype.type(one(a.dtype)), a.dtype.scalar)

    def dot(self, a, b, sums, *options):
        """A chain that starts with an existing sum: each of its terms may undergo all additions."""
        most = (a.data[:, :, None] + b.data[None]).max(1)
        return handle(np.maximum(most, sums.data) + sums.data.dtype.type(one(sums.dtype) * a.data.shape[1]), sums.dtype)

    def narrow(self, source, type):
        found = source.data.astype(interpreter._get_np_dtype(type))
        return handle(found + found.dtype.type(one(type)), type.scalar)

    def added(self, x):
        terms = x.handle.data.shape[self.axis]
        most = x.handle.data.max(axis=self.axis, keepdims=self.keep_dims)
        return self.to_tensor(most + one(x.dtype) * (terms - 1), x.dtype)

    def running(self, x):
        most = np.maximum.accumulate(x.handle.data, axis=self.axis)
        return [self.to_tensor(most + one(x.dtype) * (most.shape[self.axis] - 1), x.dtype)]

    def outside(launched):
        def run(*given, **options):
            with _disable_current_modes():
                launched(*given, **options)

        return run

    with pytest.MonkeyPatch.context() as patch:
        for operation in ("create_fadd", "create_fsub"):
            patch.setattr(builder, operation, add)
        patch.setattr(builder, "create_fmul", multiply)
        patch.setattr(builder, "create_dot", dot)
        patch.setattr(builder, "create_fp_trunc", narrow)
        patch.setattr(builder, "create_si_to_fp", exact)
        for width in (32, 64):
            plain = getattr(builder, f"get_fp{width}")
            patch.setattr(builder, f"get_fp{width}", lambda self, value, plain=plain: plain(self, 0.0))
        patch.setattr(interpreter.ReduceOps, "sum", added)
        patch.setattr(interpreter.ScanOps, "cumsum", running)
        for module in (backend,):
            patch.setattr(module, "launch", outside(launch.launch))
        patch.setattr(gpu, "computes", lambda *tensors: True)
        with Counting(dtype):
            yield
