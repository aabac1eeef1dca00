"""The rounding counts that certificates rely on, compared with counts of the algorithms' operations."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from separatrix.attention.arithmetic.incoming import Power
from separatrix.attention.arithmetic.rounding import (
    EXPONENTIAL,
    RoundingStep,
    Summation,
    Summing,
    block_sum,
    expanded_gradient_sum,
    expanded_sum,
)
from separatrix.attention.call import Call, Positions
from separatrix.attention.exact import torch as blocks
from separatrix.attention.exact.torch import gradient_summation, summation
from separatrix.attention.near_linear import causal
from separatrix.attention.near_linear import sums as polynomial
from separatrix.attention.near_linear import torch as in_pytorch
from separatrix.attention.near_linear.approximation.coordinates import Frame
from separatrix.attention.near_linear.approximation.monomials import total_degree
from separatrix.attention.near_linear.sums import Expansion, Sums
from tests.contracts.counting import Counting

HEADS, D_V = 2, 2
SHAPES = [(2, [7], 3, 1), (2, [150], 4, 4), (3, [40, 90], 2, 5), (3, [130, 70], 5, 3), (4, [30, 20, 25], 3, 2)]
"""The order, the lengths of the key sets, d and the degree; some products are computed directly, others as factors."""


def test_gamma_is_the_bound_of_a_sum_that_is_rounded_as_often():
    steps = Summation((RoundingStep("own", 100), RoundingStep("wide", 3, wide=True)))
    assert steps.count() == 100
    assert steps.count(wide=True) == 3
    u = 2.0**-24
    assert 100 * u / (1 - 100 * u) <= steps.gamma(torch.float32) <= 1.011 * 100 * u / (1 - 100 * u)
    assert Summation((RoundingStep("too many", 1 << 24),)).gamma(torch.float32) == math.inf


def test_an_exponential_a_product_and_a_sum_are_counted_for_each_block():
    """Each block adds an exponential, a product and a sum; an exponential counts as at least two roundings."""
    counts = [block_sum(3, 10, blocks).count() for blocks in (5, 6)]
    assert counts[1] - counts[0] == EXPONENTIAL + 2 >= 4


def expansion_of(d: int, degree: int, dtype: torch.dtype) -> Expansion:
    """An expansion whose factors and coefficients have been rounded 0 times."""
    nothing = torch.zeros(HEADS, d, dtype=torch.float64)
    frame = Frame(torch.arange(d), (nothing,) * 6, None, (nothing,) * 6, 1.0, d, dtype)
    index_set = total_degree(d, degree)
    return Expansion(frame, index_set, torch.zeros(index_set.rank, dtype=torch.float64), None)


def unrounded(lengths: list[int], d: int, queries: int, dtype: torch.dtype, is_causal: bool) -> Call:
    keys = tuple(torch.zeros(HEADS, length, d, dtype=dtype) for length in lengths)
    values = tuple(torch.zeros(HEADS, length, D_V, dtype=dtype) for length in lengths)
    positions = Positions(is_causal, 0, (None,) * len(lengths))
    return Call(torch.zeros(HEADS, queries, d, dtype=dtype), keys, values, (), positions, 1.0)


@pytest.fixture
def _exact_powers(monkeypatch):
    """Replace multiplications by powers of two, which are exact, by the identity: their exponents are not counts."""
    for name in ("divide", "multiply"):
        monkeypatch.setattr(Power, name, lambda self, x: x)
    monkeypatch.setattr(Power, "next_to", staticmethod(lambda largest: Power(largest)))
    monkeypatch.setattr(Power, "of_heads", lambda self, rows: (self, self))
    monkeypatch.setattr(Power, "times", lambda self, other: self)
    monkeypatch.setattr(polynomial.IncomingGradient, "far_apart", False)


def holds(counted: torch.Tensor, promised: int, least: float = 0.05) -> None:
    """The counted number is at most the promised one, and not so small that the comparison would be meaningless."""
    most = float(counted.max())
    assert least * promised <= most <= promised, (most, promised)


@pytest.mark.parametrize(("order", "lengths", "d", "degree"), SHAPES)
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("chunk", [16, 64])
def test_near_linear_attention_rounds_at_most_as_often_as_promised(
    order, lengths, d, degree, is_causal, chunk, monkeypatch
):
    monkeypatch.setattr(polynomial, "chunk_tokens", lambda *sizes: chunk)
    monkeypatch.setattr(in_pytorch, "causal_chunk", lambda *sizes: 8)
    lengths = [min(lengths)] * len(lengths) if is_causal else lengths
    for dtype in (torch.float32, torch.float64):
        call, expansion = unrounded(lengths, d, min(lengths), dtype, is_causal), expansion_of(d, degree, dtype)
        with Counting(dtype):
            if is_causal:
                sums = causal.attend_causal(call, expansion)
            else:
                sums = polynomial.attend(call, expansion, polynomial.states(call, expansion))
        summing = Summing(chunk, 8 if is_causal else chunk)
        rank = expansion.index_set.rank
        promised = expanded_sum(summing.tokens(lengths), len(lengths), d, degree, rank)
        total = promised.count() + (promised.count(wide=True) if dtype == torch.float64 else 0)
        holds(sums.denominator, total, 0.01 if is_causal else 0.1)


@pytest.mark.usefixtures("_exact_powers")
@pytest.mark.parametrize(("order", "lengths", "d", "degree"), SHAPES)
@pytest.mark.parametrize(("is_causal", "chunk"), [(False, 16), (False, 64), (True, 16)])
def test_the_backward_pass_rounds_at_most_as_often_as_promised(
    order, lengths, d, degree, is_causal, chunk, monkeypatch
):
    monkeypatch.setattr(polynomial, "chunk_tokens", lambda *sizes: chunk)
    monkeypatch.setattr(in_pytorch, "causal_chunk", lambda *sizes: 8)
    lengths, queries = ([min(lengths)] * len(lengths), min(lengths)) if is_causal else (lengths, 50)
    for dtype in (torch.float32, torch.float64):
        call, expansion = unrounded(lengths, d, queries, dtype, is_causal), expansion_of(d, degree, dtype)
        with Counting(dtype):
            output = torch.zeros(HEADS, queries, D_V, dtype=dtype)
            wide = torch.zeros(HEADS, queries, dtype=torch.float64)
            sums = Sums(output, wide, wide)
            if is_causal:
                grads = causal.backward_causal(call, expansion, sums, output, wide)
            else:
                states = polynomial.states(call, expansion)
                grads = polynomial.backward(call, expansion, states, sums, output, wide)
        summing, rank = Summing(chunk, 8 if is_causal else chunk), expansion.index_set.rank
        promised = expanded_gradient_sum(
            summing.tokens(lengths), summing.tokens([queries]), len(lengths), d, D_V, degree, rank
        )
        total = promised.count() + (promised.count(wide=True) if dtype == torch.float64 else 0)
        for grad in (grads[0], *grads[1], *grads[2]):
            # In a causal backward pass only the coordinates and the results are ever in float32.
            holds(grad, total, 0.0 if is_causal and dtype == torch.float32 else 0.02)


POSITIONS = [
    Positions(False, 0, (None, None)),
    Positions(True, 0, (None, None)),
    Positions(False, 0, (16, 8)),
]


def call_of(order: int, length: int, positions: Positions) -> Call:
    keys, values = (tuple(torch.zeros(HEADS, length, width) for _ in range(order - 1)) for width in (3, D_V))
    positions = replace(positions, windows=positions.windows[:1] * (order - 1))
    return Call(torch.zeros(HEADS, length, 3), keys, values, (), positions, 1.0)


@pytest.mark.usefixtures("_exact_powers")
@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize(("order", "length"), [(2, 200), (3, 48), (4, 14)])
def test_exact_attention_rounds_at_most_as_often_as_promised(order, length, positions, monkeypatch):
    monkeypatch.setattr(blocks, "SCORES", {"cpu": 1 << 11})
    monkeypatch.setattr(blocks, "_rows", lambda call: blocks.ROWS)  # the real `_rows` reads the entries
    call = call_of(order, length, positions)
    assert max(block.chunks for block in blocks.blocks(call)) > 1 or positions.has_window
    with Counting(torch.float32):
        out, lse = blocks.forward(call)
        grads = blocks.backward(call, torch.zeros_like(out), torch.zeros_like(lse), torch.zeros_like(out), lse * 0)
    # The exponentials of the weights are counted here; certificates count them separately.
    holds(out, 2 * (summation(call, torch.float32).count() + EXPONENTIAL) + 1, 0.05)
    for grad in (grads[0], *grads[1], *grads[2]):
        holds(grad, gradient_summation(call, torch.float32).count() + EXPONENTIAL, 0.02)


def rounded_by_tiles(terms: range) -> list[int]:
    """How often tdpbf16ps rounds each of these terms of a sum of products whose other terms are zeros.

    The order of sums is that of the vendor's pseudo-code (csrc/tests/emulated.hpp). Adding the first number to 0 is
    exact.
    """
    total: list[int] = []
    for tile in range(terms.start // 32, -(-terms.stop // 32)):
        step = range(max(terms.start, 32 * tile), min(terms.stop, 32 * tile + 32))
        sums = [[len(chain) - max(place, 1) for place in range(len(chain))] for chain in (step[::2], step[1::2])]
        both = [count + all(map(len, sums)) for count in (*sums[0], *sums[1])]
        total = [count + 1 for count in total + both] if total else both
    return total


@pytest.mark.parametrize("terms", [1, 2, 3, 16, 31, 32, 33, 34, 63, 64, 65, 100, 256])
def test_tiles_round_no_term_more_often_than_there_are_terms(terms):
    most = max(max(rounded_by_tiles(range(start, start + terms))) for start in range(32))
    assert len(rounded_by_tiles(range(31, 31 + terms))) == terms
    assert most <= -(-min(terms, 32) // 2) + (terms + 30) // 32 <= min(most + 1, terms)
