"""Exact probabilities against complete enumeration, and against cases computed by hand."""

from __future__ import annotations

import dataclasses
import itertools
import math
from fractions import Fraction

import pytest
import scipy.stats
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from separatrix.errors import ArgumentError, SeparatrixError
from separatrix.separation import CrossAttention, Probabilities, SelfAttention
from tests.pairwise import pairwise
from tests.separation.literal import attention, enumerate_probabilities, sign_vectors

PAPER = {"a0": 0.01, "a1": 1.2, "b": 0.2, "c": 0.8}


def close(first: Probabilities, second: Probabilities) -> None:
    for name in dataclasses.asdict(first):
        assert math.isclose(getattr(first, name), getattr(second, name), rel_tol=0, abs_tol=1e-12), name


def check(setting: SelfAttention | CrossAttention) -> None:
    close(setting.success_probability(), enumerate_probabilities(setting))


@pytest.mark.parametrize("weights", ["identity", "ones"])
@pytest.mark.parametrize(("d", "t"), [(3, 2), (3, 5), (4, 1), (4, 4), (5, 3), (6, 1), (6, 3), (7, 2), (8, 2), (10, 2)])
def test_self_attention_of_the_paper(weights: str, d: int, t: int) -> None:
    check(SelfAttention((d - 2) * t, d, 7, **PAPER, weights=weights))


@pytest.mark.parametrize("weights", ["identity", "ones"])
def test_self_attention_of_width_twelve(weights: str) -> None:
    check(SelfAttention(20, 12, 15, **PAPER, weights=weights))


@pytest.mark.parametrize(("d", "t"), [(2, 2), (2, 7), (3, 1), (3, 4), (4, 5), (5, 2), (6, 3), (9, 2), (11, 1), (12, 2)])
def test_cross_attention_of_the_paper(d: int, t: int) -> None:
    check(CrossAttention((d - 1) * t, d, 5, a0=0.01, a1=3))


AWKWARD = [
    {"a0": 0, "a1": 0, "b": 0.5, "c": 0.5},  # no special key: sums are equal to tau
    {"a0": 0.2, "a1": 0.2, "b": 0.2, "c": 0.8},  # D0 = D1
    {"a0": 0.2, "a1": 1, "b": 0, "c": 1},  # the classes have no effect
    {"a0": 0.05, "a1": 2, "b": 1, "c": 0},  # no constant column
    {"a0": 0.1, "a1": 0.7, "b": 0.1, "c": 0.9},
    {"a0": 1.5, "a1": 0.3, "b": 0.4, "c": 0.6},  # F fires on D0 more often than on D1
    {"a0": -0.4, "a1": -1.1, "b": 0.4, "c": 0.6},
    {"a0": 0.3, "a1": 1.1, "b": -0.4, "c": 0.9},  # more +1 signs decrease the sum
    {"a0": 0.3, "a1": 1.1, "b": 0.4, "c": -0.9},
    {"a0": 0.3, "a1": 0.1, "b": -0.4, "c": -0.9},  # linear normalisers are negative
    {"a0": 0.5, "a1": 1, "b": 1, "c": 1},  # rational powers of n
    {"a0": 0.3, "a1": 1, "b": 0.5, "c": 0.5},  # in some cases only F_lin fires on D0
]


@pytest.mark.parametrize(
    ("weights", "parameters", "shape"), pairwise(["identity", "ones"], AWKWARD, [(9, 5), (16, 6), (8, 6)])
)
def test_parameters_outside_the_theorems(weights: str, parameters: dict[str, float], shape: tuple[int, int]) -> None:
    n, d = shape
    check(SelfAttention(n, d, 3, **parameters, weights=weights, strict=False))


@pytest.mark.parametrize("weights", ["identity", "ones"])
@pytest.mark.parametrize(("n", "d"), [(7, 5), (8, 5), (2, 6), (3, 6), (5, 6), (7, 7), (13, 8)])
def test_classes_of_two_sizes(weights: str, n: int, d: int) -> None:
    check(SelfAttention(n, d, 4, **PAPER, weights=weights, strict=False))


@pytest.mark.parametrize(("n", "d"), [(7, 4), (8, 4), (2, 5), (3, 6), (9, 6), (20, 12)])
def test_cross_attention_with_classes_of_two_sizes(n: int, d: int) -> None:
    check(CrossAttention(n, d, 4, a0=0.3, a1=1.5, strict=False))


@pytest.mark.parametrize("tau", [0, "0.3", 1, "1.7", -1])
def test_a_tau_of_ones_own(tau: int | str) -> None:
    check(SelfAttention(12, 6, 3, **PAPER, tau=tau))
    check(SelfAttention(12, 6, 3, **PAPER, tau=tau, weights="ones"))
    check(CrossAttention(12, 5, 3, a0=0.05, a1=2, tau=tau))


def test_rows_of_classes_with_sign_minus() -> None:
    """All classes -1, y_1 = -1 and no other row in j3's class: a row of another class has the largest sum."""
    setting = SelfAttention(4, 6, 3, **PAPER, tau="0.2")
    Y = -torch.ones(6, 1, dtype=torch.float64)
    Y[-1] = 1
    z = attention(setting.element(1, 0), setting.weight_matrix(), "exp") @ Y - setting.threshold
    assert z[0] < 0 < z[1:].min()
    check(setting)


@pytest.mark.parametrize("setting", [
    SelfAttention(12, 6, 3, **PAPER), SelfAttention(12, 6, 3, **PAPER, weights="ones"),
    CrossAttention(12, 5, 3, a0=0.05, a1=2), CrossAttention(11, 5, 3, a0=0.05, a1=2, strict=False),
], ids=str)  # fmt: skip
def test_signs_redrawn_for_each_network(setting: SelfAttention | CrossAttention) -> None:
    close(setting.success_probability(shared_signs=False), enumerate_probabilities(setting, shared_signs=False))


decimals = st.integers(-30, 30).map(lambda k: Fraction(k, 10))


@settings(max_examples=60)
@given(
    weights=st.sampled_from(["identity", "ones"]),
    n=st.integers(2, 12),
    d=st.integers(3, 6),
    m=st.integers(1, 4),
    a0=decimals, a1=decimals, b=decimals, c=decimals,
)  # fmt: skip
def test_any_small_self_attention(
    weights: str, n: int, d: int, m: int, a0: Fraction, a1: Fraction, b: Fraction, c: Fraction
) -> None:
    setting = SelfAttention(n, d, m, a0, a1, b, c, weights=weights, strict=False)
    undefined = (
        b == c == 0
        if weights == "identity"
        else 0 in (b + c, *(x for a in (a0, a1) for x in (a + b + c, a + n * (b + c))))
    )
    if undefined:
        with pytest.raises(SeparatrixError, match="sum to zero"):
            setting.success_probability()
    else:
        check(setting)


@settings(max_examples=60)
@given(
    n=st.integers(2, 12),
    d=st.integers(2, 6),
    m=st.integers(1, 4),
    a0=decimals.map(abs),
    a1=decimals.map(abs),
    tau=decimals,
)
def test_any_small_cross_attention(n: int, d: int, m: int, a0: Fraction, a1: Fraction, tau: Fraction) -> None:
    check(CrossAttention(n, d, m, a0, a1, tau, strict=False))


def test_two_sign_vectors_together() -> None:
    """The formula for m vectors agrees with the enumeration of all 2^(2d) pairs of vectors."""
    setting = SelfAttention(6, 5, 2, a0=0.05, a1=1.5, b=0.4, c=0.6)
    Y, W = sign_vectors(5), setting.weight_matrix()
    pairs = list(itertools.product(range(Y.shape[1]), repeat=2))
    hits = 0
    for j0, j1 in itertools.product(range(6), repeat=2):
        fires = {
            (mechanism, which): ((attention(setting.element(which, j), W, mechanism) @ Y) > setting.threshold).any(0)
            for which, j in ((0, j0), (1, j1))
            for mechanism in ("exp", "lin")
        }
        bad = (fires["lin", 1] | fires["exp", 0] | fires["lin", 0]).tolist()
        good = fires["exp", 1].tolist()
        hits += sum((good[p] or good[q]) and not (bad[p] or bad[q]) for p, q in pairs)
    assert math.isclose(setting.success_probability().success, hits / (36 * len(pairs)), abs_tol=1e-12)


def test_special_classes_matter() -> None:
    """D0 and D1 have independent special indices: with the same class, the probability of success would differ."""
    assert SelfAttention(200, 12, 15, 0.01, 1.2, 0.2, 0.8).success_probability().success == pytest.approx(
        0.469, abs=1e-3
    )
    setting = SelfAttention(200, 12, 15, 0.6, 1.2, 0.2, 0.8, strict=False)
    assert setting.success_probability().success == pytest.approx(0.425, abs=1e-3)
    shares = [(bad / total, good / total) for _, (bad, total), (good, _) in setting._mixture().joint]
    cases = [(1 - bad) ** 15 - (1 - bad - good) ** 15 for bad, good in shares]
    assert cases == pytest.approx([0.469, 0.420], abs=1e-3)
    check(SelfAttention(36, 8, 15, 0.65, 1.2, 0.2, 0.8, strict=False))


def test_one_class_by_hand() -> None:
    """d = 2, n = 2: rows (1, 1) and (0, 1), so <c, y> = w y_1 + y_2 with w = 1/2, or n^a / (n^a + 1) in row j2.

    With tau = 0.9 positive y_1 and y_2 always fire; y = (1, -1) and (-1, -1) never; (-1, 1) gives 1 - w <= 1/2.
    """
    probability = CrossAttention(2, 2, 3, a0=0.05, a1=2).success_probability()
    quiet = 0.75**3
    close(probability, Probabilities(1 - quiet, quiet, quiet, quiet, 0.0))
    assert probability.success == 0


@pytest.mark.parametrize("n", [10**3, 10**9, 10**30, 10**100])
def test_a_tie_broken_by_one_over_n(n: int) -> None:
    """Cross-attention with 20 classes: 19 of them +1 give 18/20 = tau, and the first sign breaks the tie by 1/n."""
    setting = CrossAttention(n, 21, 1, a0=0.01, a1=3)
    fires = sum(math.comb(20, k) for k in (20,)) * 2 + math.comb(20, 19)
    # In row j2, linear attention adds a / (n + a) to j3's coordinate and subtracts as much from all: the same ties.
    assert setting.success_probability().lin_silent_on_d0 == pytest.approx(1 - fires / 2**21, abs=1e-15)


def test_huge_n_is_the_limit_of_large_n() -> None:
    ones = [SelfAttention(10**k, 102, 15, **PAPER, weights="ones").success_probability().success for k in (20, 60, 100)]
    assert ones == pytest.approx([1 - 0.75**15] * 3, abs=1e-4)


def test_the_rounded_probabilities_of_cases_add_up_to_no_more_than_one() -> None:
    """A setting with six cases, in each of which the probability of success is 1 - 4e-17."""
    setting = SelfAttention(10610, 14, 131, a0=0, a1="0.8775", b=0, c="0.01", weights="ones", strict=False)
    assert setting.success_probability().success == 1.0
    assert -17 < setting.log10_failure().success < -16


def test_complements_are_as_precise() -> None:
    setting = SelfAttention(10**100, 100_002, 15, **PAPER, weights="ones")
    failure = setting.log10_failure()
    # A vector fires when c + b (2 P / g - 1) exceeds c + 0.1, so at three quarters of the signs; and y_d must be +1.
    tail = (scipy.stats.binom.logpmf(75_000, 100_000, 0.5) + math.log(1.5)) / math.log(10)
    assert failure.lin_silent_on_d0 == pytest.approx(tail + math.log10(15 / 2), abs=0.5)
    assert failure.success == pytest.approx(15 * math.log10(0.75), abs=1e-12)
    small = SelfAttention(200, 12, 15, **PAPER)
    for name, p in dataclasses.asdict(small.success_probability()).items():
        assert 10 ** getattr(small.log10_failure(), name) == pytest.approx(1 - p, abs=1e-14)


def test_the_width_enters_only_through_the_power() -> None:
    probabilities = [SelfAttention(200, 12, m, **PAPER).success_probability().lin_silent_on_d1 for m in (1, 2, 3)]
    assert probabilities == pytest.approx([probabilities[0], probabilities[0] ** 2, probabilities[0] ** 3], abs=1e-15)


class TestOtherWeights:
    def test_named_matrices_agree_with_their_counts(self) -> None:
        for name in ("identity", "ones"):
            setting = SelfAttention(24, 8, 5, **PAPER, weights=name)
            matrix = SelfAttention(24, 8, 5, **PAPER, weights=setting.weight_matrix())
            close(matrix.success_probability(), setting.success_probability())

    @pytest.mark.parametrize("seed", range(4))
    def test_random_decimals(self, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        weights = torch.randint(-9, 20, (6, 6), generator=generator).double() / 10
        for n in (8, 11):
            check(SelfAttention(n, 6, 3, 0.3, 1.1, 0.3, 0.7, weights=weights, strict=False))

    def test_uneven_and_absolute_tau(self) -> None:
        weights = torch.eye(6) + torch.ones(6, 6) / 4
        check(SelfAttention(11, 6, 3, **PAPER, weights=weights.double(), tau="1.1", strict=False))

    def test_huge_n(self) -> None:
        weights = SelfAttention(10**50, 7, 1, **PAPER).weight_matrix()
        named, matrix = (SelfAttention(10**50, 7, 3, **PAPER, weights=w, strict=False) for w in ("identity", weights))
        close(matrix.success_probability(), named.success_probability())

    def test_nothing_to_attend_by(self) -> None:
        for tau in (0, 1):
            with pytest.raises(SeparatrixError, match="sum to zero"):
                SelfAttention(6, 5, 1, 0, 0, 0, 0, tau=tau, strict=False).success_probability()

    def test_too_wide(self) -> None:
        with pytest.raises(ArgumentError, match="d: expected at most 20 for weights neither identity"):
            SelfAttention(190, 21, 3, **PAPER, weights=torch.eye(21)).success_probability()
        with pytest.raises(ArgumentError, match="or for negative parameters, got 22"):
            SelfAttention(200, 22, 3, 0.01, 1.2, -0.2, 1.2, strict=False).success_probability()


@pytest.mark.parametrize("m", [1, 3])
def test_a_share_that_rounds_to_one_is_not_one(m: int) -> None:
    """All but one in 10^17 sign vectors fail: the small remainder is accurate to 256 bits."""
    setting = SelfAttention(200, 58, m, "1.04", "2.56", "1.81", "0.75", "identity", strict=False)
    probability, failure = setting.success_probability(), setting.log10_failure()
    for name in ("success", "exp_silent_on_d0", "lin_silent_on_d0", "exp_fires_on_d1"):
        assert getattr(probability, name) == pytest.approx(
            -math.expm1(math.log(10) * getattr(failure, name)), abs=1e-15
        )
    assert 0 < probability.success <= probability.exp_silent_on_d0 < 1e-15
