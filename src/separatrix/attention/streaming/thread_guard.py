"""A guard against data races: many threads may read an object at the same time, and only one thread may use it while it
is modified.
"""

from __future__ import annotations

import threading
from types import TracebackType

from separatrix.errors import SeparatrixError


class ThreadGuard:
    """Counts the threads that use an object, and raises an error for a use that would be a data race.

    It never waits: with a lock, the tokens that a query attends to would depend on the order of the threads. A thread
    may nest uses: `extend` appends and attends.

    Args:
        name: The name of the object in error messages.

    Attributes:
        reading: A context manager that raises a `SeparatrixError` if another thread changes the object.
        changing: A context manager that raises a `SeparatrixError` if another thread uses the object at all.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._uses: dict[int, int] = {}
        self._changes = 0
        self.reading, self.changing = _Use(self, False), _Use(self, True)

    def __reduce__(self) -> tuple[type[ThreadGuard], tuple[str]]:
        """Copying or unpickling a guard creates a new one: no thread uses the copied object yet."""
        return ThreadGuard, (self._name,)

    def _enter(self, changes: bool) -> None:
        thread = threading.get_ident()
        with self._lock:
            alone = not self._uses or self._uses.keys() == {thread}
            if not alone and (changes or self._changes):
                at_work = "changes" if self._changes else "reads"
                raise SeparatrixError(
                    f"{self._name}: another thread {at_work} it. Threads may read a {self._name} at the same time, but "
                    "one that changes it must be alone: hold a lock around every use, or give each thread a copy."
                )
            self._uses[thread] = self._uses.get(thread, 0) + 1
            self._changes += changes

    def _leave(self, changes: bool) -> None:
        thread = threading.get_ident()
        with self._lock:
            self._changes -= changes
            self._uses[thread] -= 1
            if not self._uses[thread]:
                del self._uses[thread]


class _Use:
    """A reentrant context manager for the use of a guarded object, which several threads may enter."""

    def __init__(self, guard: ThreadGuard, changes: bool) -> None:
        self._guard, self._changes = guard, changes

    def __enter__(self) -> None:
        self._guard._enter(self._changes)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._guard._leave(self._changes)
