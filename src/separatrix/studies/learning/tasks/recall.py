r"""k-way associative recall: the value of a key whose k - 1 parts are in k - 1 different tokens.

A record i has a key (c_{i,1}, ..., c_{i,k-1}), a value v_i and a tag t_i. It is written as k - 1 tokens, one for each
part of its key; all bear its tag, and the last of them its value:

    (c_{i,1}, t_i), ..., (c_{i,k-2}, t_i), (c_{i,k-1}, t_i, v_i)

First parts come first, in random order, then second parts, and so on; the last token asks for the key of one of the
records. Each last part is shared by r records, so that **a model that does not join tokens by their tags has an
accuracy of 1/r**. With k = 2 a key is one token: ordinary associative recall.

*One head of order k solves it in one layer.* Over one-hot vectors, the score

    sum_m [c_m asked = c_m of token j_m]  +  sum_m [tag of token j_m = tag of token j_{m+1}]

is a sum of coordinates that are each a product of a factor of the query and one factor of each of the k - 1 keys, as in
order-k attention (missing factors are 1); it is 2k - 3 on the requested record and at most 2k - 4 on every other tuple.
`by_one_head` implements this head.

*Heads of order 2 need two hops*, for any k: in the first layer each token attends to the tokens of its tag and collects
the parts of its record's key, in the second the query attends to the tokens whose record's key is its own.
`by_two_hops` implements these two layers. In one layer an order-2 head returns sums over single tokens, sum_j w(query,
x_j) v(x_j), in which no term depends on two tokens, so whether a tag occurs twice must be inferred from the sums.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from separatrix.attention.operator import tensor_attention
from separatrix.checks import is_whole
from separatrix.errors import ArgumentError
from separatrix.studies.learning.tasks.task import Task, TaskBatch

__all__ = ["Recall", "by_one_head", "by_two_hops"]


@dataclass(frozen=True)
class Recall:
    """The sizes of k-way recall; there are parts * shared records, and as many tags and values.

    Attributes:
        order: k, the number of parts of a key plus one.
        parts: The number of symbols for each part of a key.
        shared: r, the number of records that have the same last part.

    Example:
        >>> Recall(3, parts=4, shared=2).records, Recall(3, parts=4, shared=2).task.n
        (8, 17)
    """

    order: int = 3
    parts: int = 4
    shared: int = 2

    def __post_init__(self) -> None:
        for name, low in (("order", 2), ("parts", 2), ("shared", 1)):
            number = getattr(self, name)
            if not is_whole(number, low=low):
                raise ArgumentError(name, expected=f"an integer >= {low}", got=number)
        most = self.parts ** (self.order - 2)
        if self.shared > most:
            raise ArgumentError("shared", expected=f"at most parts^(order - 2) = {most}, for keys to differ",
                                got=self.shared)  # fmt: skip

    @property
    def records(self) -> int:
        return self.parts * self.shared

    @property
    def task(self) -> Task:
        """The recall as a task; symbols are values (so that answers are symbols), then tags, parts and a blank."""
        symbols = 2 * self.records + (self.order - 1) * self.parts + 1
        n = (self.order - 1) * self.records + 1
        return Task(n, symbols, self.records, 1, self.draw, self.draw)

    def draw(self, count: int, generator: torch.Generator) -> TaskBatch:
        """Tokens (count, n, max(3, k - 1)) of part, tag and value; the last token has the requested parts."""
        k, P, r, m = self.order, self.parts, self.shared, self.records

        def permuted(size: int, rows: int = 1) -> Tensor:
            return torch.rand(count, rows, size, generator=generator).argsort(-1)

        values, tags = permuted(m)[:, 0], permuted(m)[:, 0]
        last = torch.arange(m).expand(count, m) // r
        # Records with one last part have different prefixes: r of the P^(k-2), drawn without repetition.
        prefix = permuted(P ** (k - 2), P)[..., :r].reshape(count, m)
        keys = torch.stack([*(prefix // P**place % P for place in range(k - 2)), last], -1)
        asked = torch.randint(m, (count, 1), generator=generator)

        blank = self.task.symbols - 1
        tokens = torch.full((count, (k - 1) * m + 1, max(3, k - 1)), blank)
        part = 2 * m + P * torch.arange(k - 1)
        for place in range(k - 1):
            order = permuted(m)[:, 0]
            here = tokens[:, place * m : (place + 1) * m]
            here[..., 0] = part[place] + keys[..., place].gather(1, order)
            here[..., 1] = m + tags.gather(1, order)
            if place == k - 2:
                here[..., 2] = values.gather(1, order)
        key = keys.gather(1, asked.unsqueeze(-1).expand(-1, -1, k - 1))
        tokens[:, -1, : k - 1] = part + key[:, 0]
        return TaskBatch(tokens, values.gather(1, asked))

    def fields(self, tokens: Tensor) -> tuple[list[Tensor], Tensor, Tensor]:
        """One-hot parts (k - 1 of them), tags and values of each token (count, n, ...), zero where it has none."""
        bags = one_hot(tokens, self.task.symbols).sum(-2).double()
        m, P = self.records, self.parts
        starts = [2 * m + place * P for place in range(self.order - 1)]
        return [bags[..., at : at + P] for at in starts], bags[..., m : 2 * m], bags[..., :m]


_SHARP = 50.0
"""The factor of the scores: any other tuple has at most exp(-50) of the weight of the right tuple."""


def by_one_head(recall: Recall, tokens: Tensor) -> Tensor:
    """The answers (count, 1) of the order-k head of the module's docstring, with scores multiplied by 50.

    Example:
        >>> batch = Recall(4, parts=2, shared=3).draw(5, torch.Generator().manual_seed(0))
        >>> torch.equal(by_one_head(Recall(4, parts=2, shared=3), batch.tokens), batch.answers)
        True
    """
    parts, tags, values = recall.fields(tokens)
    k = recall.order

    def row(mine: dict[int, Tensor], ties: tuple[int, ...]) -> Tensor:
        """A block of coordinates for each part, then one for each pair of tags; ones where a term has no factor."""
        blocks = [mine.get(place, torch.ones_like(parts[place])) for place in range(k - 1)]
        blocks += [tags if tie in ties else torch.ones_like(tags) for tie in range(k - 2)]
        return torch.cat(blocks, -1)

    query = row(dict(enumerate(parts)), ())[:, -1:]
    before = slice(None, -1)  # the last token has parts, but is not a record
    keys = [row({place: parts[place]}, (place - 1, place))[:, before] for place in range(k - 1)]
    shown_values = values[:, before]
    out = tensor_attention(query, keys, [*([torch.ones_like(shown_values)] * (k - 2)), shown_values], scale=_SHARP)
    return out.argmax(-1)


def by_two_hops(recall: Recall, tokens: Tensor) -> Tensor:
    """The answers (count, 1) of the two order-2 layers of the module's docstring, with scores multiplied by 50.

    In the first layer each token averages the k - 1 tokens with its tag, each of which has one part. So in the second
    layer all tokens of the requested record have the same weight, and only one of them has a value.

    Example:
        >>> batch = Recall(4, parts=2, shared=3).draw(5, torch.Generator().manual_seed(0))
        >>> torch.equal(by_two_hops(Recall(4, parts=2, shared=3), batch.tokens), batch.answers)
        True
    """
    parts, tags, values = recall.fields(tokens)
    all_parts = torch.cat(parts, -1)
    collected = tensor_attention(tags, tags[:, :-1], all_parts[:, :-1], scale=_SHARP) * (recall.order - 1)
    return tensor_attention(all_parts[:, -1:], collected[:, :-1], values[:, :-1], scale=_SHARP).argmax(-1)
