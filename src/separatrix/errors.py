"""The errors a user can cause.

Every one is a `SeparatrixError`, which is a `ValueError`.

>>> raise ArgumentError("order", expected="an integer >= 2", got=1)
Traceback (most recent call last):
    ...
separatrix.errors.ArgumentError: order: expected an integer >= 2, got 1.
"""

from __future__ import annotations


class SeparatrixError(ValueError):
    """Something asked of the library that it cannot do, said in one sentence."""


class ArgumentError(SeparatrixError):
    """An argument that is not what it must be.

    `argument` names it as the caller wrote it (``keys[1]``, ``--tolerance``), `expected` and `got` complete the
    sentence, and `hypothesis` names the theorem's hypothesis that is broken, where there is one.
    """

    def __init__(self, argument: str, *, expected: str, got: object, hypothesis: str | None = None) -> None:
        self.argument = argument
        self.expected = expected
        self.got = got if isinstance(got, str) else repr(got)
        self.hypothesis = hypothesis
        because = f" This breaks {hypothesis}." if hypothesis else ""
        super().__init__(f"{argument}: expected {expected}, got {self.got}.{because}")

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.argument, self.expected, self.got, self.hypothesis)


def _rebuild(cls: type[ArgumentError], argument: str, expected: str, got: str, hypothesis: str | None) -> ArgumentError:
    return cls(argument, expected=expected, got=got, hypothesis=hypothesis)
