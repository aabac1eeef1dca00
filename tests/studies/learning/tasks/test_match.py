"""Planted triples as a task: the question is at the last token."""

from __future__ import annotations

import torch

from separatrix.hardness.matching import match_labels
from separatrix.studies.learning.tasks.match import match_task


def test_a_match_has_its_question_at_the_last_token() -> None:
    batch = match_task(6, 11).training(40, torch.Generator().manual_seed(0))
    x = batch.tokens[..., 0]
    assert torch.equal(match_labels(x, 11, 3)[:, -1].long(), batch.answers[:, 0])
    assert 0 < int(batch.answers.sum()) < 40
