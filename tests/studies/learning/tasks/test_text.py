"""The text: its contents, its windows, and the loss of a table of counts."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from pydoc_data.topics import topics

import pytest
import torch

from separatrix.errors import ArgumentError
from separatrix.studies.learning.tasks.text import alphabet, corpus, digest, entropy, text_task


def test_the_text_is_the_reference_that_this_python_brings_along() -> None:
    assert digest() == hashlib.sha256(corpus().encode()).hexdigest()
    for name in ("assert", "with", "yield"):
        assert all(part in corpus() for part in topics[name].strip("\n").split("\n\n"))
    assert 300_000 < len(corpus()) < sum(map(len, topics.values()))


def test_no_paragraph_is_read_twice() -> None:
    counted = Counter(corpus().split("\n\n"))
    assert set(counted.values()) == {1}
    assert set(counted) == {part.strip("\n") for topic in topics.values() for part in topic.split("\n\n")} - {""}


def test_another_text_is_refused() -> None:
    assert text_task(5, text=digest()).n == 5
    with pytest.raises(ArgumentError, match=r"text: expected the SHA-256 of this Python's text, .*, got '0123'"):
        text_task(5, text="0123")


def test_a_python_without_the_text_says_so(forked) -> None:
    done = forked(
        "import sys; sys.modules['pydoc_data.topics'] = None\nfrom separatrix.studies.learning.tasks.text import "
        "corpus\ntry: corpus()\nexcept ValueError as error: print(type(error).__name__, error)\n"
    )
    assert done.stdout == (
        "SeparatrixError the text is the standard library's pydoc_data.topics, and this Python was installed "
        "without it\n"
    )


def test_windows_are_pieces_of_their_part() -> None:
    cut = len(corpus()) - len(corpus()) // 10
    task = text_task(24)
    for draw, part in ((task.training, corpus()[:cut]), (task.held_out, corpus()[cut:])):
        batch = draw(20, torch.Generator().manual_seed(0))
        for tokens, answers in zip(batch.tokens, batch.answers, strict=True):
            window = "".join(alphabet()[symbol] for symbol in [*tokens[:, 0].tolist(), int(answers[-1])])
            assert window in part
            assert tokens[:, 1].tolist() == list(range(len(alphabet()), len(alphabet()) + 24))


def test_the_last_window_can_be_drawn() -> None:
    """All starting positions in the shortest text with one window: none is beyond the end."""
    held_out = len(corpus()) // 10
    batch = text_task(held_out - 1).held_out(3, torch.Generator().manual_seed(0))
    assert batch.tokens.shape == (3, held_out - 1, 2)
    assert len(set(map(tuple, batch.answers.tolist()))) == 1


@pytest.mark.parametrize("context", [0, 1, 2])
def test_the_loss_of_a_table_by_its_definition(context: int) -> None:
    cut = len(corpus()) - len(corpus()) // 10
    training, held_out = corpus()[:cut], corpus()[cut:]
    followed = Counter(training[i - context : i + 1] for i in range(context, len(training)))
    before = Counter(training[i - context : i] for i in range(context, len(training)))
    C = len(alphabet())
    losses = [
        -math.log((followed[held_out[i - context : i + 1]] + 0.5) / (before[held_out[i - context : i]] + C / 2))
        for i in range(context, len(held_out))
    ]
    assert entropy(context) == pytest.approx(math.fsum(losses) / len(losses), rel=1e-12)


@pytest.mark.parametrize("n", [0, 10**6, 2.0, True])
def test_bad_lengths(n: int) -> None:
    with pytest.raises(ArgumentError, match="n: expected an integer from 1 to"):
        text_task(n)
