"""Half types in the kernels give the bits of the call widened to float32 and rounded, without copies of the inputs.

The forward passes of avx512_bf16 and avx512_amx have other bits in bfloat16, within their bound: see test_bfloat16.py.
"""

from __future__ import annotations

import ctypes
import math

import pytest
import torch

import separatrix as sx
from separatrix.attention.call import check_call
from separatrix.attention.exact import native as native_backend
from separatrix.attention.exact.error_bound import backend_bounds, score_radii, value_ends
from separatrix.attention.exact.operators import attend, attend_backward, operator_call
from separatrix.native import native, runnable
from tests.attention.exact.peak_bytes import peak_bytes
from tests.pairwise import pairwise

LIBRARY = native().library
ARCHITECTURES = [] if LIBRARY is None else runnable(LIBRARY)
HALF = [torch.float16, torch.bfloat16]

pytestmark = pytest.mark.skipif(LIBRARY is None, reason=f"The kernels do not run. {native().reason}")


@pytest.fixture(params=ARCHITECTURES)
def architecture(request):
    chosen = LIBRARY.separatrix_chosen()
    assert LIBRARY.separatrix_choose(request.param.encode()) == 0
    yield request.param
    assert LIBRARY.separatrix_choose(chosen) == 0


def same(a, b):
    """Whether all entries are equal bit for bit; NaNs are equal to each other."""
    return a.dtype == b.dtype and torch.equal(a.nan_to_num(7.0), b.nan_to_num(7.0)) and torch.equal(a != a, b != b)


def product(*values):
    """The products of rows of values, (columns,) each, as attention to one token of each set computes them."""
    token = torch.zeros(1, 1, 1, dtype=values[0].dtype)
    call = check_call(token, [token] * len(values), [x.reshape(1, 1, -1) for x in values])
    return native_backend.forward(call)[0].flatten()


@pytest.mark.parametrize("dtype", HALF)
def test_every_half_number_survives_widening(architecture, dtype):
    numbers = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16).view(dtype)
    assert same(product(numbers), numbers)


@pytest.mark.parametrize("dtype", HALF)
def test_products_are_rounded_as_pytorch_does(architecture, dtype):
    """Products of numbers with all exponents and last digits: ties, subnormal numbers, and overflow."""
    generator = torch.Generator().manual_seed(0)
    bits = torch.randint(-(2**15), 2**15, (2, 400_000), generator=generator, dtype=torch.int32)
    bits[:, ::3] &= -32  # few digits, so that products are often halfway between two numbers
    a, b = bits.to(torch.int16).view(dtype)
    if dtype == torch.bfloat16:  # a product between the largest number of bfloat16 and that of float32
        a[0], b[0] = 2.0**63 * 129 / 128, 2.0**64 * 254 / 128
    exact = a.float() * b.float()
    expected = exact.to(dtype)
    finite = exact.isfinite()
    assert bool((expected.isinf() & finite).any())
    assert bool((expected == 0)[(exact != 0) & finite].any())
    actual = product(a, b)
    assert same(actual[finite], expected[finite])
    assert not bool(actual[~finite].isfinite().any())


POSITIONS = {
    "all": (False, 0, [0, 0, 0]),
    "causal": (True, 1, [0, 0, 0]),
    "windows": (False, 3, [9, 5, 20]),
    "a window and causality": (True, -2, [0, 7, 0]),
}


def drawn(dtype, order, masked=False, strided=False, heads=3, length=26, size=1.0):
    """Query, keys, values and masks in a half type."""
    generator = torch.Generator().manual_seed(order)

    def some(rows, columns):
        x = (size * torch.randn(heads, rows, columns, generator=generator)).to(dtype)
        if strided == "columns":
            return torch.stack([x, x], -1)[..., 0]
        return x.transpose(0, 1).contiguous().transpose(0, 1) if strided else x

    lengths = [length + 1, length - 3, length][: order - 1]
    query = some(length, 9)
    keys, values = [some(n, 9) for n in lengths], [some(n, 7) for n in lengths]
    masks = [torch.rand(heads, n, generator=generator) < 0.7 for n in lengths] if masked else []
    return query, keys, values, masks, generator


def widened(x):
    return [each.float() for each in x] if isinstance(x, list) else x.float()


def check_both_passes(dtype, tensors, masks, positions, generator, hidden=False):
    """Compare both passes with those of a call on widened tensors, whose results are rounded."""
    rest = (masks, positions[0], positions[1], positions[2][: len(tensors[1])], 0.3)
    wide = [widened(x) for x in tensors]
    if hidden:  # masked entries are zero in one call, and NaN in the other
        for sets, zeroed in zip(tensors[1:], wide[1:], strict=True):
            for x, y, mask in zip(sets, zeroed, masks, strict=True):
                x.masked_fill_(~mask.unsqueeze(-1), math.nan)
                y.masked_fill_(~mask.unsqueeze(-1), 0.0)
    out, lse = attend(*tensors, *rest)
    wide_out, wide_lse = attend(*wide, *rest)
    call = operator_call(*tensors, *rest)
    if native_backend.summation(call, dtype).operand_unit:
        bounds = backend_bounds(call, score_radii(call), value_ends(call), dtype)
        assert ((out.float() - wide_out).abs().amax(-1) <= bounds[0]).all()
        assert torch.equal(lse == -math.inf, wide_lse == -math.inf)
        assert ((lse - wide_lse).nan_to_num(0.0).abs() <= bounds[1]).all()
    else:
        assert same(out, wide_out.to(dtype))
        assert same(lse, wide_lse)
    sizes = torch.exp2(torch.randint(-9, 3, (*out.shape[:2], 1), generator=generator).float())
    grad_out = (sizes * torch.randn(out.shape, generator=generator)).to(dtype)
    grad_lse = torch.randn(lse.shape, generator=generator)
    actual = attend_backward(*tensors, *rest, out, lse, grad_out, grad_lse)
    expected = attend_backward(*wide, *rest, out.float(), lse, grad_out.float(), grad_lse)
    for x, y in zip(actual, expected, strict=True):
        assert same(x, y.to(dtype))
    return out, actual


@pytest.mark.parametrize(
    ("dtype", "order", "positions", "masked", "strided"),
    pairwise(HALF, [2, 3, 4], POSITIONS, [False, True], [False, "rows", "columns"]),
)
def test_the_bits_are_those_of_a_call_widened_as_a_whole(dtype, order, positions, masked, strided):
    query, keys, values, masks, generator = drawn(dtype, order, masked, strided)
    out, _ = check_both_passes(dtype, [query, keys, values], masks, POSITIONS[positions], generator, hidden=masked)
    assert bool(out.isfinite().all())
    assert out.abs().max() > 0.1


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("order", [2, 3])
def test_the_bits_are_the_same_on_every_architecture(architecture, dtype, order):
    query, keys, values, masks, generator = drawn(dtype, order, masked=True, length=70)
    check_both_passes(dtype, [query, keys, values], masks, POSITIONS["causal"], generator, hidden=True)


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("size", [2.0**-12, 2.0**5])
def test_the_bits_are_the_same_with_balanced_factors(dtype, size):
    query, keys, values, masks, generator = drawn(dtype, 3, size=size)
    assert not native_backend.size_of(check_call(query, keys, values, scale=0.3)).near_one
    check_both_passes(dtype, [query, keys, values], masks, POSITIONS["all"], generator)


@pytest.mark.parametrize("dtype", HALF)
def test_the_bits_are_the_same_with_nonfinite_entries(dtype):
    query, keys, values, masks, generator = drawn(dtype, 3)
    values[0][1, 20, 3], keys[1][2, 15, 0] = math.nan, math.inf
    out, gradients = check_both_passes(dtype, [query, keys, values], masks, POSITIONS["causal"], generator)
    assert bool(out[0].isfinite().all())
    assert not bool(out[1].isfinite().all())
    assert not bool(gradients[1].isfinite().all())


def test_an_output_beyond_the_type_is_refused():
    query = torch.zeros(1, 2, 4, dtype=torch.float16)
    values = [torch.full((1, 3, 2), 300.0, dtype=torch.float16)] * 2
    keys = [torch.zeros(1, 3, 4, dtype=torch.float16)] * 2
    with pytest.raises(sx.SeparatrixError, match=r"exceeds 6\.55e\+04, the largest number of torch\.float16"):
        sx.tensor_attention(query, keys, values)
    wide = [x.to(torch.bfloat16) for x in values]
    keys = [x.to(torch.bfloat16) for x in keys]
    assert sx.tensor_attention(query.to(torch.bfloat16), keys, wide).isfinite().all()


def held_by_kernels(function):
    """The largest number of bytes that the kernels use at one time during a call, on one thread."""
    LIBRARY.separatrix_highest_bytes.restype = ctypes.c_int64
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        LIBRARY.separatrix_highest_bytes()
        function()
        return LIBRARY.separatrix_highest_bytes()
    finally:
        torch.set_num_threads(threads)


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("masked", [False, True], ids=["", "masked"])
def test_nothing_is_widened_as_a_whole(dtype, masked):
    """PyTorch allocates only the results, and the kernels use as much memory as for float32, up to a few rows."""
    query, keys, values, masks, _ = drawn(dtype, 3, masked, heads=4, length=200)
    rest = (masks, False, 0, [0, 0], 0.3)
    tensors, wide = [query, keys, values], [widened(x) for x in (query, keys, values)]
    copy = 4 * sum(x.numel() for x in (query, *keys, *values))
    out, lse = attend(*tensors, *rest)
    incoming = (out, lse, torch.ones_like(out), torch.ones_like(lse))
    passes = [
        (lambda: attend(*tensors, *rest), lambda: attend(*wide, *rest)),
        (
            lambda: attend_backward(*tensors, *rest, *incoming),
            lambda: attend_backward(*wide, *rest, *(x.float() for x in incoming)),
        ),
    ]
    for half, full in passes:
        results = sum(x.nbytes for x in half())
        assert peak_bytes(half) - results < min(4096, copy / 10)
        assert held_by_kernels(half) <= held_by_kernels(full) + 4096
