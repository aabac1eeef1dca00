"""The oracles: n x n attention, every sign vector, every pair of special indices, one trial at a time.

This module does not use classes, counts or multiplicities. Enumeration is in float64, and with 80 digits where float64
cannot compare a sum with tau.
"""

from __future__ import annotations

import itertools
import math

import mpmath
import torch
from torch import Tensor

from separatrix.separation import CrossAttention, Probabilities, SelfAttention
from separatrix.separation.datasets import AttentionInput, RegressionInput

DIGITS = 80
Setting = SelfAttention | CrossAttention


def attention(data: AttentionInput, weights: Tensor, mechanism: str) -> Tensor:
    """The matrix c_exp or c_lin, (n, d)."""
    scores = data.A1 @ weights @ data.A2.T
    u = torch.exp(scores) if mechanism == "exp" else scores
    return (u / u.sum(1, keepdim=True)) @ data.A3


def regression(data: RegressionInput, mechanism: str) -> Tensor:
    """The vector f_exp or f_lin, (n,)."""
    u = torch.exp(data.A @ data.x) if mechanism == "exp" else data.A @ data.x
    return u / u.sum()


def network(projections: Tensor, tau: float) -> float:
    """phi(sum phi_tau(.)) of Definitions 3.5, 3.6, C.2, C.6."""
    return max(0.0, float(sum(max(0.0, float(z) - tau) for z in projections.flatten())))


def element(setting: Setting, which: int, j3: int, j2: int) -> AttentionInput:
    return setting.element(which, j3) if isinstance(setting, SelfAttention) else setting.element(which, j3, j2)


def sign_vectors(d: int) -> Tensor:
    """(d, 2^d)."""
    return torch.tensor(list(itertools.product((1.0, -1.0), repeat=d)), dtype=torch.float64).T


def precise_attention(setting: Setting, which: int, j3: int, j2: int, mechanism: str) -> list[list[mpmath.mpf]]:
    """The result of `attention`, computed from the decimals with 80 digits."""
    v = {name: mpmath.mpf(x.numerator) / x.denominator for name, x in setting.values().items()}
    n, d, a = setting.n, setting.d, v[f"a{which}"]
    log_n = mpmath.log(n)
    zero = mpmath.mpf(0)
    if isinstance(setting, SelfAttention):
        root = mpmath.sqrt(log_n)
        A1 = A2 = [
            [root * x for x in (a * (j == j3), *(v["b"] * (j % (d - 2) == k) for k in range(d - 2)), v["c"])]
            for j in range(n)
        ]
    else:
        A1 = [[log_n * x for x in (a * (j == j2), *[1] * (d - 1))] for j in range(n)]
        A2 = [[mpmath.mpf(x) for x in (j == j3, *(j % (d - 1) == k for k in range(d - 1)))] for j in range(n)]
    W = setting.weight_matrix().tolist()
    out = []
    for query in A1:
        key = [sum((query[i] * W[i][k] for i in range(d) if query[i] and W[i][k]), zero) for k in range(d)]
        scores = [sum((q * x for q, x in zip(key, row, strict=True) if x), zero) for row in A2]
        u = [mpmath.exp(s) for s in scores] if mechanism == "exp" else scores
        total = sum(u, zero)
        out.append([sum((f * row[i] for f, row in zip(u, A2, strict=True) if row[i]), zero) / total for i in range(d)])
    return out


def precise_tau(setting: Setting) -> mpmath.mpf:
    v = setting.values()
    if "tau" in v:
        return mpmath.mpf(v["tau"].numerator) / v["tau"].denominator
    c = v["c"]
    return (mpmath.mpf(c.numerator) / c.denominator + mpmath.mpf(1) / 10) * mpmath.sqrt(mpmath.log(setting.n))


def fires(setting: Setting, which: int, j3: int, j2: int, mechanism: str, Y: Tensor) -> Tensor:
    """For each sign vector, whether some row of c exceeds tau; equality does not count."""
    data = element(setting, which, j3, j2)
    z = attention(data, setting.weight_matrix(), mechanism) @ Y - setting.threshold
    above = z > 0
    near = (z.abs() < 1e-9).nonzero().tolist()
    if near:
        with mpmath.workdps(DIGITS):
            c, tau = precise_attention(setting, which, j3, j2, mechanism), precise_tau(setting)
            known: dict[tuple[int, ...], bool] = {}
            for j0, column in near:
                signs = tuple(int(y) for y in Y[:, column])
                if (j0, *signs) not in known:
                    difference = sum(s * x for s, x in zip(signs, c[j0], strict=True)) - tau
                    known[(j0, *signs)] = bool(difference > mpmath.mpf(10) ** (20 - DIGITS))
                above[j0, column] = known[(j0, *signs)]
    return above.any(0)


def enumerate_probabilities(setting: Setting, *, shared_signs: bool = True) -> Probabilities:
    """All sign vectors and all pairs of special indices; the m vectors are independent given the indices."""
    n, m = setting.n, setting.m
    Y = sign_vectors(setting.d)
    table = {
        (mechanism, which, j): fires(setting, which, j, (j + 1) % n, mechanism, Y)
        for mechanism in ("exp", "lin")
        for which in (0, 1)
        for j in range(n)
    }

    def p(mask: Tensor) -> float:
        return mask.sum().item() / Y.shape[1]

    def mean(values: list[float]) -> float:
        return math.fsum(values) / len(values)

    exp1 = [1 - (1 - p(table["exp", 1, j])) ** m for j in range(n)]
    lin1 = [(1 - p(table["lin", 1, j])) ** m for j in range(n)]
    exp0 = [(1 - p(table["exp", 0, j])) ** m for j in range(n)]
    lin0 = [(1 - p(table["lin", 0, j])) ** m for j in range(n)]
    if shared_signs:
        success = []
        for j1, j0 in itertools.product(range(n), repeat=2):
            bad = table["lin", 1, j1] | table["exp", 0, j0] | table["lin", 0, j0]
            success.append((1 - p(bad)) ** m - (1 - p(bad | table["exp", 1, j1])) ** m)
    else:
        success = [exp1[i] * lin1[i] * exp0[j] * lin0[j] for i, j in itertools.product(range(n), repeat=2)]
    return Probabilities(mean(exp1), mean(lin1), mean(exp0), mean(lin0), mean(success))
