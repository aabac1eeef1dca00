r"""Separation at the best threshold tau, with a margin.

The paper's tau suits softmax attention; a mechanism that fails there may only need another tau. Let M_1(y) and M_0(y)
be the largest <c, y> over the queries of an element of D1 and of an element of D0. At any tau, a network with margin
gamma distinguishes the elements when, among y_1, ..., y_m,

    every M_0(y_l) <= tau - gamma    and    some M_1(y_l) >= tau + gamma,

which has probability (1 - P[M_0 > u])^m - (1 - P[M_0 > u or M_1 >= u + 2 gamma])^m with u = tau - gamma, P over one
sign vector, averaged over the classes of the special keys. Lowering u to the next smaller value of M_0 does not change
the first condition and can only help the second, so the best u is a value of M_0. The values are in float64; gamma must
be large compared with their rounding errors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from separatrix.errors import ArgumentError
from separatrix.separation.mechanisms import Mechanism
from separatrix.separation.sign_vectors import projected_by_class
from separatrix.separation.tokens import AttentionSetting, class_sizes

_LEAST_MARGIN = 1e-9


@dataclass(frozen=True)
class Tuned:
    """The best tau for a margin.

    Attributes:
        margin: the margin gamma, in units of the setting's own tau.
        tau: the best tau, in the same unit; None if the mechanism separates at no tau.
        separates: the probability that the mechanism separates at that tau.
    """

    margin: float
    tau: float | None
    separates: float


def tuned_separation(setting: AttentionSetting, mechanism: Mechanism, margins: Sequence[float]) -> tuple[Tuned, ...]:
    """The largest probability, over all tau, that the mechanism separates with each margin.

    Args:
        setting: the setting, of width d at most 16.
        mechanism: the mechanism.
        margins: the margins, in units of the setting's own tau, each at least 1e-9.

    Example:
        >>> from separatrix.separation.cross_attention import CrossAttention
        >>> from separatrix.separation.mechanisms import linear, softmax
        >>> setting = CrossAttention(n=200, d=11, m=9, a0=0.01, a1=3)
        >>> for mechanism in (softmax(), linear("identity")):
        ...     [round(separation.separates, 3) for separation in tuned_separation(setting, mechanism, (0.001, 0.1))]
        [0.925, 0.925]
        [0.198, 0.0]
    """
    for margin in margins:
        if not margin >= _LEAST_MARGIN:
            raise ArgumentError("margins", expected=f"each at least {_LEAST_MARGIN:g} of tau", got=margin)
    on_d1, on_d0 = (projected_by_class(setting, mechanism, which) for which in (1, 0))
    case = {k: size / setting.n for k, size in enumerate(class_sizes(setting))}
    values = np.unique(np.concatenate(list(on_d0.values())))
    separations = []
    for margin in margins:
        gamma, m = margin * setting.threshold, setting.m
        # Values that differ only by rounding count as equal, so u exceeds them by a small part of the margin.
        clear = gamma / 1000
        u = values[np.append(np.diff(values) > clear, True)] + clear
        separates = np.zeros(len(u))
        for k0, M0 in on_d0.items():
            silent = np.searchsorted(np.sort(M0), u, side="right") / M0.size
            for k1, M1 in on_d1.items():
                quiet = np.sort(np.maximum(M0, M1 - 2 * gamma))
                neither = np.searchsorted(quiet, u, side="left") / M0.size
                separates += case[k1] * case[k0] * (silent**m - neither**m)
        best = int(separates.argmax())
        tau = float((u[best] + gamma) / setting.threshold) if separates[best] > 0 else None
        separations.append(Tuned(margin, tau, float(separates[best])))
    return tuple(separations)
