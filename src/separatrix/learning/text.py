"""Text, character by character: the books of Genesis and Exodus, of which the last tenth is held out.

Every token is a character and its place in the window; the answer at a token is the character that follows. See
``data/README.md`` for where the text is from.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

import torch
from torch import Tensor

from separatrix.errors import ArgumentError
from separatrix.learning.tasks import Batch, Draw, Task

__all__ = ["alphabet", "corpus", "entropy", "text_task"]

_HELD_OUT = 10
"""One part in so many, the last of the text."""


@cache
def corpus() -> str:
    """The whole text.

    >>> len(corpus()), corpus()[:54]
    (366194, 'In the beginning God created the heaven and the earth.')
    """
    return (files("separatrix.learning") / "data" / "genesis_exodus.txt").read_text("ascii")


@cache
def alphabet() -> str:
    """The characters that occur, in order.

    >>> len(alphabet())
    62
    """
    return "".join(sorted(set(corpus())))


@cache
def _parts() -> tuple[Tensor, Tensor]:
    """The text as indices into the alphabet: what is trained on, and what is held out."""
    index = {character: place for place, character in enumerate(alphabet())}
    symbols = torch.tensor([index[character] for character in corpus()])
    return tuple(symbols.tensor_split([len(symbols) - len(symbols) // _HELD_OUT]))  # type: ignore[return-value]


def text_task(n: int) -> Task:
    """Windows of n characters at random places.

    >>> batch = text_task(5).held_out(2, torch.Generator().manual_seed(0))
    >>> batch.tokens.shape, torch.equal(batch.tokens[:, 1:, 0], batch.answers[:, :-1])
    (torch.Size([2, 5, 2]), True)
    """
    if not isinstance(n, int) or isinstance(n, bool) or not 1 <= n < len(_parts()[1]):
        raise ArgumentError("n", expected=f"an integer from 1 to {len(_parts()[1]) - 1}", got=n)
    C = len(alphabet())

    def windows(symbols: Tensor) -> Draw:
        def draw(count: int, generator: torch.Generator) -> Batch:
            start = torch.randint(len(symbols) - n, (count, 1), generator=generator)
            window = symbols[start + torch.arange(n + 1)]
            place = (C + torch.arange(n)).expand(count, n)
            return Batch(torch.stack([window[:, :-1], place], -1), window[:, 1:])

        return draw

    training, held_out = _parts()
    return Task(n, C + n, C, n, windows(training), windows(held_out))


def entropy(context: int) -> float:
    """Nats a character that a table of the `context` characters before leaves on the held-out part: its counts in the
    part that is trained on, with a share of a half for every character, so that none is impossible.

    What attention adds must be seen against this: 0 is the frequencies alone, 1 the tables of pairs.

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
