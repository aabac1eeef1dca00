"""Statistics of tensors by the kernels of each architecture: extremes, norms, and entries that are invalid."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from separatrix.attention.bounds import extremes, is_sound, token_norms
from tests.native.conftest import HERE
from tests.pairwise import pairwise

SHAPES = ((1, 1, 1), (2, 5, 3), (1, 4097, 8), (3, 100, 17), (1, 9000, 2), (2, 0, 4), (2, 3, 0), (0, 3, 4))


def drawn(shape: tuple[int, ...], dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Tokens whose rows are not contiguous, and a mask that hides some of them."""
    generator = torch.Generator().manual_seed(sum(shape))
    x = torch.randn(*shape[:2], shape[2] + 3, generator=generator, dtype=torch.float64).to(dtype)[..., 1 : shape[2] + 1]
    return x, torch.rand(shape[:2], generator=generator) < 0.7


@pytest.mark.parametrize(
    ("architecture", "shape", "dtype", "masked"),
    pairwise(HERE, SHAPES, [torch.float32, torch.float64], [False, True]),
    indirect=["architecture"],
)
def test_extremes(architecture: str, shape: tuple[int, ...], dtype: torch.dtype, masked: bool) -> None:
    x, mask = drawn(shape, dtype)
    hidden = (~mask if masked else torch.zeros_like(mask)).unsqueeze(-1)
    least, most = extremes([x], [mask if masked else None])[:, 0]
    if not shape[1]:
        assert least.isposinf().all()
        assert most.isneginf().all()
        return
    assert torch.equal(least, x.double().masked_fill(hidden, math.inf).amin(1))
    assert torch.equal(most, x.double().masked_fill(hidden, -math.inf).amax(1))


@pytest.mark.parametrize("place", [0, 1, 7, 8, 4095, 4096, 4999])
def test_nonfinite_entries_are_detected(architecture: str, place: int) -> None:
    x = torch.zeros(1, 5000, 9)
    for bad in (math.nan, math.inf, -math.inf):
        x[0, place, 8] = bad
        least, most = extremes([x], [None])[:, 0]
        assert torch.equal(least[0, :8], torch.zeros(8).double())
        assert not math.isfinite(least[0, 8]) or not math.isfinite(most[0, 8])
        assert math.isnan(bad) == (math.isnan(least[0, 8]) and math.isnan(most[0, 8]))
    hidden = torch.ones(1, 5000, dtype=torch.bool)
    hidden[0, place] = False
    assert torch.equal(extremes([x], [hidden])[1, 0], torch.zeros(1, 9).double())


@pytest.mark.parametrize(
    ("architecture", "shape", "dtype", "power"),
    pairwise(HERE, SHAPES, [torch.float32, torch.float64], [1, 2, 3, 7]),
    indirect=["architecture"],
)
def test_norms(architecture: str, shape: tuple[int, ...], dtype: torch.dtype, power: int) -> None:
    """Sums of positive terms: the number of roundings is proportional to the columns, which bounds the difference."""
    x, mask = drawn(shape, dtype)
    heads, length, d = shape
    generator = torch.Generator().manual_seed(power)
    factors, weights = torch.randn(2, heads, d, generator=generator, dtype=torch.float64)
    weights = weights.abs()
    y = (x.to(torch.float64) * factors.unsqueeze(1)).abs()
    norms = token_norms(x, power, factors, None, weights)
    assert norms is not None
    within = {"rtol": (2 * d + 2 * power + 4) * 2.0**-53, "atol": 0.0}
    torch.testing.assert_close(norms.powers, (y**power).sum(-1), **within)
    torch.testing.assert_close(norms.weighted, (y * weights.unsqueeze(1)).sum(-1), **within)
    most = (y**power).sum(-1).amax(1) if length else torch.zeros(heads).double()
    torch.testing.assert_close(norms.largest, most, **within)
    seen = token_norms(x, power, factors, mask)
    assert seen is not None
    assert seen.powers is None
    most = (y**power).sum(-1).masked_fill(~mask, 0.0).amax(1) if length else most
    torch.testing.assert_close(seen.largest, most, **within)


@pytest.mark.parametrize(
    ("architecture", "shape", "dtype"),
    pairwise(
        HERE,
        [(1, 1, 1, 1), (2, 3, 5, 7), (1, 2, 1100, 64), (3, 1, 70000, 1)],
        [torch.float64, torch.float32, torch.bfloat16, torch.float16],
    ),
    indirect=["architecture"],
)
def test_a_valid_tensor_is_accepted(architecture: str, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    """Every non-finite entry, and every zero of the first column, is detected; the largest numbers are accepted."""
    most = torch.finfo(dtype).max
    x = torch.full(shape, 1.0, dtype=dtype)
    x[..., 1:] = 0.0
    x[0, 0, 0, -1] = most
    transposed = x.transpose(1, 2).contiguous().transpose(1, 2)
    assert is_sound(x)
    assert is_sound(transposed)
    places = torch.randint(x.numel(), (9,), generator=torch.Generator().manual_seed(1)).tolist()
    for place in {0, x.numel() - 1, *places}:
        for bad in (math.nan, math.inf, -math.inf, *([0.0, -0.0] if place % shape[3] == 0 else [])):
            for y in (x.clone(), transposed.clone()):  # a clone keeps the strides
                y[tuple(torch.unravel_index(torch.tensor(place), shape))] = bad
                assert not is_sound(y)
