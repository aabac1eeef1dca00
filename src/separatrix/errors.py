"""The errors that a user can cause; each is a `SeparatrixError`, which is a `ValueError`.

>>> raise ArgumentError("order", expected="an integer >= 2", got=1)
Traceback (most recent call last):
    ...
separatrix.errors.ArgumentError: order: expected an integer >= 2, got 1.
"""

from __future__ import annotations


class SeparatrixError(ValueError):
    """A request that the library cannot satisfy; the message says why."""


class LongCallWarning(UserWarning):
    """A call will take more than a minute; the message says how long, and what would take less."""


def shortened(text: str, most: int = 1000) -> str:
    """A text for a message, without its middle if it is longer than `most` characters.

    >>> shortened("abcdefghijklmnopqrstuvwxyz", most=15)
    'abcdef ... uvwxyz'
    """
    return text if len(text) <= most else f"{text[: most * 2 // 5]} ... {text[-(most * 2 // 5) :]}"


class ArgumentError(SeparatrixError):
    """An argument has an invalid value.

    The message reads "`argument`: expected `expected`, got `got`."

    Args:
        argument: the argument, as the caller wrote it (``keys[1]``, ``--tolerance``).
        expected: what the argument must be, as a phrase.
        got: what was given; a string appears in the message as it is, any other object as its `repr`. A very long text
            is shortened in the middle.
        hypothesis: the hypothesis of a theorem that the argument does not satisfy, if there is one.
    """

    def __init__(self, argument: str, *, expected: str, got: object, hypothesis: str | None = None) -> None:
        self.argument = argument = shortened(argument)
        self.expected = expected
        self.got = shortened(got if isinstance(got, str) else repr(got))
        self.hypothesis = hypothesis
        because = f" This breaks {hypothesis}." if hypothesis else ""
        super().__init__(f"{argument}: expected {expected}, got {self.got}.{because}")

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.argument, self.expected, self.got, self.hypothesis)


def _rebuild(cls: type[ArgumentError], argument: str, expected: str, got: str, hypothesis: str | None) -> ArgumentError:
    return cls(argument, expected=expected, got=got, hypothesis=hypothesis)
