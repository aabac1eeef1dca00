"""The restricted isometry constant: against its literal definition, its bounds, and the two lemmas on encodings."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from separatrix.errors import ArgumentError
from separatrix.selection import isometry
from separatrix.selection.construction import overlaps
from separatrix.selection.encodings import near_orthogonal_encoding, subset_code
from separatrix.selection.isometry import coherence, restricted_isometry
from separatrix.selection.task import all_subsets


def _literal(E: Tensor, q: int) -> tuple[float, float]:
    """The constants by definition: over every set of size up to q, and every disjoint pair of sizes up to q and 2q."""
    T = len(E)
    squares = pairs = 0.0
    for size in range(1, q + 1):
        for S in itertools.combinations(range(T), size):
            singular = torch.linalg.svdvals(E[list(S)])
            squares = max(squares, *(singular.square() - 1).abs().tolist())
            rest = [i for i in range(T) if i not in S]
            for other in range(1, min(2 * q, len(rest)) + 1):
                for S_prime in itertools.combinations(rest, other):
                    pairs = max(pairs, float(torch.linalg.matrix_norm(E[list(S)] @ E[list(S_prime)].T, 2)))
    return squares, pairs


def _encoding(T: int, width: int, seed: int) -> Tensor:
    return near_orthogonal_encoding(T, width, threshold=0.9, generator=seed, dtype=torch.float64).E


@pytest.mark.parametrize(
    ("T", "width", "q"), [(6, 9, 1), (6, 12, 2), (5, 10, 2), (4, 11, 2), (5, 8, 3), (7, 13, 2), (1, 3, 1)]
)
def test_enumeration_is_the_definition(T: int, width: int, q: int) -> None:
    E = _encoding(T, width, 3)
    isometry, (squares, pairs) = restricted_isometry(E, q), _literal(E, q)
    assert isometry.exact
    assert isometry.isometry == pytest.approx((squares, squares), abs=1e-12)
    assert isometry.orthogonality == pytest.approx((pairs, pairs), abs=1e-12)


def test_the_constant_of_vectors_of_other_lengths() -> None:
    E = _encoding(6, 12, 1) * 1.1
    squares, pairs = _literal(E, 2)
    isometry = restricted_isometry(E, 2)
    assert (isometry.lower, isometry.upper) == pytest.approx((max(squares, pairs),) * 2, abs=1e-12)


@pytest.mark.parametrize(("T", "width", "q"), [(7, 12, 2), (8, 20, 2), (6, 10, 1), (5, 9, 2), (6, 12, 3)])
def test_the_bracket_holds_the_constant(T: int, width: int, q: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(12):
        E = _encoding(T, width, seed)
        exact = restricted_isometry(E, q)
        with monkeypatch.context() as patch:
            patch.setattr(isometry, "ENUMERABLE", 0)
            bracket = restricted_isometry(E, q)
        assert not bracket.exact
        for part in ("isometry", "orthogonality"):
            low, high = getattr(bracket, part)
            value = getattr(exact, part)[0]
            assert low <= value + 1e-12, (seed, part)
            assert value <= high + 1e-12, (seed, part)
            assert low >= 0.8 * value, (seed, part)


def test_the_papers_encodings_have_no_constant_below_a_half() -> None:
    """T = 200, width 170, threshold 0.4, q = 3: a pair of sets shows delta > 1/2, where the theorem requires 1/10."""
    E = near_orthogonal_encoding(200, 170, threshold=0.4, generator=0, dtype=torch.float64).E
    assert restricted_isometry(E, 3).lower > 0.5


@given(st.integers(0, 1000))
def test_coherence_is_the_largest_overlap(seed: int) -> None:
    E = _encoding(6, 10, seed)
    assert coherence(E) == pytest.approx(max(abs(float(a @ b)) for a, b in itertools.combinations(E, 2)), abs=1e-12)


def _star(q: int, width: int) -> Tensor:
    """q orthogonal sign vectors, and one more whose dot product with each of them is c = 2/width."""
    last = torch.ones(width, dtype=torch.float64)
    last[0] = -1
    return torch.cat([-_hadamard(width)[1 : q + 1], last.unsqueeze(0)]) / width**0.5


def _hadamard(n: int) -> Tensor:
    H = torch.ones(1, 1, dtype=torch.float64)
    while len(H) < n:
        H = torch.cat([torch.cat([H, H], 1), torch.cat([H, -H], 1)])
    return H


@pytest.mark.parametrize("q", [2, 3, 4])
def test_lemma_A3_as_printed_fails_and_corrected_holds(q: int) -> None:
    """delta = c sqrt(q) and <e_i, e_y> = q c: more than delta/(1 - 2 delta), less than delta sqrt(q)/(1 - delta)."""
    E = _star(q, 64)
    delta = restricted_isometry(E, q).upper
    y = torch.arange(q)
    overlap = float(overlaps(E, y).abs().max())
    assert delta < 0.1
    assert overlap > delta / (1 - 2 * delta) * 1.05
    assert overlap <= delta * math.sqrt(q) / (1 - delta)


@pytest.mark.parametrize("seed", range(6))
def test_lemma_A3_corrected_holds_for_every_subset(seed: int) -> None:
    E = near_orthogonal_encoding(7, 300, threshold=0.2, generator=seed, dtype=torch.float64).E
    q = 2
    delta = restricted_isometry(E, q).upper
    assert delta < 0.5
    y = all_subsets(7, q)
    norms = torch.linalg.vector_norm(subset_code(E, y), dim=1)
    assert float(norms.max()) <= math.sqrt(q / (1 - delta))
    assert float(overlaps(E, y).abs().max()) <= delta * math.sqrt(q) / (1 - delta)


def test_lemma_A2_random_signs_are_near_isometries_when_wide() -> None:
    """At width 40 q log T / delta^2 each of ten random matrices has the constant delta."""
    T, q, delta = 8, 2, 0.5
    width = math.ceil(40 * q * math.log(T) / delta**2)
    for seed in range(10):
        E = near_orthogonal_encoding(T, width, threshold=1.0, generator=seed, dtype=torch.float64).E
        assert restricted_isometry(E, q).upper <= delta


def test_bad_input_is_refused() -> None:
    with pytest.raises(ArgumentError, match="E: expected shape"):
        restricted_isometry(torch.zeros(2, 3, 4), 1)
    with pytest.raises(ArgumentError, match="q: expected an integer from 1 to 3"):
        restricted_isometry(torch.eye(3), 4)
