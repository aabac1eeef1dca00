"""Two-hop joins: every random input has one answer, and both constructions find it."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from separatrix.errors import ArgumentError
from separatrix.studies.learning.tasks import import_graph
from separatrix.studies.learning.tasks.join import ImportJoin, Join, by_one_head, by_two_hops

JOINS = [Join(2, 2, 1), Join(8, 8, 4), Join(32, 8, 4), ImportJoin(8, 16), ImportJoin(3, 7)]


def draw(join: Join, held_out: bool = False) -> tuple[list[list[tuple[int, int, int]]], Tensor, Tensor]:
    """The facts (head, relation, tail) of 40 inputs, their questions, and the tokens with their answers."""
    task = join.task
    batch = (task.held_out if held_out else task.training)(40, torch.Generator().manual_seed(0))
    E, R = join.entities, join.relations
    facts = [[(h - E, r - 2 * E, t) for h, r, t in rows[:-1]] for rows in batch.tokens.tolist()]
    asked = [(h - E, r - 2 * E, s - 2 * E - R) for h, r, s in batch.tokens[:, -1].tolist()]
    for rows, (h, r1, r2), answer in zip(facts, asked, batch.answers[:, 0].tolist(), strict=True):
        assert len({row[:2] for row in rows}) == len(rows) == join.facts
        assert all(0 <= a < E and 0 <= r < R and 0 <= b < E for a, r, b in rows)
        followed = {row[:2]: row[2] for row in rows}
        assert followed[followed[h, r1], r2] == answer
    return facts, batch.tokens, batch.answers


@pytest.mark.parametrize("join", JOINS, ids=str)
@pytest.mark.parametrize("held_out", [False, True])
def test_inputs_have_one_answer_that_both_constructions_find(join, held_out):
    _, tokens, answers = draw(join, held_out)
    assert tokens.shape == (40, join.task.n, 3)
    assert int(tokens.max()) < join.task.symbols
    assert torch.equal(by_one_head(join, tokens), answers)
    assert torch.equal(by_two_hops(join, tokens), answers)


def test_facts_are_in_random_order():
    facts, tokens, _ = draw(Join(8, 8, 4))
    E = 8
    places = [[row[0] for row in rows].index(int(last[0]) - E) for rows, last in zip(facts, tokens[:, -1], strict=True)]
    assert len(set(places)) > 3


def test_held_out_imports_are_of_other_modules():
    training, held_out = import_graph.import_facts(False), import_graph.import_facts(True)
    assert len(training) + len(held_out) == len(import_graph.import_edges())
    assert not set(training[:, 0].tolist()) & set(held_out[:, 0].tolist())


def test_modules_have_new_symbols_in_every_input():
    """In many inputs with facts of the same modules, a symbol represents several modules."""
    facts, _, _ = draw(ImportJoin(8, 16))
    assert len({rows[0][0] for rows in facts}) > 8


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"facts": 1}, "facts: expected an integer >= 2"),
        ({"facts": 9, "entities": 4, "relations": 2}, "facts: expected at most entities .* = 8"),
    ],
)
def test_refusals(options, message):
    with pytest.raises(ArgumentError, match=message):
        Join(**options)


def test_another_graph_is_refused():
    with pytest.raises(ArgumentError, match="graph: expected the SHA-256 of the import graph of this Python"):
        ImportJoin(8, 16, graph="0123")
