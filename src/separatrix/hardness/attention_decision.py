"""Gap-MaxIP decided by one call of order-3 attention (Alman and Song, Lemma B.1, with other constants).

`padded_attention` defines the matrices. Here each key set has one blank, and the padding is w = h ones, with h the
smallest integer of case 1 and l the largest of case 2. With y = ln(16 P) / (h - l), P = n_b n_c, and tau = exp(h y),

    case 1:  S >= tau,                         u >= 1 / (2 + (n_b + n_c) / tau)  >= 0.47,
    case 2:  S <= P exp(l y) = tau / 16,       u <= 1 / (17 + 16 (n_b + n_c) / tau)  < 0.06,

because tau >= 16 P. The rule is S >= tau / 4, that is, u >= 1 / (5 + 4 (n_b + n_c) / tau). With the lemma's n blanks
and padding of d, outputs are of order exp(-beta / 2) / n^2 instead, which underflows in float64 if the gap is 1/m.
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
"""The largest number of multiplications of a call, n_a (n_b + 1) (n_c + 1) (d + h): about half a minute."""
LARGEST_SET = 2**26
"""The largest number of entries of the query or a key set: half a gigabyte."""


@dataclass(frozen=True)
class AttentionSizes:
    """The sizes of one call of attention.

    Attributes:
        queries: the number of queries.
        keys: the number of keys in each key set, blanks included.
        width: the width d + h.
        beta: beta.
        bound: the entry bound B = beta^(1/3).
        work: the number of multiplications.
    """

    queries: int
    keys: tuple[int, int]
    width: int
    beta: float
    bound: float
    work: int

    @property
    def largest_set(self) -> int:
        """The number of entries of the largest of the query and the key sets."""
        return max(self.queries, *self.keys) * self.width

    @property
    def fits(self) -> bool:
        """Whether the call is small enough to be computed."""
        return self.work <= LARGEST_WORK and self.largest_set <= LARGEST_SET


def attention_sizes(queries: int, vectors: tuple[int, int], dimension: int, low: int, high: int) -> AttentionSizes:
    """The sizes of the call of attention that decides an instance of Gap-MaxIP.

    Args:
        queries: n_a.
        vectors: (n_b, n_c).
        dimension: d.
        low: l, the largest integer of case 2.
        high: h, the least integer of case 1.

    Example:
        >>> attention_sizes(4, (4, 4), dimension=6, low=1, high=2).width
        8
    """
    (n_b, n_c), width = vectors, dimension + high
    beta = width * math.log(16 * n_b * n_c) / (high - low)
    work = queries * (n_b + 1) * (n_c + 1) * width
    return AttentionSizes(queries, (n_b + 1, n_c + 1), width, beta, math.cbrt(beta), work)


def gap_maxip_by_attention(a: Tensor, b: Tensor, c: Tensor, threshold: float, epsilon: float) -> Tensor:
    """Decide Gap-MaxIP (Definition 4.6) by one call of order-3 attention.

    Args:
        a: zeros and ones of any dtype, of shape (n_a, d).
        b: zeros and ones of any dtype, of shape (n_b, d).
        c: zeros and ones of any dtype, of shape (n_c, d).
        threshold: t, above 0 and at most d.
        epsilon: eps, above 0 and at most 1.

    Returns:
        A bool tensor of shape (n_a,). Entry i is True if some <a_i, b_j, c_k> is at least t, False if all are at
        most (1 - eps) t, and may be either in between.

    Raises:
        ArgumentError: if the instance is too large, or float64 cannot resolve the gap.

    Example:
        >>> b = torch.tensor([[1, 1, 0, 0], [0, 1, 1, 1]])
        >>> a = torch.tensor([[1, 1, 1, 1], [1, 0, 0, 0]])
        >>> gap_maxip_by_attention(a, b, b, threshold=3, epsilon=1 / 3).tolist()
        [True, False]
    """
    return decide(GapMaxIP(a, b, c, threshold, epsilon))


def decide(instance: GapMaxIP) -> Tensor:
    """Decide an instance of Gap-MaxIP as `gap_maxip_by_attention` does."""
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
    """A triple (i, j, k) with <a_i, b_j, c_k> >= t, or None if there is none, by three calls of attention.

    The first call finds i. The second decides the instance with the vectors a_i * b_j (entrywise) in place of a, which
    finds j; the third uses a_i * b_j * c_k, which finds k. If an inner product lies in the gap between (1 - eps) t and
    t, the result may be a triple in the gap, or an error may be raised.

    Raises:
        SeparatrixError: if inner products are in the gap, so that no triple can be found.

    Example:
        >>> vectors = torch.tensor([[1, 1, 0], [0, 1, 1], [1, 1, 1]])
        >>> triple_by_attention(GapMaxIP(vectors, vectors, vectors, 3, 1 / 3))
        (2, 2, 2)
    """
    i = _first(decide(instance))
    if i is None:
        return None
    ones = torch.ones(1, instance.dimension, dtype=instance.a.dtype)
    chosen = instance.a[i].to(instance.b.dtype) * instance.b
    j = _first(decide(GapMaxIP(chosen, ones, instance.c, instance.threshold, instance.epsilon)))
    if j is None:
        raise _unkept(f"row {i} of a")
    last = chosen[j].to(instance.c.dtype) * instance.c
    k = _first(decide(GapMaxIP(last, ones, ones, instance.threshold, instance.epsilon)))
    if k is None:
        raise _unkept(f"row {i} of a with row {j} of b")
    return i, j, k


def _first(mask: Tensor) -> int | None:
    rows = mask.nonzero()
    return int(rows[0]) if len(rows) else None


def _unkept(where: str) -> SeparatrixError:
    return SeparatrixError(
        f"{where}: its inner products lie between (1 - epsilon) t and t, where Gap-MaxIP may answer anything, so no "
        "triple can be found. This breaks the promise of Definition 4.6."
    )
