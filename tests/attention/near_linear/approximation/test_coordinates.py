"""The balanced basis of order 2: its definition, the rank that it saves, and its rounding."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import separatrix as sx
from separatrix.attention import reference
from separatrix.attention.bounds import input_bounds
from separatrix.attention.call import check_call
from separatrix.attention.near_linear import planner
from separatrix.attention.near_linear.analysis import analyse, turned
from separatrix.attention.near_linear.approximation import coordinates
from separatrix.attention.near_linear.approximation.coordinates import key_mean, make_frame
from separatrix.attention.near_linear.forecast import Forecast

WIDE = np.longdouble


def draw(seed: int, heads: int = 1, n: int = 200, d: int = 8, decay: float = 0.5, size: float = 1.0):
    """Query and keys that vary along few directions, none of them a coordinate axis; scores deviate by `size`."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    spectrum = decay ** torch.arange(d)
    query, key = ((normal(heads, n, d) * spectrum) @ normal(heads, d, d) for _ in range(2))
    deviation = (query @ (key - key.mean(1, keepdim=True)).mT).std()
    return query * (size / deviation), key, 2 * torch.rand(heads, n, 3, generator=generator, dtype=torch.float64) - 1


def frames(query, key, value, masks=(), scale=1.0, slack=0.0):
    tokens = check_call(query, key, value, key_masks=masks or None, scale=scale)
    frame = make_frame(tokens, input_bounds(tokens), key_mean(tokens), torch.float64, False)
    return tokens, frame, coordinates.rotated(tokens, frame, slack)


def test_moments_become_equal_and_diagonal_and_scores_stay():
    tokens, _, frame = frames(*draw(0, heads=3))
    x, y = frame.coordinates(tokens.query, 0), frame.coordinates(tokens.keys[0], 1)
    C_q, C_k = x @ x.mT, y @ y.mT
    diagonal = C_q.diagonal(dim1=1, dim2=2)
    assert (C_q - torch.diag_embed(diagonal)).abs().max() < 1e-4 * diagonal.max()  # the ridge is 1e-6 of the moments
    # Powers of two equalise the largest magnitudes, so that only the geometric means of the moments agree.
    assert (diagonal[:, :-1] * C_k.diagonal(dim1=1, dim2=2)[:, :-1]).diff(dim=1).max() < 0
    centred = tokens.keys[0] - tokens.keys[0].mean(1, keepdim=True)
    assert torch.allclose(x.mT @ y, tokens.query @ centred.mT, atol=1e-12)


def test_no_basis_has_a_smaller_sum_of_amplitudes():
    """lambda sums to the nuclear norm of C_q^(1/2) C_k^(1/2); a hundred other bases are not below it."""
    tokens, plain, frame = frames(*draw(1, d=5))
    x, y = frame.coordinates(tokens.query, 0)[0], frame.coordinates(tokens.keys[0], 1)[0]
    least = (x.norm(dim=1) * y.norm(dim=1)).sum()
    q, k = plain.coordinates(tokens.query, 0)[0], plain.coordinates(tokens.keys[0], 1)[0]
    assert torch.allclose(least, torch.linalg.matrix_norm(q.mT @ k, "nuc"), rtol=1e-5)
    generator = torch.Generator().manual_seed(0)
    for _ in range(100):
        B = torch.eye(5) + 0.3 * torch.randn(5, 5, generator=generator, dtype=torch.float64)
        there = ((B @ x).norm(dim=1) * (torch.linalg.inv(B).mT @ y).norm(dim=1)).sum()
        assert there >= least * (1 - 1e-5)


@pytest.mark.parametrize(
    ("seed", "n", "d", "decay", "power"),
    [(0, 200, 8, 0.5, 0), (1, 3, 12, 1.0, 0), (2, 50, 6, 1e-3, 0), (3, 40, 20, 0.1, 30), (4, 2, 5, 1.0, 0)],
)
def test_scores_change_by_at_most_the_drift(seed, n, d, decay, power):
    query, key, value = draw(seed, heads=2, n=n, d=d, decay=decay, size=1.0)
    query, key = query * 2.0**power, key * 2.0**-power + 1.0
    tokens, plain, frame = frames(query, key, value, scale=0.7)
    x, y = (frame.coordinates(z, m).numpy().astype(WIDE) for m, z in ((0, query), (1, key)))
    there = np.einsum("hdi,hdj->hij", x, y)
    wide = [z.numpy().astype(WIDE) for z in (query, key, plain.shift)]
    scores = WIDE(0.7) * np.einsum("hid,hjd->hij", wide[0], wide[1] - wide[2][:, None])
    moved = np.abs(there - scores).max(2)
    allowed = coordinates.drift(tokens, frame).numpy()
    assert (moved <= allowed).all()
    assert allowed.max() < 1e-6 * max(np.abs(scores).max(), 1)


@pytest.mark.parametrize(("d", "decay", "size", "gain"), [(8, 0.5, 0.3, 10), (16, 0.6, 0.15, 7), (32, 0.6, 0.1, 25)])
def test_rank_is_saved(d, decay, size, gain):
    query, key, value = draw(5, n=300, d=d, decay=decay, size=size)
    before = analyse(check_call(query, key, value, scale=1.0))
    result = sx.certified_attention(query, key, value, tolerance=1e-3, scale=1.0, method="polynomial")
    recipe = planner.cheapest_recipe(Forecast(before), 1e-3).recipe
    assert recipe is None or result.plan.rank * gain < recipe.index_set.rank
    exact, _ = reference.tensor_attention(query, [key], [value], scale=1.0)
    assert (result.output - exact).abs().max() <= result.certificate.total <= 1e-3


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("masked", [False, True])
def test_outputs_and_gradients_are_those_of_exact_attention(dtype, masked):
    query, key, value = (x.to(dtype) for x in draw(6, heads=2, n=60, d=6, size=0.5))
    mask = torch.rand(2, 60, generator=torch.Generator().manual_seed(0)) < 0.7 if masked else None
    tolerance, room = (1e-9, 1e-6) if dtype == torch.float64 else (1e-4, 1e-2)
    leaves = [x.clone().requires_grad_() for x in (query, key, value)]
    options = {"scale": 1.0, "key_masks": None if mask is None else [mask]}
    result = sx.certified_attention(*leaves, tolerance=tolerance, method="polynomial", **options)
    _, _, frame = frames(query.double(), key.double(), value.double(), () if mask is None else (mask,))
    assert frame is not None
    weights = torch.randn(result.output.shape, generator=torch.Generator().manual_seed(1), dtype=dtype)
    got = torch.autograd.grad((result.output * weights).sum() + result.lse.sum(), leaves)
    wide = [x.double().requires_grad_() for x in (query, key, value)]
    out, lse = reference.tensor_attention(wide[0], [wide[1]], [wide[2]], **options)
    want = torch.autograd.grad((out * weights).sum() + lse.sum(), wide)
    assert (result.output - out).abs().max() <= result.certificate.total <= tolerance
    assert (result.lse - lse).abs().max() <= result.certificate.lse + 1e-5
    for actual, other in zip(got, want, strict=True):
        assert (actual - other).abs().max() <= room * other.abs().max()


def test_coordinates_without_a_better_basis_are_not_changed():
    """Independent normal entries have no better basis: the search is skipped."""
    generator = torch.Generator().manual_seed(0)
    query, key, value = torch.randn(3, 1, 20000, 8, generator=generator, dtype=torch.float64)
    assert frames(query, key, value)[2] is None


def test_magnitudes_whose_squares_overflow_are_not_changed():
    query, key, value = draw(7)
    assert frames(query * 1e200, key * 1e200, value)[2] is None


def test_causal_attention_keeps_its_coordinates():
    query, key, value = draw(8, size=0.2)
    analysis = analyse(check_call(query, key, value, scale=1.0, is_causal=True))
    assert turned(analysis, 1e-3) is None


def test_negligible_coordinates_are_omitted():
    """Twelve centred tokens span eleven directions: at most that many of 32 coordinates are kept."""
    generator = torch.Generator().manual_seed(9)
    query, key, value = 0.2 * torch.randn(3, 1, 12, 32, generator=generator, dtype=torch.float64)
    tokens, _, frame = frames(query, key, value, slack=1e-4)
    assert frame.width <= 11
    x, y = frame.coordinates(query, 0), frame.coordinates(key, 1)
    moved = (x.mT @ y - query @ (key - key.mean(1, keepdim=True)).mT).abs().amax(-1)
    assert (moved <= coordinates.drift(tokens, frame)).all()
    assert moved.max() < 1e-4
    result = sx.certified_attention(query[0], key[0], value[0], tolerance=1e-3, scale=1.0, method="polynomial")
    exact, _ = reference.tensor_attention(query[0], [key[0]], [value[0]], scale=1.0)
    assert (result.output - exact).abs().max() <= result.certificate.total <= 1e-3
