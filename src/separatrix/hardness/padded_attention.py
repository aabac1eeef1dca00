"""The attention of Lemma B.1 (Alman and Song): scores are inner products, and blank keys provide a reference score.

From a, b, c in {0, 1}^d, with beta > 0 and a padding of w ones (the lemma has w = d),

    Q = beta^(1/3) [a, 1_w],    K_1 = beta^(1/3) [[b, 0_w], [0_d, 1_w]],    K_2 = beta^(1/3) [[c, 0_w], [0_d, 1_w]],

so that at the scale 1/(d + w) the score of a_i, b_j, c_k is y <a_i, b_j, c_k> with y = beta / (d + w), the score of two
blanks is w y, and the score of a blank and another key is 0. V is the column-wise Kronecker product of two columns that
are 1 on the vectors and 0 on the blanks: the output u_i is the weight on the triples,

    u_i = S_i / (S_i + n_b m_c + m_b n_c + m_b m_c exp(w y)),    S_i = sum_jk exp(y <a_i, b_j, c_k>),

with m_b and m_c blanks (the lemma has m_b = n_b, m_c = n_c). The lemma also adds n rows to Q, so that Q and the keys
have the same number of rows; they are omitted here, because each row of attention depends only on its own query.
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
    """The arguments of the call of attention, in float64.

    Attributes:
        query: Q.
        keys: K_1 and K_2.
        values: two columns that are 1 on the vectors and 0 on the blanks.
        vectors: the number of vectors, without the blanks, in each key set.
        beta: beta.
        pad: the number w of ones of the padding.
    """

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
        """The width d + w of the query and the keys, the paper's d tilde."""
        return self.query.shape[1]

    def outputs(self) -> Tensor:
        """The outputs u of attention, (n_a,). They may underflow to 0 if w y is large."""
        return tensor_attention(self.query, self.keys, self.values)[:, 0]

    def log_outputs(self) -> Tensor:
        """The logarithms ln u, (n_a,), as the log-sum-exp over pairs of vectors minus that over all pairs of keys."""
        n_b, n_c = self.vectors
        parts = [key[:n] for key, n in zip(self.keys, (n_b, n_c), strict=True)]
        of_vectors = tensor_attention(self.query, parts, [v[:n] for v, n in zip(self.values, (n_b, n_c), strict=True)],
                                      return_lse=True)[1]  # fmt: skip
        return of_vectors - tensor_attention(self.query, self.keys, self.values, return_lse=True)[1]


def pad_for_attention(
    instance: GapMaxIP, beta: float, *, pad: int | None = None, blanks: tuple[int, int] | None = None
) -> PaddedAttention:
    """The matrices of Lemma B.1 for an instance of Gap-MaxIP.

    Args:
        instance: the instance.
        beta: beta, which makes the entry bound beta^(1/3).
        pad: the number w of ones of the padding; None takes the lemma's d.
        blanks: the number of blanks in each key set; None takes the lemma's n_b and n_c.

    Example:
        >>> vectors = torch.eye(2)
        >>> padded = pad_for_attention(GapMaxIP(vectors, vectors, vectors, 1, 0.5), beta=8.0)
        >>> padded.bound, tuple(padded.query.shape), tuple(padded.keys[0].shape)
        (2.0, (2, 4), (4, 4))
        >>> [round(u, 4) for u in padded.outputs().tolist()]  # (e^2 + 3) / (e^2 + 3 + 8 + 4 e^4)
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
    (k1, k2), (v1, v2) = (tuple(make(*arguments) for arguments in sets) for make in (keys, column))
    return PaddedAttention(query, (k1, k2), (v1, v2), (len(instance.b), len(instance.c)), float(beta), w)


def log_threshold(instance: GapMaxIP, beta: float, pad: int, *, factor: float = 1.0) -> float:
    """The logarithm of the lemma's t tilde = exp(factor y t) / (12 n_b n_c exp(w y)).

    With `factor` = 1 case 1 has u >= 3 t tilde, because the denominator of u is at most 4 n_b n_c exp(w y). The lemma
    decides by u >= 2 t tilde and allows an error of t tilde. Equation (8) prints exp(0.25 beta t / d), which is
    `factor` = 1/2.

    Args:
        instance: the instance.
        beta: beta.
        pad: the number w of ones of the padding.
        factor: see above.
    """
    y = beta / (instance.dimension + pad)
    return factor * y * instance.high - math.log(12 * instance.pairs) - pad * y
