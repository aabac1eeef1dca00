"""Gap-MaxIP by attention: the padded matrices against the definition, and every decision against brute force."""

from __future__ import annotations

import math
from itertools import product

import mpmath
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from separatrix import hardness
from separatrix.attention.reference import column_kronecker
from separatrix.attention.reference import tensor_attention as literal
from separatrix.errors import ArgumentError, SeparatrixError
from separatrix.hardness import attention_decision
from separatrix.hardness.attention_decision import attention_sizes, decide, triple_by_attention
from separatrix.hardness.maxip import GapMaxIP, gap_maxip, largest_products, to_maxip
from separatrix.hardness.orthogonal_vectors import OrthogonalVectors, inner_products
from separatrix.hardness.padded_attention import log_threshold, pad_for_attention
from separatrix.hardness.protocol import Protocol
from separatrix.hardness.protocol_vectors import to_gap_maxip


def drawn(n: int, d: int, seed: int, density: float = 0.5) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    a, b, c = ((torch.rand(n + extra, d, generator=generator) < density).long() for extra in (0, 2, 1))
    return a, b, c


@pytest.mark.parametrize(("pad", "blanks"), [(None, None), (2, (1, 1)), (0, (0, 3)), (7, (2, 1))])
def test_outputs_are_the_formula(pad: int | None, blanks: tuple[int, int] | None) -> None:
    a, b, c = drawn(4, 5, 0)
    padded = pad_for_attention(GapMaxIP(a, b, c, 3, 0.5), 11.0, pad=pad, blanks=blanks)
    w, (m_b, m_c) = 5 if pad is None else pad, blanks or (6, 5)
    y = 11.0 / (5 + w)
    S = torch.exp(y * inner_products(a, b, c).double()).sum((1, 2))
    expected = S / (S + 6 * m_c + m_b * 5 + m_b * m_c * math.exp(w * y))
    assert torch.allclose(padded.outputs(), expected, rtol=1e-12)
    assert torch.allclose(padded.log_outputs(), expected.log(), atol=1e-12)
    assert torch.allclose(literal(padded.query, padded.keys, padded.values)[0][:, 0], expected, rtol=1e-12)
    assert max(float(tensor.abs().max()) for tensor in (padded.query, *padded.keys)) == pytest.approx(padded.bound)


def test_the_values_are_a_column_wise_kronecker_product() -> None:
    """The values are 1 for pairs of vectors and 0 for pairs with a blank, in the order of Definition 2.4."""
    a, b, c = drawn(2, 3, 0)
    padded = pad_for_attention(GapMaxIP(a, b, c, 3, 0.5), 1.0)
    v = column_kronecker(*padded.values)[:, 0]
    for j, k in product(range(8), range(6)):
        assert v[j + k * 8] == float(j < 4 and k < 3)


def test_log_outputs_where_the_outputs_underflow() -> None:
    """Log outputs with the lemma's padding are those of mpmath, at the beta of a gap 1/m."""
    ones = torch.ones(1, 40)
    instance = GapMaxIP(torch.arange(40)[None] < 3, ones, ones, 3, 1 / 3)
    beta = 4000.0
    padded = pad_for_attention(instance, beta)
    S = mpmath.exp(3 * beta / 80)
    exact = mpmath.log(S / (S + 2 + mpmath.exp(beta / 2)))
    assert exact < math.log(5e-324)  # The number underflows float64.
    assert padded.log_outputs().item() == pytest.approx(float(exact), rel=1e-12)
    assert padded.log_outputs().item() > log_threshold(instance, beta, 40) + math.log(2)


@settings(max_examples=80, deadline=None)
@given(st.integers(1, 6), st.integers(1, 12), st.integers(0, 2**31), st.sampled_from([0.3, 0.6, 0.9]), st.data())
def test_every_row_that_is_in_a_case_is_decided(n: int, d: int, seed: int, density: float, data: st.DataObject) -> None:
    a, b, c = drawn(n, d, seed, density)
    threshold = data.draw(st.floats(0.2, d))
    epsilon = data.draw(st.sampled_from([0.01, 1 / d, 0.3, 0.5, 1.0]))
    decisions = hardness.gap_maxip_by_attention(a, b, c, threshold, epsilon)
    assert decisions.dtype == torch.bool
    for answer, case in zip(decisions.tolist(), gap_maxip(GapMaxIP(a, b, c, threshold, epsilon)), strict=True):
        assert case is None or answer == case


@pytest.mark.parametrize("n", [1, 2, 17, 60])
@pytest.mark.parametrize(("d", "low", "high"), [(4, 0, 1), (30, 29, 30), (30, 7, 8), (200, 99, 100), (50, 10, 20)])
def test_the_extremes_are_decided(n: int, d: int, low: int, high: int) -> None:
    """Extreme instances are decided: one pair at the threshold among zeros, every pair just below the gap, and both."""
    columns = torch.arange(d)
    a = torch.stack([columns < high, columns < low]).long()
    b = torch.zeros(n, d).long()
    b[-1] = columns < high
    assert decide(GapMaxIP(a, b, b, high, 1 - low / high)).tolist() == [True, False]
    b[:] = columns < high
    assert decide(GapMaxIP(a, b, b, high, 1 - low / high)).tolist() == [True, False]


def test_the_outputs_keep_their_margins() -> None:
    for seed in range(20):
        a, b, c = drawn(8, 12, seed, 0.7)
        instance = GapMaxIP(a, b, c, 5, 0.4)
        sizes = attention_sizes(8, (10, 9), 12, 3, 5)
        u = pad_for_attention(instance, sizes.beta, pad=5, blanks=(1, 1)).outputs()
        for value, case in zip(u.tolist(), gap_maxip(instance), strict=True):
            assert case is None or (value > 0.47 if case else value < 0.06)


def test_a_smaller_beta_decides_wrongly(monkeypatch: pytest.MonkeyPatch) -> None:
    """With exp((h - l) y) = P / 16 all pairs just below the gap outweigh one pair at the threshold."""
    sizes = attention_decision.attention_sizes

    def small(*inputs):
        call = sizes(*inputs)
        pairs = (call.keys[0] - 1) * (call.keys[1] - 1)
        return attention_decision.AttentionSizes(
            call.queries, call.keys, call.width, call.beta * math.log(pairs / 16) / math.log(16 * pairs), 0.0, call.work
        )

    ones = torch.ones(40, 10)
    query = torch.arange(10)[None] < 4
    assert decide(GapMaxIP(query, ones, ones, 5, 0.2)).tolist() == [False]
    monkeypatch.setattr(attention_decision, "attention_sizes", small)
    assert decide(GapMaxIP(query, ones, ones, 5, 0.2)).tolist() == [True]


@pytest.mark.parametrize("seed", range(20))
def test_the_triple_is_one_that_reaches_the_threshold(seed: int) -> None:
    a, b, c = drawn(5, 9, seed, 0.7)
    instance = GapMaxIP(a, b, c, 6, 1 / 6)
    triple = triple_by_attention(instance)
    most = int(largest_products(instance).max())
    assert (triple is not None) == (most >= 6)
    if triple is not None:
        assert inner_products(a, b, c)[triple] >= 6


def test_some_instances_of_that_test_are_yes_and_some_no() -> None:
    outcomes = {triple_by_attention(GapMaxIP(*drawn(5, 9, seed, 0.7), 6, 1 / 6)) is None for seed in range(20)}
    assert outcomes == {True, False}


@pytest.mark.parametrize(("n_b", "n_c", "where"), [(30, 1, "row 0 of a: "), (5, 5, "row 0 of a with row 0 of b: ")])
def test_a_violated_promise_is_reported(n_b: int, n_c: int, where: str) -> None:
    """Many pairs at 4, in a gap from 1 to 10, weigh as much as one at the threshold; fewer weigh less."""
    instance = GapMaxIP(torch.arange(10)[None] < 4, torch.ones(n_b, 10), torch.ones(n_c, 10), 10, 0.9)
    assert gap_maxip(instance) == [None]
    assert decide(instance).item()
    with pytest.raises(SeparatrixError, match=f"{where}.*promise of Definition 4.6"):
        triple_by_attention(instance)


@pytest.mark.parametrize("seed", range(10))
def test_both_methods_decide_equally(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    sets = (torch.rand(3, 3, 5, generator=generator) < 0.75).long()
    instance = OrthogonalVectors(*sets)
    orthogonal = inner_products(*sets) == 0
    direct = triple_by_attention(to_maxip(instance))
    reduction = to_gap_maxip(instance, Protocol(5, 3))
    rows = triple_by_attention(reduction.instance)
    assert (direct is None) == (rows is None) == (not orthogonal.any())
    if direct is not None and rows is not None:
        assert orthogonal[direct]
        assert orthogonal[reduction.triple(rows)]


def test_bad_calls_are_refused() -> None:
    ones = torch.ones(2, 3)
    with pytest.raises(ArgumentError, match="threshold: expected a number above 0, at most the dimension 3, got 4"):
        hardness.gap_maxip_by_attention(ones, ones, ones, 4, 0.5)
    with pytest.raises(ArgumentError, match="b: expected zeros and ones alone"):
        hardness.gap_maxip_by_attention(ones, 2 * ones, ones, 2, 0.5)
    with pytest.raises(ArgumentError, match="multiplications"):
        decide(GapMaxIP(torch.ones(1, 1).expand(2**15, 1), *(torch.ones(1, 1).expand(2**12, 1),) * 2, 1, 1.0))
    with pytest.raises(ArgumentError, match="beta: expected a positive"):
        pad_for_attention(GapMaxIP(ones, ones, ones, 2, 0.5), 0.0)
    with pytest.raises(ArgumentError, match="pad: expected"):
        pad_for_attention(GapMaxIP(ones, ones, ones, 2, 0.5), 1.0, pad=-1)
