r"""Attention mechanisms for the paper's networks, softmax and linear attention among them.

A mechanism gives each key (or pair of keys) a weight W and returns sum W v / sum W. With s = q . k at scale 1:

    name               W
    softmax(beta)      exp(beta s)                       beta = 1 is the paper's `exp`, 1 / beta the temperature
    linear(map)        phi(q) . phi(k)                   the maps of `linear_attention`; "identity" is `lin`
    random_features    phi(q) . phi(k), phi drawn        E W = exp(s)
    order3             exp(sum_l q_l k_l k'_l)           pairs of keys; values v, or v * v' entrywise

Each is implemented twice: `attend` is the library's own attention in floating point, for any tensors; `weigh` gives the
weights of the different tokens of the paper's data exactly, as a `Form`. A test compares the two.

All of the data and hence all scores are nonnegative. So relu(x) = x on them, and "relu" *is* "identity" here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from itertools import product
from typing import Literal

import torch
from torch import Tensor

from separatrix.attention.features import RandomPositive, random_positive
from separatrix.attention.linear import linear_attention
from separatrix.attention.operator import tensor_attention
from separatrix.checks import one_of, whole
from separatrix.errors import ArgumentError
from separatrix.separation.averages import Weighted
from separatrix.separation.decimals import Number, exact
from separatrix.separation.forms import ONE, Exponential, Factor, Form
from separatrix.separation.tokens import Token, Tokens

Attend = Callable[[Tensor, Tensor, Tensor], Tensor]
Kernel = Callable[[Token, Token, Tokens], Form]


@dataclass(frozen=True)
class Mechanism:
    """An attention mechanism.

    Attributes:
        name: what the mechanism is called in tables and errors.
        attend: `attend(query, key, value)` computes it on any tensors, in floating point.
        weigh: `weigh(query, tokens)` gives the exact weights of one query.
        symmetric: whether exchanging classes of the data leaves the results unchanged.
    """

    name: str
    attend: Attend
    weigh: Callable[[Token, Tokens], list[Weighted]]
    symmetric: bool = True


def softmax(beta: Number = 1) -> Mechanism:
    """Softmax attention with the weights exp(beta s), that is, at the temperature 1 / beta.

    >>> q, k = torch.tensor([[1.0]]), torch.tensor([[0.0], [1.0]])
    >>> softmax(2).name, softmax(2).attend(q, k, k).item() == torch.sigmoid(torch.tensor(2.0)).item()
    ('softmax, beta = 2', True)
    """
    scale = exact(beta, "beta")
    if scale <= 0:
        raise ArgumentError("beta", expected="positive", got=repr(beta))

    def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return tensor_attention(query, key, value, scale=float(scale))

    def kernel(q: Token, k: Token, units: Tokens) -> Form:
        return {(0, Exponential(scale * _dot(q, k), units.query_unit + units.key_unit)): Fraction(1)}

    name = "softmax" if scale == 1 else f"softmax, beta = {float(scale):g}"
    return Mechanism(name, attend, _over_keys(kernel))


def linear(feature_map: Literal["identity", "relu", "elu", "taylor2"]) -> Mechanism:
    """Linear attention with one of the library's feature maps; "identity" is the paper's `lin`."""
    kernels: dict[str, Kernel] = {"identity": _identity, "relu": _identity, "elu": _elu, "taylor2": _taylor2}
    one_of("feature_map", feature_map, kernels)

    def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return linear_attention(query, key, value, feature_map=feature_map)

    return Mechanism(f"linear, {feature_map}", attend, _over_keys(kernels[feature_map]))


def order3(values: Literal["once", "twice"] = "once") -> Mechanism:
    """Attention of order 3 with A_2 as both key sets.

    Args:
        values: with "once" the value sets are (A_3, 1), and the output is a weighted average of the rows of A_3, as in
            all the other mechanisms. With "twice" they are (A_3, A_3), and the output is a weighted average of
            entrywise products of rows; the paper's tau is not meant for such outputs.
    """
    one_of("values", values, ("once", "twice"))

    def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        second = value if values == "twice" else torch.ones_like(value)
        return tensor_attention(query, [key, key], [value, second], scale=1.0)

    def weigh(query: Token, tokens: Tokens) -> list[Weighted]:
        terms = []
        unit = tokens.query_unit + 2 * tokens.key_unit
        counted = list(zip(tokens.keys, tokens.multiplicity, strict=True))
        for (k1, count1), (k2, count2) in product(counted, counted):
            score = sum((q * x * y for q, x, y in zip(query, k1, k2, strict=True) if x and y), Fraction(0))
            value = tuple(x * y for x, y in zip(k1, k2, strict=True)) if values == "twice" else k1
            values_unit = tokens.key_unit * (2 if values == "twice" else 1)
            terms.append(Weighted({(0, Exponential(score, unit)): Fraction(1)}, value, values_unit, count1 * count2))
        return terms

    return Mechanism(f"order 3, values {values}", attend, weigh)


def random_features(num_features: int, seed: int) -> Mechanism:
    """Linear attention with `num_features` random positive features, drawn from `seed` at the width of the data."""
    whole("num_features", num_features, low=1)
    whole("seed", seed, low=0)

    @lru_cache(maxsize=8)
    def drawn(d: int) -> RandomPositive:
        return random_positive(d, num_features, torch.Generator().manual_seed(seed))

    def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return linear_attention(query, key, value, feature_map=drawn(query.shape[-1]))

    def kernel(q: Token, k: Token, units: Tokens) -> Form:
        return {(0, _Drawn(drawn(len(q)), q, k, units.query_unit, units.key_unit)): Fraction(1)}

    return Mechanism(f"random features, {num_features}", attend, _over_keys(kernel), symmetric=False)


def _over_keys(kernel: Kernel) -> Callable[[Token, Tokens], list[Weighted]]:
    def weigh(query: Token, tokens: Tokens) -> list[Weighted]:
        return [
            Weighted(kernel(query, key, tokens), key, tokens.key_unit, count)
            for key, count in zip(tokens.keys, tokens.multiplicity, strict=True)
        ]

    return weigh


def _dot(q: Token, k: Token) -> Fraction:
    return sum((x * y for x, y in zip(q, k, strict=True) if x and y), Fraction(0))


def _sum(terms: list[tuple[int, Fraction]]) -> Form:
    form: dict[tuple[int, Factor], Fraction] = {}
    for power, q in terms:
        form[power, ONE] = form.get((power, ONE), Fraction(0)) + q
    return form


def _identity(q: Token, k: Token, units: Tokens) -> Form:
    """The kernel q . k, which is also relu(q) . relu(k) because the entries are not negative."""
    return _sum([(units.query_unit + units.key_unit, _dot(q, k))])


def _elu(q: Token, k: Token, units: Tokens) -> Form:
    """The kernel (q + 1) . (k + 1), which is the kernel of elu + 1 because the entries are not negative."""
    here, there = units.query_unit, units.key_unit
    zero = Fraction(0)
    return _sum([(here + there, _dot(q, k)), (here, sum(q, zero)), (there, sum(k, zero)), (0, Fraction(len(q)))])


def _taylor2(q: Token, k: Token, units: Tokens) -> Form:
    """The kernel 1 + s + s^2 / 2."""
    s, unit = _dot(q, k), units.query_unit + units.key_unit
    return _sum([(0, Fraction(1)), (unit, s), (2 * unit, s * s / 2)])


@dataclass(frozen=True, eq=False)
class _Drawn:
    """The factor phi(q) . phi(k) for the drawn features; no two instances count as equal."""

    phi: RandomPositive
    q: Token
    k: Token
    query_unit: int
    key_unit: int

    def value(self, L: Decimal) -> Decimal:
        query = _features(self.phi, self.q, L**self.query_unit)
        key = _features(self.phi, self.k, L**self.key_unit)
        return sum((x * y for x, y in zip(query, key, strict=True)), Decimal(0))


@lru_cache(maxsize=1024)
def _features(phi: RandomPositive, token: Token, unit: Decimal) -> tuple[Decimal, ...]:
    """The features exp(W x - |x|^2 / 2), which are sqrt(r) phi(x), at x = token * unit."""
    x = {i: Decimal(q.numerator) / q.denominator * unit for i, q in enumerate(token) if q}
    half = sum((value * value for value in x.values()), Decimal(0)) / 2
    rows = phi.projection.tolist()
    return tuple(sum((Decimal(row[i]) * value for i, value in x.items()), -half).exp() for row in rows)


MECHANISMS: tuple[Mechanism, ...] = (
    softmax(),
    *(softmax(beta) for beta in ("0.25", "0.5", "2", "4")),
    linear("identity"),
    linear("relu"),
    linear("elu"),
    linear("taylor2"),
    random_features(64, seed=0),
    order3("once"),
    order3("twice"),
)
"""The mechanisms that are used: softmax at the temperatures 1, 4, 2, 1/2 and 1/4, then linear attention and order 3."""
