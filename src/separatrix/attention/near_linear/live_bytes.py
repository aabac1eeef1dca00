"""The peak number of bytes of a computation, counted as PyTorch dispatches its operations."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class LiveBytes(TorchDispatchMode):
    """Counts the storages that operations create, from their creation until nothing refers to them.

    `peak` is the largest number of live bytes at one time, in addition to those of the `given` tensors. Memory that an
    operation allocates and frees internally is not counted. Near-linear attention is computed by the same backend as
    without this mode.

    >>> x = torch.ones(100, dtype=torch.float64)
    >>> with LiveBytes([x]) as counted:
    ...     y = (x + 1).sum()
    >>> counted.peak, counted.now
    (808, 8)
    """

    allows_kernels = True
    """See `separatrix.native_tensors.operators_are_watched`."""

    def __init__(self, given: Iterable[Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.now = 0
        self.peak = 0
        self._known = {x.untyped_storage()._cdata for x in given}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        results = func(*args, **(kwargs or {}))
        for x in tree_leaves(results):
            if isinstance(x, Tensor):
                self._note(x.untyped_storage())
        self.peak = max(self.peak, self.now)
        return results

    def _note(self, storage: torch.UntypedStorage) -> None:
        place, size = storage._cdata, storage.nbytes()
        if place not in self._known:
            self._known.add(place)
            self.now += size
            weakref.finalize(storage, self._freed, place, size)

    def _freed(self, place: int, size: int) -> None:
        self._known.discard(place)
        self.now -= size
