"""The C++ kernels against the definition, for every architecture that this processor supports."""

from __future__ import annotations

import math
import re

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import separatrix as sx
from separatrix.attention import reference
from separatrix.attention.call import check_call
from separatrix.attention.exact import balance
from separatrix.attention.exact import native as native_backend
from separatrix.attention.exact import torch as torch_backend
from separatrix.native import native, runnable
from tests.pairwise import pairwise

LIBRARY = native().library
ARCHITECTURES = [] if LIBRARY is None else runnable(LIBRARY)

pytestmark = pytest.mark.skipif(LIBRARY is None, reason=f"The kernels do not run. {native().reason}")


@pytest.fixture(params=ARCHITECTURES)
def architecture(request):
    chosen = LIBRARY.separatrix_chosen()
    assert LIBRARY.separatrix_choose(request.param.encode()) == 0
    yield request.param
    assert LIBRARY.separatrix_choose(chosen) == 0


def drawn(seed, order, heads, query_length, lengths, d, d_v, dtype=torch.float64, size=1.0):
    generator = torch.Generator().manual_seed(seed)

    def some(*shape):
        return size * (2 * torch.rand(heads, *shape, dtype=dtype, generator=generator) - 1)

    keys = [some(length, d) for length in lengths[: order - 1]]
    values = [some(length, d_v) for length in lengths[: order - 1]]
    return some(query_length, d), keys, values, generator


POSITIONS = {
    "all": {},
    "causal": {"is_causal": True, "query_offset": 1},
    "later queries": {"is_causal": True, "query_offset": 37},
    "earlier queries": {"is_causal": True, "query_offset": -5},
    "windows": {"windows": [40, 3, 9, 2]},
    "a window and causality": {"is_causal": True, "windows": [None, 17, None, 5], "query_offset": 2},
}
# Lengths just below, at and above the sizes of vectors, panels, tiles and chunks; the same for d and d_v.
SHAPES = [
    (2, 70, [300], 5, 3),
    (2, 13, [64], 16, 33),
    (3, 9, [31, 290], 7, 16),
    (3, 40, [50, 33], 33, 40),
    (3, 5, [1, 1], 1, 1),
    (4, 7, [13, 9, 17], 4, 9),
    (5, 6, [5, 3, 4, 6], 3, 2),
]


def options_of(positions, order, masked, lengths, heads, generator):
    options = dict(POSITIONS[positions])
    if "windows" in options:
        options["windows"] = options["windows"][: order - 1]
    if masked:
        options["key_masks"] = [torch.rand(heads, n, generator=generator) < 0.6 for n in lengths]
    return options


@pytest.mark.parametrize(
    ("architecture", "shape", "positions", "size", "masked"),
    pairwise(ARCHITECTURES, SHAPES, POSITIONS, [1.0, 12.0], [False, True]),
    indirect=["architecture"],
)
def test_the_kernels_compute_the_definition(architecture, shape, positions, size, masked):
    """Outputs and log-sum-exps are those of the definition; with large scores the kernels subtract maxima."""
    order, query_length, lengths, d, d_v = shape
    query, keys, values, generator = drawn(1, order, 2, query_length, lengths, d, d_v, size=size)
    options = options_of(positions, order, masked, lengths, 2, generator)
    call = check_call(query, keys, values, scale=1.0, **options)
    out, lse = native_backend.forward(call)
    expected, expected_lse = reference.tensor_attention(query, keys, values, scale=1.0, **options)
    empty = expected_lse == -math.inf
    assert torch.equal(lse == -math.inf, empty)
    reach = max(1.0, expected_lse[~empty].abs().max().item() if (~empty).any() else 0.0)
    assert (out - expected).abs().max() <= 1e-13 * reach * max(1.0, expected.abs().max().item())
    assert (lse - expected_lse)[~empty].abs().max() <= 1e-14 * reach if (~empty).any() else True


@pytest.mark.parametrize(
    ("architecture", "shape", "positions", "masked"),
    pairwise(ARCHITECTURES, SHAPES, POSITIONS, [False, True]),
    indirect=["architecture"],
)
def test_the_kernels_compute_its_gradients(architecture, shape, positions, masked):
    order, query_length, lengths, d, d_v = shape
    query, keys, values, generator = drawn(2, order, 2, query_length, lengths, d, d_v)
    options = options_of(positions, order, masked, lengths, 2, generator)
    leaves = [x.requires_grad_() for x in (query, *keys, *values)]
    out, lse = reference.tensor_attention(query, keys, values, scale=1.0, **options)
    empty = lse == -math.inf
    grad_out = torch.rand(out.shape, dtype=out.dtype, generator=generator)
    grad_lse = torch.rand(lse.shape, dtype=lse.dtype, generator=generator)
    loss = (out * grad_out).sum() + (lse.masked_fill(empty, 0.0) * grad_lse).sum()
    expected = torch.autograd.grad(loss, leaves)
    with torch.no_grad():
        call = check_call(query, keys, values, scale=1.0, **options)
        by_query, by_keys, by_values = native_backend.backward(call, *native_backend.forward(call), grad_out, grad_lse)
    for actual, computed in zip((by_query, *by_keys, *by_values), expected, strict=True):
        assert (actual - computed).abs().max() <= 1e-12 * max(1.0, computed.abs().max().item())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "options", [{}, {"is_causal": True, "query_offset": 1}, {"windows": [20, 90]}], ids=["all", "causal", "windows"]
)
def test_bits_do_not_depend_on_the_number_of_threads(dtype, options):
    query, keys, values, generator = drawn(3, 3, 3, 150, [60, 170], 17, 20, dtype)
    call = check_call(query, keys, values, **options)
    grad = torch.rand(3, 150, 20, dtype=dtype, generator=generator)
    found, threads = [], torch.get_num_threads()
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            out, lse = native_backend.forward(call)
            by_query, by_keys, by_values = native_backend.backward(call, out, lse, grad, torch.zeros_like(lse))
            found.append((out, lse, by_query, *by_keys, *by_values))
    finally:
        torch.set_num_threads(threads)
    for other in found[1:]:
        assert all(torch.equal(a, b) for a, b in zip(found[0], other, strict=True))


def test_tensors_may_have_any_strides(architecture):
    query, keys, values, _ = drawn(4, 3, 4, 30, [20, 21], 6, 5)
    expected = native_backend.forward(check_call(query, keys, values))
    apart = [torch.stack([x, x], -1)[..., 0] for x in (query, *keys, *values)]
    rows = [x.transpose(0, 1).contiguous().transpose(0, 1) for x in (query, *keys, *values)]
    for first, *sets in (apart, rows):
        actual = native_backend.forward(check_call(first, sets[:2], sets[2:]))
        assert all(torch.equal(a, b) for a, b in zip(actual, expected, strict=True))


@pytest.mark.parametrize("positions", POSITIONS)
def test_the_error_of_float32_is_within_the_bound(architecture, positions):
    """Errors are measured against float64, for scores up to the size at which no digit of a weight is certain."""
    for seed, size in enumerate((0.1, 1.0, 5.0, 40.0)):
        query, keys, values, _ = drawn(seed, 3, 2, 40, [45, 150], 20, 18, torch.float32, size)
        options = options_of(positions, 3, False, [45, 150], 2, None)
        out, lse = sx.tensor_attention(query, keys, values, return_lse=True, **options)
        wide = [x.double() for x in (query, *keys, *values)]
        exact, exact_lse = reference.tensor_attention(wide[0], wide[1:3], wide[3:], **options)
        bound, lse_bound = sx.exact_error_bound(query, keys, values, return_lse=True, **options)
        assert bool(((out - exact).abs().amax(-1) <= bound).all())
        seen = exact_lse > -math.inf
        assert bool(((lse - exact_lse)[seen].abs() <= lse_bound[seen]).all())


def test_the_modes_of_the_processor_are_set_and_restored(forked):
    """The kernels keep subnormal numbers if the thread flushes them, and leave the thread's mode unchanged."""
    done = forked(
        """
import torch
from separatrix.attention.call import check_call
from separatrix.attention.exact import native as native_backend
q = torch.zeros(1, 1, 1)
tiny = torch.full((1, 1, 1), 1e-41)
call = check_call(q, [q, q], [tiny, torch.ones(1, 1, 1)])
torch.set_flush_denormal(True)
out, _ = native_backend.forward(call)
print(out.view(torch.int32).item() == tiny.view(torch.int32).item(), (tiny * 1.0).view(torch.int32).item())
"""
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "True 0\n", "")


class Attending(torch.utils.data.Dataset):
    """Attention computed in the worker of a data loader."""

    def __init__(self, tensors):
        self.tensors = tensors

    def __len__(self):
        return 2

    def __getitem__(self, index):
        query, *sets = self.tensors
        return sx.tensor_attention(query, sets[:2], sets[2:])


def test_a_forked_worker_may_call_the_kernels():
    query, keys, values, _ = drawn(5, 3, 4, 60, [50, 60], 8, 8)
    expected = sx.tensor_attention(query, keys, values)
    loader = torch.utils.data.DataLoader(
        Attending([query, *keys, *values]), batch_size=None, num_workers=1, multiprocessing_context="fork"
    )
    assert all(torch.equal(found, expected) for found in loader)


@settings(max_examples=300, deadline=None)
@given(
    order=st.integers(2, 4),
    dtype=st.sampled_from([torch.float32, torch.float64]),
    powers=st.lists(st.floats(-200, 200), min_size=7, max_size=7),
    special=st.sampled_from([None, 0.0, math.nan, math.inf]),
    scale=st.floats(-100, 100).map(lambda power: 2.0**power) | st.just(0.0),
    seed=st.integers(0, 1000),
)
def test_the_kernels_compute_the_same_size_bounds(order, dtype, powers, special, scale, seed):
    """Python and C++ each decide which factors need balancing: they must agree."""
    query, keys, values, _ = drawn(seed, order, 2, 3, [2, 4, 3], 3, 2, dtype)
    given = (query, *keys, *values)
    tensors = [x * 2.0 ** (power / 2) * 2.0 ** (power / 2) for x, power in zip(given, powers, strict=False)]
    if special is not None:
        tensors[seed % len(tensors)][seed % 2, 0, 0] = special
    call = check_call(tensors[0], tensors[1:order], tensors[order:], scale=scale)
    expected, actual = balance.size_of(call), native_backend.size_of(call)
    assert (actual.moderate, actual.near_one) == (expected.moderate, expected.near_one)
    if expected.moderate:
        assert actual.log_output == pytest.approx(expected.log_output, abs=1e-5 if dtype == torch.float32 else 1e-9)


def test_long_sums_keep_the_count_of_roundings():
    """The bound holds in the worst case for sums: equal weights, and values whose products are all rounded up."""
    query, keys = torch.zeros(1, 1, 1), [torch.zeros(1, 40, 1), torch.zeros(1, 3000, 1)]
    for value in (1 + 2.0**-23, 1 / 3, 0.7):
        values = [torch.full((1, 40, 1), value), torch.full((1, 3000, 1), value)]
        call = check_call(query, keys, values)
        out, _ = native_backend.forward(call)
        gamma = native_backend.summation(call, torch.float32).gamma(torch.float32)
        exact = float(torch.tensor(value).double()) ** 2
        assert abs(out.item() - exact) <= 2 * gamma * exact


def test_both_engines_agree_in_float32():
    query, keys, values, _ = drawn(6, 3, 2, 50, [40, 300], 24, 40, torch.float32)
    call = check_call(query, keys, values, is_causal=True, query_offset=1)
    out, lse = native_backend.forward(call)
    expected, expected_lse = torch_backend.forward(call)
    assert torch.allclose(out, expected, atol=2e-6)
    assert torch.allclose(lse, expected_lse, atol=2e-6)


@pytest.mark.parametrize("other", range(1, 5))
def test_tensors_of_several_types_are_refused(other):
    """The kernels read all tensors in the query's dtype: another would be misread, beyond the end of its memory."""
    query, keys, values, _ = drawn(0, 3, 1, 4, (4, 4), 2, 2, dtype=torch.float32)
    tensors = [query, *keys, *values]
    tensors[other] = tensors[other].bfloat16()
    name = ("query", "keys[0]", "keys[1]", "values[0]", "values[1]")[other]
    with pytest.raises(sx.ArgumentError, match=rf"^{re.escape(name)}: expected torch.float32.*got torch.bfloat16"):
        torch.ops.separatrix.attend(tensors[0], tensors[1:3], tensors[3:], [], False, 0, [0, 0], 0.5)


@pytest.mark.parametrize("other", range(4))
def test_incoming_gradients_of_another_type_are_refused(other):
    query, keys, values, _ = drawn(0, 3, 1, 4, (4, 4), 2, 2, dtype=torch.float32)
    call = check_call(query, keys, values)
    out, lse = native_backend.forward(call)
    given = [out, lse, torch.ones_like(out), torch.ones_like(lse)]
    given[other] = given[other].double()
    with pytest.raises(sx.ArgumentError, match=r"expected torch.float32.*got torch.float64"):
        native_backend.backward(call, *given)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_chunks_that_a_window_crosses_are_counted(architecture, dtype):
    """At order 2 the queries of a tile share the start of their chunks, up to a panel before their first key."""
    lanes = LIBRARY.separatrix_arithmetic(int(dtype == torch.float64), 0, 0, 0)
    tile, panel, length = 12 if architecture in ("avx512", "neon") else 6, 2 * lanes, 900
    x = torch.zeros(1, length, 1, dtype=dtype)
    for window in range(
        256, 640
    ):  # a shorter window has fewer keys than a chunk, so that a wrong chunk length would not show
        levels = native_backend._levels(check_call(x, x, x, windows=window), dtype)
        crossed = set()
        for first in range(0, length, tile):
            base = max(0, first - window + 1) // panel * panel
            for i in range(first, min(first + tile, length)):
                start = max(0, i - window + 1)
                crossed.add((i - base) // levels.chunk - (start - base) // levels.chunk + 1)
        assert levels.chunks >= max(crossed), window
