"""The text: what is shipped, windows of it, and the loss that a table of counts has."""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from pathlib import Path

import pytest
import torch

import separatrix.learning.text
from separatrix.errors import ArgumentError
from separatrix.learning.text import alphabet, corpus, entropy, text_task


def test_the_text_is_the_one_that_its_readme_describes() -> None:
    readme = (Path(separatrix.learning.text.__file__).parent / "data" / "README.md").read_text()
    (digest,) = re.findall(r"\b[0-9a-f]{64}\b", readme)
    assert hashlib.sha256(corpus().encode("ascii")).hexdigest() == digest
    assert f"{len(corpus()):,} bytes" in readme
    assert f"{corpus().count(chr(10)):,} verses" in readme


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
    """All starts of the shortest part that holds a window: none is beyond the end."""
    held = len(corpus()) // 10
    batch = text_task(held - 1).held_out(3, torch.Generator().manual_seed(0))
    assert batch.tokens.shape == (3, held - 1, 2)
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
