"""The errors that a user can cause; each is a `SeparatrixError`, which is a `ValueError`.

>>> raise ArgumentError("order", expected="an integer >= 2", got=1)
Traceback (most recent call last):
    ...
separatrix.errors.ArgumentError: order: expected an integer >= 2, got 1.
"""

from __future__ import annotations


class SeparatrixError(ValueError):
    """The library cannot do what it was asked to; the message says why."""


class ArgumentError(SeparatrixError):
    """An argument is not what it must be.

    The message reads "`argument`: expected `expected`, got `got`."

    Args:
        argument: the argument, as the caller wrote it (``keys[1]``, ``--tolerance``).
        expected: what the argument must be, as a phrase.
        got: what was given; a string appears in the message as it is, any other object as its `repr`.
        hypothesis: the hypothesis of a theorem that the argument does not satisfy, if there is one.
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
