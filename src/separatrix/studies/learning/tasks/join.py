r"""Two-hop joins in context: h -r1-> x -r2-> ?, where both facts are in the input, among others.

A fact is a token with three fields, (head, relation, tail). No two facts have the same head and relation. The last
token asks by a head h and two relations r1 and r2: exactly one fact is (h, r1, x) and exactly one is (x, r2, y), and
the answer is y. A model that does not join two facts can at best guess among the tails of the facts with the relation
r2.

*One head of order 3 solves it in one layer*: the score

    [h asked = head of j_1] + [r1 asked = relation of j_1] + [tail of j_1 = head of j_2] + [r2 asked = relation of j_2]

is 4 on the two facts in question and at most 3 on every other pair. *Heads of order 2 need two hops*: the last token
attends to the fact (h, r1, x) in the first layer, and to (x, r2, y) in the second. In one layer, a product of two
order-2 attentions returns a product of two sums over single facts, neither of which depends on the other.

`Join` draws facts at random. `ImportJoin` draws them from a real graph, the imports of Python's standard library: heads
and tails are modules, and the relation says how a module is imported. Its modules get new symbols at random in each
input, so that edges cannot be memorized, and training facts and held-out facts have different heads.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from separatrix.attention.operator import tensor_attention
from separatrix.checks import is_whole
from separatrix.errors import ArgumentError
from separatrix.studies.learning.tasks.import_graph import RELATIONS, digest, import_facts
from separatrix.studies.learning.tasks.task import Draw, Task, TaskBatch


@dataclass(frozen=True)
class Join:
    """The sizes of a join; the fields of a token are head, relation and tail.

    Attributes:
        facts: The number of facts in an input.
        entities: The number of heads and tails.
        relations: The number of relations; entities * relations must be at least `facts`.

    Example:
        >>> Join(8).task.n, Join(8).task.symbols
        (9, 40)
    """

    facts: int = 8
    entities: int = 16
    relations: int = 4

    def __post_init__(self) -> None:
        for name, low in (("facts", 2), ("entities", 2), ("relations", 1)):
            number = getattr(self, name)
            if not is_whole(number, low=low):
                raise ArgumentError(name, expected=f"an integer >= {low}", got=number)
        if self.facts > self.entities * self.relations:
            expected = f"at most entities * relations = {self.entities * self.relations}"
            raise ArgumentError("facts", expected=expected, got=self.facts)

    @property
    def task(self) -> Task:
        """The join as a task; symbols are tails, so that answers are symbols, heads, relations and second relations."""
        return self._task(self.draw, self.draw)

    def _task(self, training: Draw, held_out: Draw) -> Task:
        return Task(self.facts + 1, 2 * (self.entities + self.relations), self.entities, 1, training, held_out)

    def draw(self, count: int, generator: torch.Generator) -> TaskBatch:
        """Tokens (count, facts + 1, 3) with their answers, of facts drawn at random."""
        keys = torch.rand(count, self.entities * self.relations, generator=generator).argsort(-1)[:, : self.facts]
        tails = torch.randint(self.entities, (count, self.facts), generator=generator)
        heads, relations = keys // self.relations, keys % self.relations
        tails[:, 0] = heads[:, 1]  # the answer joins the first two facts
        return self.batch(heads, relations, tails, generator)

    def batch(self, heads: Tensor, relations: Tensor, tails: Tensor, generator: torch.Generator) -> TaskBatch:
        """The tokens of facts (count, facts), of which the first two are to be joined, in random order.

        Args:
            heads: The heads of the facts.
            relations: The relations of the facts.
            tails: The tails of the facts.
            generator: Draws the order of the facts.
        """
        E, R = self.entities, self.relations
        facts = torch.stack([E + heads, 2 * E + relations, tails], -1)
        order = torch.rand(facts.shape[:2], generator=generator).argsort(-1)
        shuffled = facts.gather(1, order.unsqueeze(-1).expand(facts.shape))
        asked = torch.stack([E + heads[:, 0], 2 * E + relations[:, 0], 2 * E + R + relations[:, 1]], -1)
        return TaskBatch(torch.cat([shuffled, asked.unsqueeze(1)], 1), tails[:, 1:2])

    def fields(self, tokens: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """One-hot tails, heads, relations and second relations of each token, zero where it has none."""
        bags = one_hot(tokens, self.task.symbols).sum(-2).double()
        E, R = self.entities, self.relations
        tails, heads, relations, seconds = bags.split([E, E, R, R], -1)
        return tails, heads, relations, seconds


@dataclass(frozen=True)
class ImportJoin(Join):
    """A join over the imports of Python's standard library.

    Attributes:
        relations: The number of `RELATIONS`.
        graph: The `digest` that the graph must have; None for the graph of this Python.
    """

    relations: int = len(RELATIONS)
    graph: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.graph not in (None, digest()):
            expected = f"the SHA-256 of the import graph of this Python, {digest()}"
            raise ArgumentError("graph", expected=expected, got=self.graph)

    @property
    def task(self) -> Task:
        return self._task(*(self._drawing(import_facts(held_out)) for held_out in (False, True)))

    def _drawing(self, edges: Tensor) -> Draw:
        """Draws inputs whose facts are among `edges`, (number, 3): head, relation, tail."""
        facts = [tuple(edge) for edge in edges.tolist()]
        going_on: dict[int, list[tuple[int, ...]]] = {}
        for fact in facts:
            going_on.setdefault(fact[0], []).append(fact)
        chains = [fact for fact in facts if fact[2] in going_on]  # facts whose tail is the head of another fact

        def draw(count: int, generator: torch.Generator) -> TaskBatch:
            inputs: list[Tensor] = []
            while len(inputs) < count:
                numbers = torch.randint(2**31, (4 * self.facts,), generator=generator).tolist()
                first = chains[numbers[0] % len(chains)]
                seconds = going_on[first[2]]
                second = seconds[numbers[1] % len(seconds)]
                chosen = {first[:2]: first, second[:2]: second}
                for number in numbers[2:]:
                    fact = facts[number % len(facts)]
                    if len(chosen) < self.facts:
                        chosen.setdefault(fact[:2], fact)
                modules = sorted({module for fact in chosen.values() for module in fact[::2]})
                if second[:2] == first[:2] or len(chosen) < self.facts or len(modules) > self.entities:
                    continue
                symbols = torch.randperm(self.entities, generator=generator).tolist()
                symbol = dict(zip(modules, symbols, strict=False))
                inputs.append(torch.tensor([(symbol[h], r, symbol[t]) for h, r, t in chosen.values()]))
            symbols_of_heads, named_relations, symbols_of_tails = torch.stack(inputs).unbind(-1)
            return self.batch(symbols_of_heads, named_relations, symbols_of_tails, generator)

        return draw


_SHARP = 50.0
"""The factor of the scores: any other pair has at most exp(-50) of the weight of the right pair."""


def by_one_head(join: Join, tokens: Tensor) -> Tensor:
    """The answers (count, 1) of the order-3 head of the module's docstring, with scores multiplied by 50.

    Example:
        >>> batch = Join(12).draw(5, torch.Generator().manual_seed(0))
        >>> torch.equal(by_one_head(Join(12), batch.tokens), batch.answers)
        True
    """
    tails, heads, relations, seconds = join.fields(tokens)
    ones, few = torch.ones_like(heads), torch.ones_like(relations)
    facts = slice(None, -1)
    query = torch.cat([heads, relations, ones, seconds], -1)[:, -1:]
    first = torch.cat([heads, relations, tails, few], -1)[:, facts]
    second = torch.cat([ones, few, heads, relations], -1)[:, facts]
    values = [ones[:, facts], tails[:, facts]]
    return tensor_attention(query, [first, second], values, scale=_SHARP).argmax(-1)


def by_two_hops(join: Join, tokens: Tensor) -> Tensor:
    """The answers (count, 1) of the two order-2 layers of the module's docstring, with scores multiplied by 50.

    Example:
        >>> batch = Join(12).draw(5, torch.Generator().manual_seed(0))
        >>> torch.equal(by_two_hops(Join(12), batch.tokens), batch.answers)
        True
    """
    tails, heads, relations, seconds = join.fields(tokens)
    keys, held = torch.cat([heads, relations], -1)[:, :-1], tails[:, :-1]
    reached = tensor_attention(torch.cat([heads, relations], -1)[:, -1:], keys, held, scale=_SHARP)
    return tensor_attention(torch.cat([reached, seconds[:, -1:]], -1), keys, held, scale=_SHARP).argmax(-1)
