"""The kernels in Triton run by its interpreter on tensors of the CPU: a test module takes part by importing a fixture.

The interpreter is chosen when a kernel is decorated, so the kernels are imported anew with it, and forgotten again.
Triton's own functions were decorated when Triton was imported, by whomever, and are replaced in the same way.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
import torch

from separatrix.attention.dispatch import gpu as gpu_dispatch
from separatrix.attention.exact.gpu import configurations
from separatrix.attention.exact.gpu import engine as gpu_engine

PROGRAMS = ("separatrix.attention.exact.gpu.programs", "separatrix.attention.polynomial.gpu.programs")
needs_triton = pytest.mark.skipif(
    not gpu_dispatch.installed(), reason="Triton is not installed: it is in the group dev of pyproject.toml, for Linux."
)


@contextmanager
def interpreting() -> Iterator[None]:
    """Run the kernels in Triton, interpreted, for calls on the CPU."""
    import triton
    import triton.language as tl
    from triton.runtime import interpreter
    from triton.runtime.jit import JITFunction

    def call_inside(function, *args, **kwargs):
        # As it is, but without patching the language once more, and for good, for each function that a kernel calls.
        return function.rewrite()(*args, **kwargs)

    before = {name: module for name, module in sys.modules.items() if name.startswith(PROGRAMS)}
    for name in before:
        del sys.modules[name]
    with pytest.MonkeyPatch.context() as patch, triton.knobs.runtime.scope():
        triton.knobs.runtime.interpret = True
        for module in (tl, tl.standard):
            for name, one in list(vars(module).items()):
                if isinstance(one, JITFunction):
                    patch.setattr(module, name, interpreter.InterpretedFunction(one.fn))
        patch.setattr(interpreter.InterpretedFunction, "__call__", call_inside)
        patch.setattr(gpu_dispatch, "DEVICES", {"cpu"})
        patch.setattr(gpu_engine, "TYPES", (*configurations.TYPES, torch.float64))  # which the contract is tested in
        for kernel in configurations.KERNELS:
            small = (configurations.Configuration(16, 16, 4, 1),) * len(configurations.WIDTHS)
            patch.setitem(configurations.SHIPPED, (gpu_dispatch.vendor(), kernel, "64 bits"), small)
        for package in PROGRAMS:
            importlib.import_module(package)
        language = interpreter._patch_lang(SimpleNamespace(__globals__={"tl": tl, "core": tl.core}))
        try:
            yield
        finally:
            language.restore()
    for name in [name for name in sys.modules if name.startswith(PROGRAMS)]:
        del sys.modules[name]
    sys.modules.update(before)


@pytest.fixture(scope="module")
def interpreted() -> Iterator[None]:
    """The kernels in Triton compute what is tested, in Triton's interpreter."""
    with interpreting():
        yield
