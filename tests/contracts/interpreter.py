"""Fixtures that run the Triton kernels in the interpreter on CPU tensors; a test module imports one of them.

The interpreter is chosen when a kernel is decorated, so the kernels are reimported with it, and removed again. Triton's
own functions were decorated when Triton was imported, and are replaced in the same way.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import product
from types import ModuleType, SimpleNamespace

import pytest

from separatrix.attention.dispatch import gpu as gpu_dispatch
from separatrix.attention.exact import backend as exact_backend
from separatrix.attention.exact import plain_tuples
from separatrix.attention.exact.triton import configurations
from separatrix.attention.near_linear import backend as near_linear_backend

PROGRAMS = ("separatrix.attention.exact.triton.programs", "separatrix.attention.near_linear.triton.programs")
needs_triton = pytest.mark.skipif(
    not gpu_dispatch.installed(),
    reason="No Triton, or one too old: it is in the group dev of pyproject.toml, for Linux.",
)

SETTLED = {"int1": (), "int32": (int,), "int64": (int,), "fp32": (int, float), "fp64": (int, float)}
"""Types that two operands of the same type keep, and the plain 31-bit integers that take the other operand's type."""


@contextmanager
def interpreting() -> Iterator[None]:
    """Run the Triton kernels, interpreted, for calls on the CPU."""
    import triton
    import triton.language as tl
    from triton.runtime import interpreter
    from triton.runtime.jit import JITFunction

    def call_inside(function, *args, **kwargs):
        # The original, without patching the language again for each function that a kernel calls.
        return function.rewrite()(*args, **kwargs)

    before = {name: module for name, module in sys.modules.items() if name.startswith(PROGRAMS)}
    for name in before:
        del sys.modules[name]
    with pytest.MonkeyPatch.context() as patch, triton.knobs.runtime.scope():
        triton.knobs.runtime.interpret = True
        for module in (tl, tl.standard):
            for name, item in list(vars(module).items()):
                if isinstance(item, JITFunction):
                    patch.setattr(module, name, interpreter.InterpretedFunction(item.fn))
        patch.setattr(interpreter.InterpretedFunction, "__call__", call_inside)
        _hurry(patch, tl.core, interpreter)
        patch.setattr(gpu_dispatch, "DEVICES", {"cpu"})
        for module in (exact_backend, near_linear_backend):  # on the CPU the C++ kernels have priority
            patch.setattr(module, "BACKENDS", (module.triton, *module.BACKENDS))
        patch.setattr(plain_tuples, "_for_kernels", lambda tensors: False)  # small calls choose the backend, too
        for kernel, order in product(configurations.KERNELS, configurations.ORDERS):
            small = (configurations.Configuration(16, 16, 4, 1),) * len(configurations.WIDTHS)
            patch.setitem(configurations.SHIPPED, (gpu_dispatch.vendor(), kernel, "64 bits", order), small)
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


def _hurry(patch: pytest.MonkeyPatch, core: ModuleType, interpreter: ModuleType) -> None:
    """Cache results that the interpreter recomputes for each operation: two thirds of its time.

    These are the NumPy type of a type, the shape of a tensor, the common type of two operands with equal types and
    shapes, and whether 32-bit integers overflow, which they cannot in these small calls.
    """
    semantic = type(interpreter.interpreter_semantic)
    alone = core.constexpr(1), core.tuple([])
    types: dict[str, object] = {}

    @cache
    def block(sizes):
        shape = core.tuple(sizes)
        numel = core.validate_block_shape(shape)
        return shape, numel, str(shape), (core.constexpr(numel), core.tuple([core.constexpr(size) for size in sizes]))

    def make_block(self, element_ty, shape):
        sizes = tuple([size.value if isinstance(size, core.constexpr) else size for size in shape])
        self.element_ty = element_ty
        self.shape, self.numel, text, self.of_tensor = block(sizes)
        self.name = f"<{text}, {element_ty}>"

    def make(self, handle, type):
        self.handle, self.type, self.dtype = handle, type, type.scalar
        self.numel, self.shape = type.of_tensor if type.is_block() else alone

    def type_of(dtype):
        if dtype.name not in types:
            types[dtype.name] = np_dtype(dtype)
        return types[dtype.name]

    def same(self, other):
        return self is other or (self.name == other.name if type(other) is core.dtype else equal(self, other))

    def value_of(thing):
        kind = type(thing)
        if kind is core.constexpr:
            return thing.value
        return thing if kind in (int, core.tensor, core.dtype) else unwrapped(thing)

    def alike(self, lhs, rhs):
        return (lhs, rhs) if lhs.shape is rhs.shape else broadcast(self, lhs, rhs)

    def operands(self, lhs, rhs, *options):
        if type(lhs) is core.tensor and lhs.dtype.name in SETTLED:
            if type(rhs) is core.tensor and lhs.dtype.name == rhs.dtype.name:
                return alike(self, lhs, rhs)
            if type(rhs) in SETTLED[lhs.dtype.name] and abs(rhs) < 2**31 and options[2:3] != (False,):
                return alike(self, lhs, self.scalar_constant(rhs, lhs.dtype))
        return checked(self, lhs, rhs, *options)

    def patch_attribute(thing, name, member, builder, scope):
        inner = getattr(member, "__wrapped__", member) if core.is_builtin(member) else member

        def bound(*args, _semantic=None, **kwargs):
            return inner(*args, **kwargs, _semantic=interpreter.interpreter_semantic)

        scope.set_attr(thing, name, bound)

    np_dtype, equal, unwrapped = interpreter._get_np_dtype, core.dtype.__eq__, core._unwrap_if_constexpr
    checked, broadcast = semantic.binary_op_type_checking_impl, semantic.broadcast_impl_value
    patch.setattr(core.tensor, "__init__", make)
    patch.setattr(core.block_type, "__init__", make_block)
    patch.setattr(core.dtype, "__eq__", same)
    patch.setattr(core, "_unwrap_if_constexpr", value_of)
    patch.setattr(semantic, "binary_op_type_checking_impl", operands)
    patch.setattr(semantic, "broadcast_impl_value", alike)
    patch.setattr(interpreter, "_get_np_dtype", type_of)
    patch.setattr(interpreter, "_patch_attr", patch_attribute)
    patch.setattr(interpreter.interpreter_builder, "options", interpreter.InterpreterOptions(sanitize_overflow=False))


@pytest.fixture(scope="module")
def interpreted() -> Iterator[None]:
    """Run the code under test on the Triton kernels, in Triton's interpreter."""
    with interpreting():
        yield
