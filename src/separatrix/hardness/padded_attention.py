"""The attention of Lemma B.1 (Alman and Song): inner products as scores, and blanks to compare them with.

From a, b, c in {0, 1}^d, with beta > 0 and a padding of w ones (the lemma has w = d),

    Q = beta^(1/3) [a, 1_w],    K_1 = beta^(1/3) [[b, 0_w], [0_d, 1_w]],    K_2 = beta^(1/3) [[c, 0_w], [0_d, 1_w]],

so that at the scale 1/(d + w) the score of a_i, b_j, c_k is y <a_i, b_j, c_k> with y = beta / (d + w), that of two
blanks is w y, and that of a blank and another is 0. V is the column-wise Kronecker product of two columns that are 1 on
the vectors and 0 on the blanks: the output u_i is the weight on the triples,

    u_i = S_i / (S_i + n_b m_c + m_b n_c + m_b m_c exp(w y)),    S_i = sum_jk exp(y <a_i, b_j, c_k>),

with m_b and m_c blanks (the lemma has m_b = n_b, m_c = n_c). The lemma also adds n rows to Q, to make it square; they
are left out, because the rows of attention do not see each other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from separatrix.attention.operator import tensor_attention
from separatrix.checks import positive, whole
from separatrix.hardness.maxip import GapMaxIP


@dataclass(frozen=True)
class PaddedAttention:
    """The five matrices in float64, with the number of vectors in each key set; `values` are columns of 0 and 1."""

    query: Tensor
    keys: tuple[Tensor, Tensor]
    values: tuple[Tensor, Tensor]
    vectors: tuple[int, int]
    beta: float
    pad: int

    @property
    def bound(self) -> float:
        """B, the largest magnitude of an entry of Q and the keys."""
        return math.cbrt(self.beta)

    @property
    def width(self) -> int:
        """d + w, the paper's d tilde."""
        return self.query.shape[1]

    def outputs(self) -> Tensor:
        """u, (n_a,): the column of the attention's output. It may underflow to 0 where w y is large."""
        return tensor_attention(self.query, self.keys, self.values)[:, 0]

    def log_outputs(self) -> Tensor:
        """ln u, (n_a,), as a difference of two log-sum-exps: over the triples of vectors, and over all."""
        n_b, n_c = self.vectors
        parts = [key[:n] for key, n in zip(self.keys, (n_b, n_c), strict=True)]
        of_vectors = tensor_attention(self.query, parts, [v[:n] for v, n in zip(self.values, (n_b, n_c), strict=True)],
                                      return_lse=True)[1]  # fmt: skip
        return of_vectors - tensor_attention(self.query, self.keys, self.values, return_lse=True)[1]


def pad_for_attention(
    instance: GapMaxIP, beta: float, *, pad: int | None = None, blanks: tuple[int, int] | None = None
) -> PaddedAttention:
    """The matrices; without `pad` and `blanks` they are the lemma's.

    >>> one = torch.eye(2)
    >>> made = pad_for_attention(GapMaxIP(one, one, one, 1, 0.5), beta=8.0)
    >>> made.bound, tuple(made.query.shape), tuple(made.keys[0].shape)
    (2.0, (2, 4), (4, 4))
    >>> [round(u, 4) for u in made.outputs().tolist()]  # (e^2 + 3) / (e^2 + 3 + 8 + 4 e^4)
    [0.0439, 0.0439]
    """
    beta = positive("beta", beta)
    d = instance.dimension
    w = d if pad is None else pad
    counts = (len(instance.b), len(instance.c)) if blanks is None else blanks
    for name, value in (("pad", w), ("blanks[0]", counts[0]), ("blanks[1]", counts[1])):
        whole(name, value, low=0)
    side = math.cbrt(beta)
    blank = torch.cat([torch.zeros(1, d), torch.ones(1, w)], 1).double()

    def keys(vectors: Tensor, blanks: int) -> Tensor:
        padded = torch.cat([vectors.double(), torch.zeros(len(vectors), w).double()], 1)
        return side * torch.cat([padded, blank.expand(blanks, -1)])

    def column(vectors: Tensor, blanks: int) -> Tensor:
        return torch.cat([torch.ones(len(vectors), 1), torch.zeros(blanks, 1)]).double()

    query = side * torch.cat([instance.a.double(), torch.ones(len(instance.a), w).double()], 1)
    sets = tuple(zip((instance.b, instance.c), counts, strict=True))
    (k1, k2), (v1, v2) = (tuple(make(*one) for one in sets) for make in (keys, column))
    return PaddedAttention(query, (k1, k2), (v1, v2), (len(instance.b), len(instance.c)), float(beta), w)


def log_threshold(instance: GapMaxIP, beta: float, pad: int, *, factor: float = 1.0) -> float:
    """ln of t tilde, the lemma's third of the least output of case 1: exp(factor y t) / (12 n_b n_c exp(w y)).

    Case 1 has u >= 3 t tilde, because the denominator is at most 4 n_b n_c exp(w y). The lemma decides by u >= 2 t
    tilde and allows an error of t tilde. Equation (8) prints exp(0.25 beta t / d), which is `factor` = 1/2.
    """
    y = beta / (instance.dimension + pad)
    return factor * y * instance.high - math.log(12 * instance.pairs) - pad * y
