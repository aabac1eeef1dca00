"""Rounding counts of the Triton kernels, which run on counts in place of numbers, against those of certificates."""

from __future__ import annotations

import pytest
import torch

from separatrix.attention.arithmetic.rounding import Summing, expanded_gradient_sum, expanded_sum
from separatrix.attention.near_linear import backend, causal
from separatrix.attention.near_linear import sums as polynomial
from separatrix.attention.near_linear.approximation import monomials
from separatrix.attention.near_linear.backend import backend_of, summing
from separatrix.attention.near_linear.sums import Sums
from separatrix.attention.near_linear.triton import backend as triton
from separatrix.attention.near_linear.triton import launch
from tests.attention.arithmetic import test_rounding
from tests.attention.arithmetic.test_rounding import D_V, _exact_powers, expansion_of, holds, unrounded  # noqa: F401
from tests.contracts.counting_programs import counting_programs
from tests.contracts.interpreter import interpreted, needs_triton  # noqa: F401

pytestmark = [needs_triton, pytest.mark.usefixtures("interpreted", "_exact_powers"), pytest.mark.timeout(1200)]

CHUNK, PIECE = 16, 4
SHAPES = [([23], 2, 3), ([9, 20], 2, 2)]
"""The lengths of the key sets, d and the degree."""


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Use small blocks: chunks of 16 tokens in two parts, pieces of 4 tokens and stretches of 8."""
    shipped = launch.block_of

    def block(kernel, dtype, columns, of=None):
        tokens = PIECE if kernel in launch.SCANS else 8
        return shipped(kernel, dtype, columns, of)._replace(rows=8, tokens=tokens)

    for module in (launch, triton):
        monkeypatch.setattr(module, "block_of", block)
    monkeypatch.setattr(triton, "SHORTEST", 8)
    monkeypatch.setattr(triton, "scan_tokens", lambda *sizes: 8)
    for module in (backend, polynomial, triton):
        monkeypatch.setattr(module, "chunk_tokens", lambda *sizes: CHUNK)
    monkeypatch.setattr(test_rounding, "HEADS", 1)


def total(promised, dtype):
    return promised.count() + (promised.count(wide=True) if dtype == torch.float64 else 0)


@pytest.mark.parametrize(("lengths", "d", "degree"), SHAPES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_attention_and_its_backward_pass_round_at_most_as_often_as_promised(lengths, d, degree, dtype, monkeypatch):
    call, expansion = unrounded(lengths, d, 9, dtype, False), expansion_of(d, degree, dtype)
    monkeypatch.setattr(monomials, "monomials", lambda *given: pytest.fail("plain PyTorch computes"))
    rank, sets = expansion.index_set.rank, len(lengths)
    with counting_programs(dtype):
        states = polynomial.states(call, expansion)
        sums = polynomial.attend(call, expansion, states)
        output, wide = torch.zeros(1, 9, D_V, dtype=dtype), torch.zeros(1, 9, dtype=torch.float64)
        grads = polynomial.backward(call, expansion, states, Sums(output, wide, wide), output, wide)
    tokens, queries = Summing(CHUNK, CHUNK).tokens(lengths), Summing(CHUNK, CHUNK).tokens([9])
    holds(sums.denominator, total(expanded_sum(tokens, sets, d, degree, rank), dtype), 0.1)
    promised = total(expanded_gradient_sum(tokens, queries, sets, d, D_V, degree, rank), dtype)
    for grad in (grads[0], *grads[1], *grads[2]):
        holds(grad, promised, 0.05)


@pytest.mark.parametrize(("sets", "d", "degree"), [(1, 2, 2), (2, 1, 3), (4, 1, 1)])
def test_the_causal_scan_rounds_at_most_as_often_as_promised(sets, d, degree):
    n, dtype = 14, torch.float64
    call, expansion = unrounded([n] * sets, d, n, dtype, True), expansion_of(d, degree, dtype)
    with counting_programs(dtype):
        assert backend_of(call) is triton
        adds = summing(triton, call, expansion.index_set.rank, dtype)
        sums = causal.attend_causal(call, expansion)
        output, wide = torch.zeros(1, n, D_V, dtype=dtype), torch.zeros(1, n, dtype=dtype)
        grads = causal.backward_causal(call, expansion, Sums(output, wide, wide), output, wide)
    assert adds == Summing(CHUNK, PIECE)
    tokens, rank = adds.tokens([n] * sets), expansion.index_set.rank
    holds(sums.denominator, total(expanded_sum(tokens, sets, d, degree, rank), dtype), 0.05)
    promised = total(expanded_gradient_sum(tokens, adds.tokens([n]), sets, d, D_V, degree, rank), dtype)
    for grad in (grads[0], *grads[1], *grads[2]):
        holds(grad, promised, 0.02)
