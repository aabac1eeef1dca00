"""Training the selection transformer: our step against a straightforward autograd loop of the same run.

The peer draws a fresh batch, a fresh encoding by rejection and the subset codes at every step, runs the transformer as
it is defined, differentiates it by autograd and lets `torch.optim.SGD` update it. Our step does the same, but
background threads generate the data and the gradient is a closed formula. A number of steps of ours and of the peer are
timed alternately. The last row is the paper's longest run, with its validations, against two minutes.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator

import torch

from benchmarks import Row
from benchmarks.timing import alternate
from separatrix.selection.settings import TrainingSettings, paper_settings
from separatrix.selection.training import train
from separatrix.selection.transformer import SelectionTransformer, selection_loss

STRETCH = 320
OF_AUTOGRAD = 0.25
"""The share of the autograd loop's time that a step may take."""
RUN_SECONDS = 120.0


def rows() -> Iterator[Row]:
    """A step at each batch size of the paper, then the whole run."""
    for batch in (256, 128):
        paper = paper_settings("stochastic", "sgd", "zero", batch=batch)
        bare = _endless(dataclasses.replace(paper, validation_T=(), validation_q=(), validate_every=STRETCH))
        records, peer = train(bare), Autograd(bare)
        best = alternate({"ours": lambda: next(records), "autograd": peer.stretch}, seconds=10)  # noqa: B023
        records.close()
        ours, theirs = best["ours"] / STRETCH, best["autograd"] / STRETCH
        yield Row(f"a training step, batch {batch}", ours, "an autograd loop", theirs, at_most=OF_AUTOGRAD)
    records = train(settings := _endless(paper_settings("stochastic", "sgd", "zero")))
    best = alternate({"ours": lambda: next(records)}, seconds=10)
    records.close()
    whole = best["ours"] / settings.validate_every * 100_000
    note = "extrapolated from runs of 100 steps and one validation"
    yield Row("100,000 steps, batch 256", whole, "two minutes", RUN_SECONDS, at_most=1.0, note=note)


def _endless(settings: TrainingSettings) -> TrainingSettings:
    return dataclasses.replace(settings, steps=10**7, lr=((0, 1.0),))


class Autograd:
    """A straightforward training loop with autograd, for the same settings."""

    def __init__(self, settings: TrainingSettings) -> None:
        self.settings = settings
        self.source = torch.Generator().manual_seed(settings.seed)
        self.model = SelectionTransformer(settings.d, settings.width)
        self.optimiser = torch.optim.SGD(self.model.parameters(), lr=1.0)

    def stretch(self) -> None:
        for _ in range(STRETCH):
            self.step()

    def step(self) -> None:
        """X and E are multiplied by W and V separately, so that the peer need not copy E for every example."""
        s, W, V = self.settings, self.model.W, self.model.V
        X = torch.randn(s.batch, s.T, s.d, generator=self.source)
        y = torch.rand(s.batch, s.T, generator=self.source).topk(s.q).indices
        E = self.encoding()
        target = X.gather(1, y.unsqueeze(2).expand(-1, -1, s.d)).mean(1)
        E_y = E[y]
        g = torch.linalg.solve(E_y @ E_y.mT, torch.ones(s.batch, s.q, 1))
        U = (E_y.mT @ g).squeeze(2) @ W[:, s.d :].mT
        S = torch.softmax((X @ U[:, : s.d].unsqueeze(2)).squeeze(2) + U[:, s.d :] @ E.mT, 1)
        output = (S.unsqueeze(1) @ X).squeeze(1) @ V[:, : s.d].mT + S @ E @ V[:, s.d :].mT
        self.optimiser.zero_grad()
        selection_loss(output, target).backward()
        self.optimiser.step()

    def encoding(self) -> torch.Tensor:
        s = self.settings
        while True:
            signs = torch.randint(0, 2, (s.T, s.width), generator=self.source).float() * 2 - 1
            E = signs / math.sqrt(s.width)
            if float((E @ E.mT - torch.eye(s.T)).abs().max()) <= s.threshold:
                return E
