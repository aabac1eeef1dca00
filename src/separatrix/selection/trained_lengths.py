"""Losses of a transformer that was trained with stochastic encodings: at other lengths, and with one encoding fixed.

This concerns Corollary E.9 and Appendix E.6 of Wang, Wei, Hsu and Lee. `separatrix.selection.validation` measures
during a run, on few points; here the losses are measured once, at the end, on enough points and encodings for a
standard error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from separatrix.checks import whole
from separatrix.errors import ArgumentError, SeparatrixError
from separatrix.selection.encodings import near_orthogonal_encoding, subset_weights
from separatrix.selection.gradient import Inputs, batch_loss
from separatrix.selection.settings import TrainingSettings
from separatrix.selection.stream import derived_generator
from separatrix.selection.task import SparseTokenSelection
from separatrix.selection.training import train

_MEASURED = 6
"""The purpose of the generator of this module, see `derived_generator`; those of a run are 0 to 5."""

ENCODINGS, POINTS = 6, 128
"""The number of new encodings to estimate the loss at a length, and the number of data points for each encoding."""

FIXED_PARTS = 16
"""The number of batches of `POINTS` points for the loss with a fixed encoding."""


@dataclass(frozen=True)
class TrainedLengths:
    """Losses of a trained transformer.

    Attributes:
        losses: by length, the mean loss over new encodings.
        errors: by length, the standard error of this mean.
        fixed: the losses at the trained length with each of several fixed encodings.
        fixed_errors: the standard errors of the losses in `fixed`.
        cosine_W: the cosine of W and W* at the end of training.
        cosine_V: the cosine of V and V* at the end of training.
    """

    losses: dict[int, float]
    errors: dict[int, float]
    fixed: tuple[float, ...]
    fixed_errors: tuple[float, ...]
    cosine_W: float
    cosine_V: float


def trained_lengths(settings: TrainingSettings, lengths: Sequence[int], *, fixed: int) -> TrainedLengths:
    """Train a transformer, then measure its losses at several lengths and with several fixed encodings.

    Args:
        settings: the settings of the training; its last step must be one of the snapshots.
        lengths: the numbers of tokens at which to measure.
        fixed: the number of fixed encodings with which to measure at the trained length.

    Raises:
        SeparatrixError: if the training stopped early.

    Example:
        >>> run = TrainingSettings(T=8, q=2, d=2, width=16, threshold=0.8, batch=8, steps=50, validation_T=(),
        ...                        validation_q=(), validate_every=50, snapshots=(50,))
        >>> curves = trained_lengths(run, [8, 12], fixed=2)
        >>> list(curves.losses), len(curves.fixed)
        ([8, 12], 2)
    """
    if settings.steps not in settings.snapshots:
        raise ArgumentError("settings.snapshots", expected=f"the last step {settings.steps}", got=settings.snapshots)
    whole("fixed", fixed, low=0)
    *_, last = train(settings)
    if last.weights is None or last.cosine_W is None or last.cosine_V is None:
        raise SeparatrixError(f"trained_lengths: {last.stopped or 'the run ended where it began'}")
    source = derived_generator(settings.seed, _MEASURED)
    losses, errors = {}, {}
    for T in lengths:
        parts = [_part(last.weights, _encoding(T, settings, source), settings, source) for _ in range(ENCODINGS)]
        losses[T], errors[T] = _mean(parts)
    curves = []
    for _ in range(fixed):
        E = _encoding(settings.T, settings, source)
        curves.append(_mean([_part(last.weights, E, settings, source) for _ in range(FIXED_PARTS)]))
    means, spreads = zip(*curves, strict=True) if curves else ((), ())
    return TrainedLengths(losses, errors, means, spreads, last.cosine_W, last.cosine_V)


def _encoding(T: int, settings: TrainingSettings, source: torch.Generator) -> Tensor:
    return near_orthogonal_encoding(T, settings.width, threshold=settings.threshold, generator=source).E


def _part(weights: tuple[Tensor, Tensor], E: Tensor, settings: TrainingSettings, source: torch.Generator) -> float:
    X, y, _ = SparseTokenSelection(len(E), settings.q, settings.d).batch(POINTS, generator=source)
    return float(batch_loss(*weights, Inputs(X.mT.contiguous(), E, y, subset_weights(E, y))))


def _mean(parts: list[float]) -> tuple[float, float]:
    values = torch.tensor(parts, dtype=torch.float64)
    return float(values.mean()), float(values.std()) / len(parts) ** 0.5
