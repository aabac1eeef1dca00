"""The bounds on the entries of a call that the kernels compute in one pass, against plain PyTorch."""

from __future__ import annotations

import math

import pytest
import torch

from separatrix.attention.call import check_call
from separatrix.attention.exact.native import entry_bounds
from separatrix.attention.near_linear import exact_rounding
from separatrix.errors import ArgumentError
from separatrix.native import native

pytestmark = pytest.mark.skipif(native().library is None, reason="no C++ kernels")


def draw(seed, dtype):
    """A call of awkward sizes: masks, strides, entries of one sign, constant columns, zeros, differing heads."""
    rng = torch.Generator().manual_seed(seed)

    def whole(low, high):
        return int(torch.randint(low, high + 1, (), generator=rng))

    sets, heads, d, d_v = whole(1, 3), whole(1, 4), whole(1, 19), whole(1, 9)
    lengths = [whole(1, 40) for _ in range(sets)]

    def tokens(length, columns):
        x = torch.randn(heads, columns, length, dtype=dtype, generator=rng).mT
        if whole(0, 1):  # sizes of columns that differ make the bound by amplitudes the smaller one
            x = x * 2.0 ** torch.randint(-9, 10, (heads, 1, columns), generator=rng)
        x = x + float(torch.randn((), generator=rng))
        x[:, :, 0] = x[:, :, 0].abs() if whole(0, 1) else whole(-1, 1)
        return x if whole(0, 1) else x.contiguous()

    options = {"scale": float(torch.randn((), generator=rng))}
    if whole(0, 1):
        options["key_masks"] = [torch.rand(heads, n, generator=rng) < whole(0, 2) / 2 for n in lengths]
    query, keys, values = tokens(whole(1, 40), d), [tokens(n, d) for n in lengths], [tokens(n, d_v) for n in lengths]
    for m, mask in enumerate(options.get("key_masks", ())):
        keys[m][~mask] = values[m][~mask] = math.nan  # hidden tokens may be anything
    return check_call(query, keys, values, **options)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("seed", range(40))
def test_the_kernels_bound_entries_as_plain_pytorch_does(seed, dtype):
    call = draw(seed, dtype)
    found, expected = exact_rounding._read_by_kernels(call), exact_rounding._read(call)
    assert found is not None
    for x, y in ((found.radii, expected.radii), *zip(found.ends, expected.ends, strict=True)):
        torch.testing.assert_close(x, y, rtol=1e-13, atol=0.0)
    assert found.values == pytest.approx(expected.values, rel=1e-13, abs=1e-13)
    assert found.scores == pytest.approx(expected.scores, rel=1e-13, abs=1e-13)


@pytest.mark.parametrize("name", ["query", "keys[1]", "values[0]"])
@pytest.mark.parametrize("entry", [math.nan, math.inf, -math.inf])
def test_entries_that_are_not_finite_are_named(name, entry):
    x = torch.rand(6, 2, 5, 3, generator=torch.Generator().manual_seed(0))
    {"query": x[0], "keys[1]": x[2], "values[0]": x[3]}[name][1, 4, 2] = entry
    with pytest.raises(ArgumentError, match=name.replace("[", r"\[")):
        exact_rounding.entries_of(check_call(x[0], [x[1], x[2]], [x[3], x[4]]))


def test_other_calls_are_read_by_plain_pytorch():
    half = torch.rand(3, 2, 5, 4, generator=torch.Generator().manual_seed(0)).to(torch.bfloat16)
    call = check_call(half[0], half[1], half[2])
    assert entry_bounds(call) is None
    wide = exact_rounding.entries_of(call.to(torch.float32))
    torch.testing.assert_close(exact_rounding.entries_of(call).radii, wide.radii, rtol=1e-13, atol=0.0)
