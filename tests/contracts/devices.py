"""Code run with fake GPU tensors: the device of each tensor is checked, and nothing is computed.

Where the code reads numbers, it gets those that it read at the same place with real CPU tensors.
"""

from __future__ import annotations

import sys
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map_only

from separatrix.attention.arithmetic import device_reads, precision
from separatrix.native import native


def _place() -> tuple[str, int]:
    """The file and line that read numbers: the caller above `device_reads` and this file."""
    frame = sys._getframe(1)
    while frame.f_code.co_filename in (__file__, device_reads.__file__):
        assert frame.f_back is not None
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno


class WithoutGuards(TorchFunctionMode):
    """Index, invert, copy and move fake GPU tensors in a CPU build of PyTorch.

    In these functions PyTorch's Python bindings look for a GPU before any mode is active; the operators below do not.
    """

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if function is Tensor.__getitem__:
            return _entries(*args)
        if function is Tensor.__setitem__:
            return _put_entries(*args)
        if function is Tensor.__invert__:
            return torch.bitwise_not(*args)
        if function is Tensor.to and len(args) > 1 and isinstance(args[1], (str, torch.device)):
            dtype = args[2] if len(args) > 2 else kwargs.get("dtype")
            return torch.ops.aten._to_copy(args[0], dtype=dtype, device=torch.device(args[1]))
        if function is Tensor.contiguous:
            return args[0] if args[0].is_contiguous() else args[0].clone(memory_format=torch.contiguous_format)
        if function is Tensor.copy_:
            return torch.ops.aten.copy_.default(*args, **kwargs)
        return function(*args, **kwargs)


def _put_entries(x: Tensor, index: Any, value: Any) -> None:
    """Compute x[index] = value by operators."""
    view, tensors = _view(x, index)
    value = value if isinstance(value, Tensor) else torch.full((), value, dtype=x.dtype, device=x.device)
    if tensors is None:
        torch.ops.aten.copy_.default(view, value)
    else:
        torch.ops.aten.index_put_(view, tensors, value.to(x.dtype))


def _entries(x: Tensor, index: Any) -> Tensor:
    """Compute x[index] by operators."""
    view, tensors = _view(x, index)
    return view if tensors is None else torch.ops.aten.index.Tensor(view, tensors)


def _view(x: Tensor, index: Any) -> tuple[Tensor, list[Tensor | None] | None]:
    """The view of x by the parts of an index that are not tensors, and the index tensors with their dimensions."""
    index = index if isinstance(index, tuple) else (index,)
    used = sum(1 for one in index if one is not None and one is not Ellipsis)
    whole = (slice(None),) * (x.dim() - used)
    at = next((n for n, one in enumerate(index) if one is Ellipsis), len(index))
    dim, tensors = 0, {}
    for one in (*index[:at], *whole, *index[at + 1 :]):
        if one is None:
            x = x.unsqueeze(dim)
        elif isinstance(one, slice):
            x = torch.ops.aten.slice.Tensor(x, dim, one.start, one.stop, one.step or 1)
        elif isinstance(one, int):
            x, dim = x.select(dim, one), dim - 1
        else:
            tensors[dim] = one if isinstance(one, Tensor) else torch.tensor(one, device=x.device)
        dim += 1
    return x, [tensors.get(n) for n in range(max(tensors) + 1)] if tensors else None


@contextmanager
def plain_pytorch() -> Iterator[pytest.MonkeyPatch]:
    """Compute without the C++ kernels: the CPU then runs the code of every device."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SEPARATRIX_ISA", "none")
        native.cache_clear()
        try:
            yield patch
        finally:
            patch.undo()
            native.cache_clear()


def on_a_gpu(run: Callable[..., Any], *arguments: Any) -> tuple[Any, int]:
    """The result of a function for fake GPU tensors, and how many numbers it reads; the function runs on the CPU first.

    Tensors in the arguments, also those in lists and dictionaries, and new tensors are replaced by fake ones.
    """
    heard: dict[tuple[str, int], deque[Any]] = defaultdict(deque)
    looks = 0

    def record(x: Tensor) -> Any:
        heard[_place()].append(found := x.tolist())
        return found

    def replay(x: Tensor) -> Any:
        nonlocal looks
        looks += 1
        assert isinstance(x, FakeTensor)
        return heard[_place()].popleft()

    with plain_pytorch() as patch, torch.no_grad():
        patch.setattr(precision, "_keeps_digits", lambda device_type: True)
        patch.setattr(device_reads, "read", record)
        run(*arguments)
        patch.setattr(device_reads, "read", replay)
        with FakeTensorMode(), WithoutGuards():
            moved = tree_map_only(Tensor, lambda x: torch.empty(x.shape, dtype=x.dtype, device="cuda"), arguments)
            return run(*moved), looks


def devices(found: Any) -> set[str]:
    """The devices of the tensors in a structure, or in the attributes of an object."""
    seen: set[str] = set()
    tree_map_only(Tensor, lambda x: seen.add(x.device.type), found)
    return seen
