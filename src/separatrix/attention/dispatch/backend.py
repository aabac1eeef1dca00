"""The rule that chooses a backend, the same for exact and for near-linear attention."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar


class TakesRequests(Protocol):
    """Protocol of a backend (for example a module) that says which requests it computes."""

    NAME: str

    def takes(self, *request: Any, **options: Any) -> bool:
        """Whether the backend computes a request."""


B = TypeVar("B", bound=TakesRequests)


def choose_backend(backends: Sequence[B], *request: object) -> B:
    """The first backend that takes a request; the last one, in plain PyTorch, takes every request.

    Args:
        backends: The backends, from the first choice to the last.
        *request: The request, as arguments of the backends' `takes`.
    """
    return next(backend for backend in backends if backend.takes(*request))
