"""Text by characters: the Python language reference, which is part of every Python installation.

The text is printed by `help("with")` and similar calls, and is read from the standard library's `pydoc_data.topics`. It
differs slightly between versions of Python; `digest` identifies the one that a run has read. Topics quote each other at
length: **a paragraph that occurs in several topics is read once**, so that the held-out part is not a copy of the
training part.
    The last tenth is held out.

A token is a character and its position in the window; the answer at a token is the next character.
"""

from __future__ import annotations

from functools import cache
from hashlib import sha256

import torch
from torch import Tensor

from separatrix.checks import is_whole
from separatrix.errors import ArgumentError, SeparatrixError
from separatrix.studies.learning.tasks.task import Draw, Task, TaskBatch

__all__ = ["alphabet", "corpus", "digest", "entropy", "text_task"]

_HELD_OUT = 10
"""The last tenth of the text is held out."""


@cache
def corpus() -> str:
    """The whole text: the paragraphs of the topics in alphabetical order, each paragraph once.

    Raises:
        SeparatrixError: If this Python was installed without `pydoc_data`.

    Example:
        >>> "The \\"assert\\" statement" in corpus()[:50], len(corpus()) > 300_000
        (True, True)
    """
    try:
        from pydoc_data.topics import topics
    except ModuleNotFoundError as error:
        raise SeparatrixError(
            "the text is the standard library's pydoc_data.topics, and this Python was installed without it"
        ) from error
    parts = (part.strip("\n") for name in sorted(topics) for part in topics[name].split("\n\n"))
    return "\n\n".join(dict.fromkeys(part for part in parts if part))


@cache
def digest() -> str:
    """The SHA-256 of the text in UTF-8, in hex.

    Example:
        >>> len(digest())
        64
    """
    return sha256(corpus().encode()).hexdigest()


@cache
def alphabet() -> str:
    """The characters that occur, in order.

    Example:
        >>> alphabet()[:2]
        '\\n '
    """
    return "".join(sorted(set(corpus())))


def _symbols(text: str) -> Tensor:
    """The characters of a text as indices into the alphabet."""
    index = {character: place for place, character in enumerate(alphabet())}
    if unknown := sorted(set(text) - set(index)):
        raise ArgumentError("text", expected="characters of the alphabet alone", got=repr("".join(unknown)))
    return torch.tensor([index[character] for character in text], dtype=torch.int64)


@cache
def _parts() -> tuple[Tensor, Tensor]:
    """The training part and the held-out part of the text, as indices into the alphabet."""
    symbols = _symbols(corpus())
    return tuple(symbols.tensor_split([len(symbols) - len(symbols) // _HELD_OUT]))  # type: ignore[return-value]


def text_task(n: int, *, text: str | None = None) -> Task:
    """The task of predicting each next character in windows of n characters at random positions.

    Args:
        n: The number of characters of a window.
        text: The `digest` that the text must have; None for the text of this Python.

    Raises:
        ArgumentError: If the held-out part is shorter than n + 1 characters, or the text has another `digest`.

    Example:
        >>> batch = text_task(5).held_out(2, torch.Generator().manual_seed(0))
        >>> batch.tokens.shape, torch.equal(batch.tokens[:, 1:, 0], batch.answers[:, :-1])
        (torch.Size([2, 5, 2]), True)
    """
    if not is_whole(n, low=1, high=len(_parts()[1]) - 1):
        raise ArgumentError("n", expected=f"an integer from 1 to {len(_parts()[1]) - 1}", got=n)
    if text not in (None, digest()):
        raise ArgumentError("text", expected=f"the SHA-256 of this Python's text, {digest()}", got=repr(text))
    C = len(alphabet())

    def windows(symbols: Tensor) -> Draw:
        def draw(count: int, generator: torch.Generator) -> TaskBatch:
            start = torch.randint(len(symbols) - n, (count, 1), generator=generator)
            window = symbols[start + torch.arange(n + 1)]
            place = (C + torch.arange(n)).expand(count, n)
            return TaskBatch(torch.stack([window[:, :-1], place], -1), window[:, 1:])

        return draw

    training, held_out = _parts()
    return Task(n, C + n, C, n, windows(training), windows(held_out))


def entropy(context: int) -> float:
    """The loss in nats per character, on the held-out part, of a table of the `context` preceding characters.

    The table has the counts of the training part plus one half for every character, so that no probability is zero. It
    is a baseline for attention: a context of 0 uses frequencies only, and 1 is a table of pairs.

    Example:
        >>> entropy(0) > entropy(1)
        True
    """
    C = len(alphabet())
    training, held_out = _parts()
    code, code_held = (
        sum((part[place : len(part) - context + place] * C**place for place in range(context)), part.new_zeros(()))
        for part in (training, held_out)
    )
    pairs = torch.zeros(C**context * C, dtype=torch.float64)
    followed = code.expand(len(training) - context) * C + training[context:]
    pairs.index_add_(0, followed, torch.ones(len(followed), dtype=torch.float64))
    table = pairs.reshape(-1, C) + 0.5
    share = table / table.sum(1, keepdim=True)
    return float(-share[code_held.expand(len(held_out) - context), held_out[context:]].log().mean())
