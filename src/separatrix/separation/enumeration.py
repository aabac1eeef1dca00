r"""Self-attention with any matrix Q K^T: which of the 2^d sign vectors fire, decided exactly, for d <= 20.

A general matrix may distinguish all classes, so that the number of signs +1 does not determine whether a sign vector
fires. But the n rows still have at most d - 1 different values v_j (j3, and one of each class), so, with multiplicities
mu_j, row j0 fires on y exactly when

    sum_j mu_j w_j (<v_j, y> - tau) > 0,    w_j = n^{v_{j0}^T QK^T v_j},  or v_{j0}^T QK^T v_j itself for `lin`,

(v_j and tau in units of sqrt(log n)), which `averages` decides.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from separatrix.errors import ArgumentError, SeparatrixError
from separatrix.separation.averages import Average, Masks, Weighted, average, sign_vectors
from separatrix.separation.averages import fires as any_fires
from separatrix.separation.forms import ONE, Exponential
from separatrix.separation.mixture import Mixture, Share

LARGEST_D = 20
"""The largest width whose 2^d sign vectors are enumerated."""
_BATCH = 1 << 14

Matrix = tuple[tuple[Fraction, ...], ...]


def enumerated_mixture(
    n: int, d: int, a0: Fraction, a1: Fraction, b: Fraction, c: Fraction, tau: Fraction, logs: int, weights: Matrix
) -> Mixture:
    """The shares of the sign vectors by case, for any matrix Q K^T.

    `mixture.attention_mixture` returns the same for the identity and the all-ones matrix.

    Args:
        n: the number of tokens.
        d: the width of a token, at most 20.
        a0: the first coordinate of the special token in D0, in units of sqrt(log n).
        a1: the first coordinate of the special token in D1, in the same unit.
        b: the factor of the stacked identities, in the same unit.
        c: the factor of the ones, in the same unit.
        tau: the threshold, in the same unit if `logs` is 0, absolute if it is 1.
        logs: 0 or 1, see `tau`.
        weights: Q K^T, of shape (d, d).
    """
    if d > LARGEST_D:
        expected = f"at most {LARGEST_D} for weights neither identity nor ones, or for negative parameters"
        raise ArgumentError("d", expected=expected, got=d)
    g = d - 2
    t, larger = divmod(n, g)
    sizes = [t + (k < larger) for k in range(g)]
    classes = [k for k in range(g) if sizes[k]]
    case = {k: Fraction(sizes[k], n) for k in classes}
    networks = {
        # Linear attention comes first, because it raises an error if all scores are zero.
        (which, k): [
            _averages(n, sizes, k, a, b, c, (tau, 1 - logs), weights, linear=linear) for linear in (True, False)
        ]
        for which, a in ((1, a1), (0, a0))
        for k in classes
    }
    fires: dict[tuple[int, int], list[Masks]] = {
        key: [np.empty(1 << d, dtype=bool) for _ in (0, 1)] for key in networks
    }
    for start in range(0, 1 << d, _BATCH):
        vectors = slice(start, min(start + _BATCH, 1 << d))
        Y = sign_vectors(d, vectors)
        for key, pair in networks.items():
            for mask, rows in zip(fires[key], pair, strict=True):
                mask[vectors] = any_fires(rows, Y)

    def share(mask: Masks) -> Share:
        return int(np.count_nonzero(mask)), 1 << d

    joint = []
    for k1 in classes:
        for k0 in classes:
            lin1, good = fires[1, k1]
            bad = lin1 | fires[0, k0][0] | fires[0, k0][1]
            joint.append((case[k1] * case[k0], share(bad), share(good & ~bad)))
    d1, d0 = (
        tuple((case[k], share(fires[which, k][1]), share(fires[which, k][0])) for k in classes) for which in (1, 0)
    )
    return Mixture(tuple(joint), d1, d0)


def _averages(
    n: int,
    sizes: list[int],
    k: int,
    a: Fraction,
    b: Fraction,
    c: Fraction,
    tau: tuple[Fraction, int],
    weights: Matrix,
    *,
    linear: bool,
) -> list[Average]:
    """The average and the threshold of each different row of an element with j3 in class k."""
    g = len(sizes)
    # The rows, grouped by their nonzero coordinates.
    rows = [{0: a, 1 + k: b, g + 1: c}, *({1 + j: b, g + 1: c} for j in range(g))]
    multiplicity = [1, *sizes]
    multiplicity[1 + k] -= 1
    present = [j for j in range(g + 1) if multiplicity[j]]
    values = {j: [rows[j].get(i, Fraction(0)) for i in range(g + 2)] for j in present}
    averages = []
    for j0 in present:
        scores = {
            j: sum((x * weights[i][i1] * y for i, x in rows[j0].items() for i1, y in rows[j].items()), Fraction(0))
            for j in present
        }
        # If the sum of the weights is negative, all weights change their signs, because `averages` assumes a positive
        # sum.
        turned = -1 if linear and sum(multiplicity[j] * scores[j] for j in present) < 0 else 1
        forms = {j: (0, ONE) if linear else (0, Exponential(scores[j])) for j in present}
        weighted = [
            Weighted({forms[j]: turned * scores[j] if linear else Fraction(1)}, values[j], 1, multiplicity[j])
            for j in present
        ]
        row = average(n, g + 2, weighted, tau)
        if row is None:
            raise SeparatrixError(
                "The scores of linear attention sum to zero at these parameters, so it is not defined."
            )
        averages.append(row)
    return averages
