"""Query heads that share keys and values (`enable_gqa`) have the results of copied keys, without copies."""

from __future__ import annotations

import functools
import operator

import pytest
import torch

import separatrix as sx
from separatrix.attention import reference
from separatrix.attention.arguments import check_arguments
from separatrix.attention.call import check_call, grouped
from separatrix.attention.exact import native as native_backend
from separatrix.attention.exact.operators import attend, attend_backward
from separatrix.native import native
from tests.attention.exact.peak_bytes import peak_bytes
from tests.attention.exact.test_half_types import held_by_kernels
from tests.contracts.derivatives import same_gradients, same_second_derivatives, same_tangents
from tests.contracts.engines import engine  # noqa: F401
from tests.pairwise import pairwise

SHARED = 3
TYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
needs_kernels = pytest.mark.skipif(native().library is None, reason=f"The kernels do not run. {native().reason}")
MASKS = {"no masks": None, "masks of all": 1, "masks of each": 2 * SHARED}


def drawn(dtype, order, masked=None, batch=(2,), length=20):
    """Query, keys, values and options of a call in which three heads of queries share each of two heads of keys."""
    generator = torch.Generator().manual_seed(order)

    def some(heads, rows, columns):
        return torch.randn(*batch, heads, rows, columns, generator=generator, dtype=torch.float64).to(dtype)

    lengths = [length + 1, length - 3, length][: order - 1]
    query = some(2 * SHARED, length, 5)
    keys, values = [some(2, n, 5) for n in lengths], [some(2, n, 4) for n in lengths]
    options = {"enable_gqa": True}
    if masked is not None:
        options["key_masks"] = [torch.rand(*batch, masked, n, generator=generator) < 0.7 for n in lengths]
    return query, keys, values, options


def spread(sets):
    return [x.repeat_interleave(SHARED, -3) for x in sets]


@pytest.mark.parametrize(
    ("dtype", "order", "masked", "positions"),
    pairwise(TYPES, [2, 3, 4], MASKS, [{}, {"is_causal": True, "query_offset": 1}]),
)
def test_the_output_is_that_of_copies_bit_for_bit(dtype, order, masked, positions):
    query, keys, values, options = drawn(dtype, order, MASKS[masked])
    output = sx.tensor_attention(query, keys, values, return_lse=True, **options, **positions)
    options.pop("enable_gqa")
    expected = sx.tensor_attention(query, spread(keys), spread(values), return_lse=True, **options, **positions)
    assert all(torch.equal(x, y) for x, y in zip(output, expected, strict=True))


@pytest.mark.parametrize(("dtype", "order", "masked"), pairwise(TYPES, [2, 3], MASKS))
def test_gradients_are_added_up_head_after_head_and_rounded_once(dtype, order, masked, engine):  # noqa: F811
    """Below 64 tokens the kernels sum gradients of copied keys in another order."""
    query, keys, values, options = drawn(dtype, order, MASKS[masked], length=70)
    call = grouped(check_arguments(query, keys, values, **options))
    assert (call.shared, call.keys[0].shape[0], call.query.shape[0]) == (SHARED, 4, 12)
    wide = call.widened()
    rest = (False, 0, [0] * (order - 1), 0.4)
    out, lse = attend(call.query, call.keys, call.values, call.masks, *rest)
    generator = torch.Generator().manual_seed(0)
    grad_out = torch.randn(out.shape, generator=generator).to(dtype)
    grad_lse = torch.randn(lse.shape, generator=generator).to(lse.dtype)
    found = attend_backward(call.query, call.keys, call.values, call.masks, *rest, out, lse, grad_out, grad_lse)
    upcast = [x.to(lse.dtype) for x in (out, lse, grad_out, grad_lse)]
    query_grad, *sets = attend_backward(wide.query, wide.keys, wide.values, wide.masks, *rest, *upcast)
    added = [functools.reduce(operator.add, x.unflatten(0, (-1, SHARED)).unbind(1)) for x in sets]
    for x, y in zip(found, [query_grad, *added], strict=True):
        assert x.is_contiguous()
        assert torch.equal(x, y.to(dtype))


@needs_kernels
@pytest.mark.parametrize("masked", MASKS)
def test_bits_do_not_depend_on_the_number_of_threads(masked):
    query, keys, values, options = drawn(torch.float32, 3, MASKS[masked], length=60)
    call = grouped(check_arguments(query, keys, values, **options))
    results, threads = [], torch.get_num_threads()
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            out, lse = native_backend.forward(call)
            by_query, by_keys, by_values = native_backend.backward(
                call, out, lse, torch.ones_like(out), torch.ones_like(lse)
            )
            results.append([out, lse, by_query, *by_keys, *by_values])
    finally:
        torch.set_num_threads(threads)
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))


@needs_kernels
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_nothing_is_copied(dtype, engine):  # noqa: F811
    """PyTorch allocates only the results, and the kernels pack shared tensors once."""
    if engine == "torch":
        pytest.skip("Plain PyTorch copies what is shared.")
    query, keys, values, options = drawn(dtype, 2, batch=(), length=400)
    options |= {"windows": 1000, "return_lse": True}

    def shared():
        return sx.tensor_attention(query, keys, values, **options)

    def copied():
        return sx.tensor_attention(query, spread(keys), spread(values), **(options | {"enable_gqa": False}))

    results = sum(x.nbytes for x in shared())
    one = sum(x.nbytes for x in (*keys, *values))
    assert peak_bytes(shared) - results < min(4096, one / 3)
    assert peak_bytes(copied) - results >= SHARED * one
    assert held_by_kernels(shared) < held_by_kernels(copied) / 2


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")  # PyTorch's own warning, in forward mode
@pytest.mark.parametrize("masked", MASKS)
def test_derivatives_of_every_kind(masked):
    query, keys, values, options = drawn(torch.float64, 3, MASKS[masked], batch=(), length=4)
    leaves = [x[..., :2].clone().requires_grad_() for x in (query[:, :2], *keys, *values)]

    def function(q, *sets):
        return sx.tensor_attention(q, list(sets[:2]), list(sets[2:]), windows=[4, 5], return_lse=True, **options)

    def definition(q, *sets):
        masks = options.get("key_masks")
        return reference.tensor_attention(q, spread(sets[:2]), spread(sets[2:]), windows=[4, 5], key_masks=masks)

    same_gradients(function, definition, leaves, 1e-12)
    same_second_derivatives(function, definition, leaves, 1e-11)
    same_tangents(function, definition, leaves, 1e-12)


def test_a_dimension_of_vmap_becomes_more_heads():
    query, keys, values, options = drawn(torch.float64, 3, 1, batch=(3,))
    masks = options["key_masks"]

    def one(q, k1, k2, v1, v2, m1, m2):
        return sx.tensor_attention(q, [k1, k2], [v1, v2], key_masks=[m1, m2], enable_gqa=True, return_lse=True)

    mapped = torch.func.vmap(one, in_dims=(0, 0, None, 0, 0, 0, None))(
        query, keys[0], keys[1][0], *values, masks[0], masks[1][0]
    )
    for i in range(3):
        single = one(query[i], keys[0][i], keys[1][0], values[0][i], values[1][i], masks[0][i], masks[1][0])
        assert all(torch.allclose(x[i], y, atol=1e-13) for x, y in zip(mapped, single, strict=True))


def test_batches_are_broadcast():
    query, keys, values, options = drawn(torch.float64, 3, 1, batch=(3,))
    options["key_masks"] = [options["key_masks"][0], None]
    keys[0], values[1] = keys[0][:1], values[1][0]
    output = sx.tensor_attention(query, keys, values, **options)
    expected, _ = reference.tensor_attention(query, keys, values, **options)
    assert torch.allclose(output, expected, atol=1e-13)


def test_no_heads_at_all():
    query, keys, values, options = drawn(torch.float32, 3)
    assert sx.tensor_attention(query[:, :0], keys, values, **options).shape == (2, 0, 20, 4)


@needs_kernels
def test_the_sums_over_heads_are_counted(engine):  # noqa: F811
    if engine == "torch":
        pytest.skip("A call is spread for plain PyTorch, and the sum over heads is counted where that is undone.")
    query, keys, values, options = drawn(torch.float32, 3, length=70)
    shared, copied = (
        grouped(check_arguments(query, keys, values, **options)),
        check_call(query, keys, values, **options),
    )
    counts = [native_backend.gradient_summation(call, torch.float32).count() for call in (shared, copied)]
    assert (copied.shared, counts[0] - counts[1]) == (1, SHARED - 1)
