"""The interpreter's caches change no result: operands are converted to the same bits."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

from tests.contracts import interpreter as contract

pytestmark = contract.needs_triton

TYPES = ("int1", "int32", "int64", "float16", "float32", "float64")
SHAPES = ((), (1,), (4,), (1, 4), (4, 4), (8,))
NUMBERS = (0, 3, -7, 2**40, True, 0.0, -0.0, 1.5, 1e-300, float("inf"))
OPTIONS = ((), (True, True), (False, False, True, True), (False, False, False, True))


def operands() -> Iterator[tuple[str, Any, Any]]:
    """Pairs of tensors, and tensors with plain numbers on either side, each with a name."""
    import numpy as np
    import triton.language as tl
    from triton.runtime import interpreter

    def tensor(name: str, shape: tuple[int, ...]) -> Any:
        kind = getattr(tl, name)
        data = np.arange(1, 1 + max(1, int(np.prod(shape)))).astype(interpreter._get_np_dtype(kind))
        handle = interpreter.TensorHandle(data.reshape(shape) if shape else data, kind)
        return tl.core.tensor(handle, tl.core.block_type(kind, list(shape)) if shape else kind)

    tensors = {f"{name}{shape}": tensor(name, shape) for name, shape in product(TYPES, SHAPES)}
    for (left, one), (right, other) in product(tensors.items(), repeat=2):
        yield f"{left}, {right}", one, other
    for (left, one), number in product(tensors.items(), NUMBERS):
        yield f"{left}, {number}", one, number
        yield f"{number}, {left}", number, one


def become() -> dict[str, Any]:
    """The interpreter's conversion of operands: their types, shapes and bits, or the kind of error."""
    from triton.runtime import interpreter

    seen: dict[str, Any] = {}
    for (name, one, other), options in product(list(operands()), OPTIONS):
        try:
            both = interpreter.interpreter_semantic.binary_op_type_checking_impl(one, other, *options)
        except Exception as error:
            seen[f"{name}, {options}"] = type(error).__name__
        else:
            seen[f"{name}, {options}"] = [
                (
                    str(x.type),
                    x.handle.dtype.name,
                    [size.value for size in x.shape],
                    x.numel.value,
                    x.handle.data.tolist(),
                )
                for x in both
            ]
    return seen


def test_operands_become_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    with contract.interpreting():
        hurried = become()
    monkeypatch.setattr(contract, "_hurry", lambda *_: None)
    with contract.interpreting():
        plain = become()
    assert "ValueError" in plain.values()  # incompatible shapes
    assert repr(hurried) == repr(plain)  # here -0.0 differs from 0.0
