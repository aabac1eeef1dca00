"""The protocol: codes, completeness, the best cheating Merlin against all of his words, and the resulting vectors."""

from __future__ import annotations

import math
import random
from fractions import Fraction
from itertools import combinations, product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from separatrix.errors import ArgumentError
from separatrix.hardness.cheating_merlin import admissible_words, agreement, best_cheat
from separatrix.hardness.maxip import gap_maxip
from separatrix.hardness.orthogonal_vectors import OrthogonalVectors, inner_products
from separatrix.hardness.protocol import Protocol
from separatrix.hardness.protocol_vectors import protocol_sizes, to_gap_maxip
from separatrix.hardness.reed_solomon import ReedSolomon, evaluate, next_prime


def subsets(m: int, seed: int, *, disjoint: bool) -> tuple[tuple[int, ...], ...]:
    """Three subsets of [m], with or without a common element."""
    draw = random.Random(seed)
    columns = [draw.choice([bits for bits in product((0, 1), repeat=3) if not all(bits)]) for _ in range(m)]
    if not disjoint:
        columns[draw.randrange(m)] = (1, 1, 1)
    return tuple(zip(*columns, strict=True))


def every_cheat(protocol: Protocol, *sets: tuple[int, ...]) -> Fraction:
    """The largest probability with which Alice accepts a word, found by trying all words that she may accept."""
    mu = protocol.honest(*sets)
    return Fraction(max(agreement(mu, word) for word in admissible_words(protocol)), protocol.length)


@given(st.integers(1, 5), st.integers(0, 6), st.data())
def test_the_code_is_systematic_linear_and_closed(r: int, extra: int, data: st.DataObject) -> None:
    code = ReedSolomon(r, r + extra, next_prime(r + extra + 1))
    symbols = st.tuples(*[st.integers(0, code.p - 1)] * r)
    first, two, three = (data.draw(symbols) for _ in range(3))
    words = [code.encode(message) for message in (first, two, three)]
    assert words[0][:r] == first
    total = code.encode(tuple((x + y) % code.p for x, y in zip(first, two, strict=True)))
    assert total == tuple((x + y) % code.p for x, y in zip(*words[:2], strict=True))
    assert code.is_product_word(tuple(math.prod(symbols) % code.p for symbols in zip(*words, strict=True)))


@pytest.mark.parametrize(("r", "length", "p"), [(2, 6, 7), (2, 5, 5), (2, 4, 5)])
def test_the_distance_of_the_products_is_the_least_weight(r: int, length: int, p: int) -> None:
    code = ReedSolomon(r, length, p)
    words = [word for word in product(range(p), repeat=length) if any(word) and code.is_product_word(word)]
    assert len(words) == p ** min(length, 3 * r - 2) - 1
    assert min(sum(map(bool, word)) for word in words) == code.product_distance


def test_interpolation_is_horners() -> None:
    p, coefficients = 101, (7, 0, 33, 5)

    def horner(x: int) -> int:
        value = 0
        for coefficient in reversed(coefficients):
            value = (value * x + coefficient) % p
        return value

    at = (3, 9, 50, 100)
    assert evaluate(at, tuple(map(horner, at)), tuple(range(p)), p) == tuple(map(horner, range(p)))


@settings(deadline=None)
@given(st.integers(1, 12), st.data(), st.integers(0, 2**32))
def test_disjoint_sets_are_always_accepted(m: int, data: st.DataObject, seed: int) -> None:
    protocol = Protocol(m, data.draw(st.integers(1, m)))
    sets = subsets(m, seed, disjoint=True)
    assert protocol.acceptance(*sets, protocol.honest(*sets)) == 1


@settings(deadline=None)
@given(st.integers(1, 12), st.data(), st.integers(0, 2**32))
def test_the_truth_about_sets_that_meet_is_never_accepted(m: int, data: st.DataObject, seed: int) -> None:
    protocol = Protocol(m, data.draw(st.integers(1, m)))
    sets = subsets(m, seed, disjoint=False)
    assert protocol.acceptance(*sets, protocol.honest(*sets)) == 0


@pytest.mark.parametrize(
    ("m", "T", "length"), [(4, 2, 6), (6, 3, 6), (6, 3, 9), (5, 3, 5), (4, 2, 4), (3, 3, 1), (4, 2, 3)]
)
def test_the_best_cheat_is_the_best_of_all_words(m: int, T: int, length: int) -> None:
    protocol = Protocol(m, T, length)
    for seed in range(12):
        sets = subsets(m, seed, disjoint=False)
        best = best_cheat(protocol, *sets)
        assert best.acceptance == every_cheat(protocol, *sets) == protocol.acceptance(*sets, best.word), seed
        assert protocol.admissible(best.word), seed
        assert best.acceptance <= protocol.soundness_bound, seed
        zeros = protocol.honest(*sets)[: protocol.r].count(0)
        assert best.acceptance * length >= zeros + min(2 * (protocol.r - 1), length - protocol.r), seed


@pytest.mark.parametrize(("r", "T"), [(2, 2), (3, 2), (4, 1)])
def test_one_common_element_lets_merlin_reach_the_bound(r: int, T: int) -> None:
    protocol = Protocol(r * T, T)
    single = (1, *(0,) * (r * T - 1))
    assert best_cheat(protocol, single, single, single).acceptance == protocol.soundness_bound == Fraction(1, 2)


@pytest.mark.parametrize("length", range(3, 20))
def test_soundness_against_length(length: int) -> None:
    protocol = Protocol(6, 2, length)
    single = (0, 1, 0, 0, 0, 0)
    acceptance = best_cheat(protocol, single, single, single).acceptance
    assert acceptance == min(Fraction(length - 1, length), Fraction(6, length))


def test_a_longer_prime_is_needed_above_the_parts() -> None:
    """If p were T, T ones would sum to 0 modulo p and hide a common element."""
    with pytest.raises(ArgumentError, match="a prime above the 7 parts"):
        Protocol(14, 7, 6, p=7)
    everything = (1,) * 14
    assert Protocol(14, 7).p == 11
    assert best_cheat(Protocol(14, 7), everything, everything, everything).acceptance <= Fraction(1, 2)


def test_the_bill() -> None:
    bill = Protocol(12, 4).bill  # r = 3, N = 12, p = 13: symbols of 4 bits
    assert (bill.merlin, bill.merlin_free, bill.coins, bill.bob, bill.charlie) == (48, 16, 4, 16, 16)


def test_merlins_words_are_all_that_alice_may_accept() -> None:
    protocol = Protocol(4, 2, 5)
    words = {word for word in product(range(5), repeat=5) if protocol.admissible(word)}
    assert words == set(admissible_words(protocol))
    assert max(agreement(*pair) for pair in combinations(words, 2)) <= protocol.code.product_degree


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("m", "T", "n"), [(4, 2, 2), (5, 3, 3), (6, 3, 2), (4, 4, 3)])
def test_inner_products_count_the_places_where_alice_accepts(m: int, T: int, n: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    a, b, c = (torch.randint(0, 2, (n + extra, m), generator=generator) for extra in (0, 1, 0))
    protocol = Protocol(m, T)
    reduction = to_gap_maxip(OrthogonalVectors(a, b, c), protocol)
    assert reduction.instance.dimension <= protocol_sizes((n, n + 1, n), protocol).dimension
    assert len(reduction.instance.a) == protocol_sizes((n, n + 1, n), protocol).rows
    products = inner_products(reduction.instance.a, reduction.instance.b, reduction.instance.c)
    draw = random.Random(seed)
    for _ in range(40):
        i, j, k = (draw.randrange(size) for size in products.shape)
        word, alpha = reduction.words[i // n], a[i % n]
        accepted = protocol.acceptance(*(tuple(bits.tolist()) for bits in (alpha, b[j], c[k])), word)
        assert int(products[i, j, k]) == accepted * protocol.length
    orthogonal = inner_products(a, b, c) == 0
    best = products.unflatten(0, (len(reduction.words), n)).amax(0)
    assert torch.equal(best == protocol.length, orthogonal)
    assert (best[~orthogonal] <= protocol.length // 2).all()
    assert None not in gap_maxip(reduction.instance)
    assert any(gap_maxip(reduction.instance)) == bool(orthogonal.any())
    for rows in (products == protocol.length).nonzero().tolist():
        assert orthogonal[reduction.triple(tuple(rows))]


def test_bad_protocols_are_refused() -> None:
    for arguments, what in [
        ((0, 1), "m: expected"),
        ((4, 5), "parts: expected"),
        ((4, 2, 1), "length"),
        ((4, 2, 6, 9), "a prime"),
        ((4, 2, 6, 5), "a prime"),
    ]:
        with pytest.raises(ArgumentError, match=what):
            Protocol(*arguments)
    protocol = Protocol(4, 2)
    with pytest.raises(ArgumentError, match="members"):
        protocol.encode((1, 2, 0, 0))
    with pytest.raises(ArgumentError, match="place"):
        protocol.run((0,) * 4, (0,) * 4, (0,) * 4, (0,) * 6, 6)
    with pytest.raises(ArgumentError, match="sets with a common element"):
        best_cheat(protocol, (0,) * 4, (0,) * 4, (0,) * 4)
    with pytest.raises(ArgumentError, match="at most 200000 tries"):
        best_cheat(Protocol(18, 2), (1,) * 18, (1,) * 18, (1,) * 18)
    with pytest.raises(ArgumentError, match="Merlin's words"):
        admissible_words(Protocol(18, 2))
    assert not protocol.admissible((0, 0, 0))
