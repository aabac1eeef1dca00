"""Gap-MaxIP decided by one call of order-3 attention (Alman and Song, Lemma B.1, with other constants).

`padded_attention` has the matrices. Here one blank stands in each key set, and its padding is w = h ones, h the least
integer of case 1, l the largest of case 2. With y = ln(16 P) / (h - l), P = n_b n_c, and tau = exp(h y),

    case 1:  S >= tau,                         u >= 1 / (2 + (n_b + n_c) / tau)  >= 0.47,
    case 2:  S <= P exp(l y) = tau / 16,       u <= 1 / (17 + 16 (n_b + n_c) / tau)  < 0.06,

because tau >= 16 P. The rule is S >= tau / 4, that is u >= 1 / (5 + 4 (n_b + n_c) / tau). With the lemma's n blanks and
padding of d, outputs are of order exp(-beta / 2) / n^2 instead, which float64 cannot hold when the gap is 1/m.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from separatrix.errors import ArgumentError, SeparatrixError
from separatrix.hardness.maxip import GapMaxIP
from separatrix.hardness.orthogonal_vectors import Triple
from separatrix.hardness.padded_attention import pad_for_attention

LARGEST_WORK = 2**38
"""Multiplications of one call of attention, at most: n_a (n_b + 1) (n_c + 1) (d + h). They take about half a minute."""
LARGEST_SET = 2**26
"""Numbers in the query or a key set, at most: half a gigabyte."""


@dataclass(frozen=True)
class AttentionSizes:
    """One call: queries, the two key sets, the width d + h, beta, the entry bound B = beta^(1/3), multiplications."""

    queries: int
    keys: tuple[int, int]
    width: int
    beta: float
    bound: float
    work: int

    @property
    def largest_set(self) -> int:
        """Numbers in the largest of the query and the key sets."""
        return max(self.queries, *self.keys) * self.width

    @property
    def fits(self) -> bool:
        return self.work <= LARGEST_WORK and self.largest_set <= LARGEST_SET


def attention_sizes(queries: int, vectors: tuple[int, int], dimension: int, low: int, high: int) -> AttentionSizes:
    """The sizes of the call that decides such an instance.

    >>> attention_sizes(4, (4, 4), dimension=6, low=1, high=2).width
    8
    """
    (n_b, n_c), width = vectors, dimension + high
    beta = width * math.log(16 * n_b * n_c) / (high - low)
    work = queries * (n_b + 1) * (n_c + 1) * width
    return AttentionSizes(queries, (n_b + 1, n_c + 1), width, beta, math.cbrt(beta), work)


def gap_maxip_by_attention(a: Tensor, b: Tensor, c: Tensor, threshold: float, epsilon: float) -> Tensor:
    """For each row of a, whether some <a_i, b_j, c_k> reaches the threshold t: bool, (n_a,).

    True where one does; False where all are at most (1 - eps) t; either in between (Definition 4.6).

    a, b, c: (n_a, d), (n_b, d), (n_c, d), zeros and ones of any dtype.

    >>> b = torch.tensor([[1, 1, 0, 0], [0, 1, 1, 1]])
    >>> gap_maxip_by_attention(torch.tensor([[1, 1, 1, 1], [1, 0, 0, 0]]), b, b, threshold=3, epsilon=1 / 3).tolist()
    [True, False]
    """
    return decide(GapMaxIP(a, b, c, threshold, epsilon))


def decide(instance: GapMaxIP) -> Tensor:
    """The same of an instance."""
    vectors = (len(instance.b), len(instance.c))
    sizes = attention_sizes(len(instance.a), vectors, instance.dimension, instance.low, instance.high)
    if not sizes.fits:
        expected = f"at most {LARGEST_WORK} multiplications and {LARGEST_SET} numbers in a set"
        raise ArgumentError("a, b, c", expected=expected, got=f"{sizes.work} and {sizes.largest_set}")
    # A score, at most beta, is a sum of d + h products of rounded factors; the margins are factors of 4 of exp(score).
    rounding = 2.0**-53 * (sizes.width + 8) * sizes.beta
    if rounding > 0.5:
        raise ArgumentError("a", expected="a dimension at which float64 resolves the gap", got=instance.dimension)
    u = pad_for_attention(instance, sizes.beta, pad=instance.high, blanks=(1, 1)).outputs()
    blanks = sum(vectors) * math.exp(-sizes.beta / sizes.width * instance.high)
    return u >= 1 / (5 + 4 * blanks)


def triple_by_attention(instance: GapMaxIP) -> Triple | None:
    """(i, j, k) with <a_i, b_j, c_k> >= t, or None if no i has one: by three calls, one for each index.

    The second asks of every a_i * b_j, entrywise, with i known, the third of every a_i * b_j * c_k. An instance that
    keeps the promise of Definition 4.6 keeps it in all three.

    >>> one = torch.tensor([[1, 1, 0], [0, 1, 1], [1, 1, 1]])
    >>> triple_by_attention(GapMaxIP(one, one, one, 3, 1 / 3))
    (2, 2, 2)
    """
    i = _first(decide(instance))
    if i is None:
        return None
    one = torch.ones(1, instance.dimension, dtype=instance.a.dtype)
    chosen = instance.a[i].to(instance.b.dtype) * instance.b
    j = _first(decide(GapMaxIP(chosen, one, instance.c, instance.threshold, instance.epsilon)))
    if j is None:
        raise _unkept(f"row {i} of a")
    last = chosen[j].to(instance.c.dtype) * instance.c
    k = _first(decide(GapMaxIP(last, one, one, instance.threshold, instance.epsilon)))
    if k is None:
        raise _unkept(f"row {i} of a with row {j} of b")
    return i, j, k


def _first(found: Tensor) -> int | None:
    rows = found.nonzero()
    return int(rows[0]) if len(rows) else None


def _unkept(where: str) -> SeparatrixError:
    return SeparatrixError(
        f"{where}: its inner products lie between (1 - epsilon) t and t, where Gap-MaxIP may answer anything, so no "
        "triple can be found. This breaks the promise of Definition 4.6."
    )
