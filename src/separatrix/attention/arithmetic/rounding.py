r"""The number of roundings of each term of a sum, for an order of summation, and the resulting relative error.

A computed sum of products is sum_t x_t (1 + delta_t). If no term goes through more than n roundings of unit u,

    |delta_t| <= gamma_n = n u / (1 - n u),

whatever the order of the additions and whether or not multiplications and additions are fused (Nicholas Higham,
"Accuracy and Stability of Numerical Algorithms", Lemma 3.1). So an error bound depends on the algorithm through one
number, which a `Summation` derives: it lists the steps that a term goes through, each with its number of roundings. A
backend that adds in another order supplies another list, and nothing else in the certificate changes. The tests run the
algorithms on counts of roundings instead of numbers, and compare the results with the lists.

A sum of n terms rounds each term at most n - 1 times, and adding the sum to an accumulator rounds it once more: n.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch

from separatrix.attention.arithmetic.assumptions import EXP

EXPONENTIAL = math.ceil(EXP)
"""The number of roundings that an exponential counts as."""


class RoundingStep(NamedTuple):
    """A step of a summation: its description, its number of roundings, and whether it is always in float64."""

    what: str
    roundings: int
    wide: bool = False


@dataclass(frozen=True)
class Summation:
    """The steps that a term of a sum goes through.

    Attributes:
        steps: The steps.
        operand_unit: The unit roundoff of the dtype to which weights, and products of query and keys, may be rounded
            before the last multiplication; 0 if they stay in the dtype of the arithmetic.

    Example:
        >>> Summation((RoundingStep("a product", 1), RoundingStep("a sum of 100", 100))).count()
        101
    """

    steps: tuple[RoundingStep, ...]
    operand_unit: float = 0.0

    def count(self, wide: bool = False) -> int:
        """The number of roundings of a term, in the algorithm's own dtype or (`wide`) in float64."""
        return sum(step.roundings for step in self.steps if step.wide == wide)

    def gamma(self, dtype: torch.dtype) -> float:
        """The error bound of the sum relative to the sum of magnitudes, for an algorithm in `dtype`; inf if there is
        none.

        The result is far from overflow and comes from a dozen float64 operations of relative error 2^-53 each, so that
        adding one percent covers their rounding.
        """
        total = 0.0
        for n, unit in ((self.count(), torch.finfo(dtype).eps / 2), (self.count(wide=True), 2.0**-53)):
            total += 1.01 * n * unit / (1 - n * unit) if n * unit < 0.5 else math.inf
        return total


@dataclass(frozen=True)
class Summing:
    """How tokens are summed: chunks of `shortest` to `longest` tokens in the monomials' dtype, and the chunks in
    float64.

    If the monomials are in float64 too, only the number of additions matters.
    """

    longest: int
    shortest: int

    def tokens(self, lengths: Sequence[int]) -> Summation:
        """The steps that tokens of key sets of these lengths go through when they are summed into the states."""
        chunks = sum(-(-length // self.shortest) for length in lengths)
        return Summation(
            (
                RoundingStep(
                    "the tokens of a chunk are added up, for each set", sum(min(self.longest, n) for n in lengths)
                ),
                RoundingStep("the chunks are added up, for each set", chunks, wide=True),
                RoundingStep(
                    "the lanes, tiles and tasks of the kernels are added up, for each set",
                    sum(64 + min(512, n // 128) + n // 65536 for n in lengths),
                    wide=True,
                ),
            )
        )


def _monomial(degree: int) -> int:
    """A monomial: each factor is shifted and scaled in float64, converted (three roundings in all), and multiplied."""
    return 4 * degree


def expanded_sum(tokens: Summation, sets: int, d: int, degree: int, rank: int) -> Summation:
    """The summation of near-linear attention over key tuples and monomials; `tokens` is its summation over tokens."""
    return Summation(
        (
            *tokens.steps,
            RoundingStep("the monomials of the keys", sets * _monomial(degree)),
            RoundingStep(
                "their product with the value, the conversion of the state, the product of the states", 4 * sets
            ),
            RoundingStep("the monomials of the query", _monomial(degree)),
            RoundingStep(
                "the coefficient: its two factors, its conversion, its product, the conversion of the product", 16
            ),
            RoundingStep("the monomials are added up", rank),
            RoundingStep("the last factors, which are coordinates, are multiplied and added up", d),
        )
    )


def expanded_gradient_sum(
    tokens: Summation, queries: Summation, sets: int, d: int, d_v: int, degree: int, rank: int
) -> Summation:
    """The summation of the backward pass of near-linear attention; `queries` is its summation over queries.

    Gradients are propagated from the sums through states and monomials. Each of `degree` levels multiplies a gradient
    by a coordinate and sums at most d children; at each level a coordinate sums over all monomials that contain it.
    """
    forward = expanded_sum(tokens, sets, d, degree, rank)
    return Summation(
        (
            *forward.steps,
            *queries.steps,
            RoundingStep(
                "the incoming gradient is multiplied by the output and divided by the denominator", d_v + 4, wide=True
            ),
            RoundingStep("the monomials of the other factor", _monomial(degree)),
            RoundingStep("the states of the other sets, the coefficients and their conversions", 4 * sets + 8),
            RoundingStep("the value columns are added up, for a group of coordinates", 4 * (d_v + 2)),
            RoundingStep("the groups of coordinates are added up", d),
            RoundingStep("each level of monomials is multiplied and added to the level below", degree * (d + 10)),
            RoundingStep("the gradients of a coordinate's monomials are added up", rank),
            RoundingStep("the gradient of the coordinate is rotated, scaled and shifted back", 2 * d + 8),
        )
    )


def block_sum(order: int, longest: int, blocks: int) -> Summation:
    """The summation of weights in exact attention: in blocks of at most `longest`, merged one after the other."""
    return Summation(
        (
            RoundingStep("the weights of a block are multiplied by their values and added up", longest + 1),
            RoundingStep(
                "each later block scales the sum: an exponential, a product, an addition", blocks * (EXPONENTIAL + 2)
            ),
            RoundingStep("the rows of the value sets are multiplied, and the quotient is taken", order + 6),
        )
    )


def block_gradient_sum(order: int, longest: int, blocks: int, rows: int, row_blocks: int) -> Summation:
    """The summation of exact attention's backward pass: over tuples for queries, over queries for keys and values.

    A block has at most `rows` queries.
    """
    return Summation(
        (
            RoundingStep("the tuples of a block are added up", longest + 1),
            RoundingStep("the blocks are added up", blocks),
            RoundingStep("the queries of a block are added up", rows + 1),
            RoundingStep("the blocks of queries are added up", row_blocks),
            RoundingStep(
                "the gradient of a row of products goes to its factors, which are added up", longest + order + 6
            ),
            RoundingStep("the products of weight, incoming gradient, keys and scale", order + 6),
        )
    )


def kernel_sum(order: int, chunk: int, rows: int, tiles: int, chunks: int) -> Summation:
    """The summation of weights in the C++ kernels: `chunk` keys for each of `rows`, then tiles, then chunks.

    Whenever a larger score is found, the sums so far are scaled down, by an exponential and a product.
    """
    fade = EXPONENTIAL + 2
    return Summation(
        (
            RoundingStep("the weights of a chunk are multiplied by their values and added up", chunk + 1),
            RoundingStep("the rows of a tile are multiplied by the values of their prefix and added up", rows + 1),
            RoundingStep("the tiles of a chunk are scaled down and added up", tiles * fade),
            RoundingStep("the chunks are scaled down and added up", chunks * fade),
            RoundingStep("the lanes of a vector are added up", 16),
            RoundingStep("the rows of the value sets are multiplied, and the quotient is taken", order + 6),
        )
    )


def kernel_gradient_sum(
    order: int, chunk: int, pairs: int, groups: int, query_block: int, query_blocks: int, shared: int = 1
) -> Summation:
    """The summation of the kernels' backward pass: over tuples for queries, and over queries for keys and values.

    A pair is a prefix and a chunk of inner keys. The `pairs` of a group are summed one after another, then the groups,
    then the `shared` heads of queries that share keys and values. For few queries (csrc/exact_few_queries.hpp) the rows
    of a block are prefixes of a query instead of queries, and `pairs` counts prefixes of all queries and chunks.
    """
    return Summation(
        (
            RoundingStep("the keys of a chunk are added up", chunk + 1),
            RoundingStep("the pairs of a prefix and a chunk are added up", pairs),
            RoundingStep("the queries of a block are added up", query_block + 1),
            RoundingStep("the blocks of queries are added up", query_blocks),
            RoundingStep("the gradient of a product goes to its factors, over the keys of a chunk", chunk + order + 6),
            RoundingStep("the pairs that contain a factor are added up", pairs),
            RoundingStep("the groups are added up", groups),
            RoundingStep("the heads that share a key are added up", shared - 1),
            RoundingStep("the products of weight, incoming gradient, keys and scale", order + 8),
        )
    )


_EXPONENTIAL_OF_GPU = RoundingStep(
    "NVIDIA states an error of 2^x of 2 units in the last place from the correctly rounded result: 5 u, 1 more than "
    "`EXP`",
    1,
)


def tile_sum(order: int, inners: int, prefixes: int) -> Summation:
    """The summation of weights in the Triton kernels: all inner keys of a prefix key, then the prefix keys.

    Both arguments count the visited keys, in whole blocks. The sums are scaled down by powers of two, which is exact.
    """
    return Summation(
        (
            RoundingStep("the weights of a prefix key are multiplied by their values and added up", inners + 1),
            RoundingStep("the prefix keys are multiplied by their values and added up", prefixes + 1),
            RoundingStep("the rows of the value sets are multiplied, and the quotient is taken", order + 6),
            _EXPONENTIAL_OF_GPU,
        )
    )


def tile_gradient_sum(order: int, inners: int, prefixes: int, queries: int, shared: int) -> Summation:
    """The summation of the backward pass of the Triton kernels.

    The gradient of an inner key is one chain of additions over all queries and prefix keys, in all heads that share the
    key; the other gradients are chains over inner keys, and then over prefix keys or queries.
    """
    return Summation(
        (
            RoundingStep("the inner keys are added up, for a query or a prefix key", inners + 1),
            RoundingStep("the prefix keys are added up, for a query", prefixes + 1),
            RoundingStep("queries and prefix keys are added up, for an inner key", queries * prefixes * shared + 1),
            RoundingStep("the queries are added up, for a prefix key", queries * shared + 1),
            RoundingStep("the products of weight, incoming gradient, keys and scale", order + 10),
            _EXPONENTIAL_OF_GPU,
        )
    )
