"""The attention contract for the Triton kernels, in Triton's interpreter, and their error bounds."""

from __future__ import annotations

import math

import pytest
import torch

import separatrix as sx
from separatrix.attention import reference
from separatrix.attention.arithmetic import device_reads
from separatrix.attention.call import check_call
from separatrix.attention.dispatch import gpu
from separatrix.attention.exact import triton
from separatrix.attention.exact.backend import exact_backend
from separatrix.attention.exact.triton import description, engine, launch
from tests.attention.arithmetic.test_precision import precision_of
from tests.contracts.attention_contract import AttentionContract, draw, inputs
from tests.contracts.interpreter import interpreted, needs_triton  # noqa: F401

pytestmark = [needs_triton, pytest.mark.usefixtures("interpreted"), pytest.mark.timeout(1200)]


class TestTriton(AttentionContract):
    """Orders from 3 on run on the Triton kernels; order 2 runs as on a machine without Triton."""

    def attend(self, query, keys, values, **options):
        call = check_call(query, keys, values, **options)
        assert (exact_backend(call) is triton) == (len(keys) > 1 and not call.is_empty)
        return sx.tensor_attention(query, keys, values, method="exact", return_lse=True, **options)

    @pytest.mark.parametrize("order", [2, 3])
    def test_causal_is_a_prefix_call(self, order):
        """One call per query: at order 4 the interpreter takes seconds, and `test_programs` has causal calls."""
        super().test_causal_is_a_prefix_call(order)

    @pytest.mark.parametrize("options", [{"is_causal": True}, {"windows": [2, 3], "masked": True}])
    def test_gradients(self, options):
        """Derivatives along random directions: all entries take seconds in the interpreter (see `test_programs`)."""
        leaves = [x.requires_grad_() for x in draw(0, 5, 1, 3, 2)]
        masks = [torch.tensor([True, False, True])] * 2 if options.get("masked") else None
        options = {name: option for name, option in options.items() if name != "masked"}

        def function(query, *sets):
            return self.attend(query, list(sets[:2]), list(sets[2:]), key_masks=masks, **options)

        assert torch.autograd.gradcheck(function, leaves, fast_mode=True)


def test_order_2_uses_another_backend():
    call = check_call(*inputs(2, 3, [4]))
    assert not triton.takes(call)
    assert exact_backend(call) is not triton


def test_calls_beyond_32_bit_indices_use_another_backend():
    """Three sets of 1290 keys have 1290^3 < 2^31 prefixes for a fourth set; with windows a block has more."""
    n = 1290

    def call_of(length, **options):
        query, *sets = torch.zeros(1, length, 1).expand(1 + 8, 1, length, 1)
        return check_call(query[:, :1], sets[:4], sets[4:], **options)

    assert triton.takes(call_of(n))
    assert not triton.takes(call_of(n + 1))
    assert triton.takes(call_of(n, windows=[n] * 4))
    assert not triton.takes(call_of(n, windows=[n + 1] * 4))
    assert triton.takes(call_of(1 << 16, windows=[8] * 4))
    assert not triton.takes(check_call(*inputs(3, 2, [2, 2]), query_offset=(1 << 23) + 1))


@pytest.mark.parametrize("order", [3, 5])
def test_tf32_is_used_if_requested_and_for_float32_alone(order, monkeypatch):
    used = []
    given, forward = inputs(order, 2, [2] * (order - 1)), launch.forward
    monkeypatch.setattr(
        launch, "forward", lambda call, precision, left: (used.append(precision), forward(call, precision, left))[1]
    )
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        call = check_call(given[0].to(dtype), *([x.to(dtype) for x in sets] for sets in given[1:]))
        for asked in ("ieee", "tf32"):
            with precision_of(torch.backends.cuda.matmul, asked):
                triton.forward(call)
    assert used == ["ieee", "tf32", "ieee", "ieee", "ieee", "ieee"]


@pytest.mark.parametrize("d", [128, 129])
def test_rows_of_up_to_128_columns_are_taken(d):
    assert triton.takes(check_call(*inputs(3, 2, [2, 2], d=d))) == (d == 128)
    assert triton.takes(check_call(*inputs(3, 2, [2, 2], d_v=d))) == (d == 128)


@pytest.mark.parametrize("of", ["sm_80", "sm_90", "sm_100"])
def test_rows_of_up_to_256_columns_are_taken_where_they_fit(of, monkeypatch):
    """Rows of 256 columns fit at order 3, except in float64 and TF32; in half types with masks on sm_80 only."""
    monkeypatch.setattr(gpu, "blocks_of", lambda device: of)

    def taken(dtype, order=3, d=192, **options):
        query, keys, values = inputs(order, 2, [2] * (order - 1), d=d)
        sets = [[x.to(dtype) for x in tensors] for tensors in (keys, values)]
        return triton.takes(check_call(query.to(dtype), *sets, **options))

    masks = [torch.ones(2, dtype=torch.bool)] * 2
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        assert taken(dtype) == taken(dtype, d=256) == (of != "sm_100")
        assert taken(dtype, key_masks=masks) == (of == "sm_80" or (of == "sm_90" and dtype == torch.float32))
        assert not taken(dtype, d=257)
        assert not taken(dtype, order=4)
    assert not taken(torch.float64)
    call = check_call(*inputs(3, 2, [2, 2], d=192)).to(torch.float32)
    with precision_of(torch.backends.cuda.matmul, "tf32"):
        assert engine._precision(call) == "ieee"
    assert description.farthest_of(call) == 1 << 22


def test_192_and_130_columns_are_those_of_the_definition(monkeypatch):
    """The blocks of float32 have 16 keys, so that 18 inner keys take two blocks."""
    monkeypatch.setattr(gpu, "blocks_of", lambda device: "sm_90")
    query, keys, values = inputs(3, 2, [2, 18], d=192, d_v=130, batch=(1,))
    leaves = [x.float().requires_grad_() for x in (query, *keys, *values)]
    call = check_call(leaves[0], leaves[1:3], leaves[3:])
    assert exact_backend(call) is triton
    out = sx.tensor_attention(leaves[0], leaves[1:3], leaves[3:])
    wide = [x.detach().double().requires_grad_() for x in leaves]
    expected = reference.tensor_attention(wide[0], wide[1:3], wide[3:])[0]
    results = out, *torch.autograd.grad(out.square().sum(), leaves)
    for x, y in zip(results, (expected, *torch.autograd.grad(expected.square().sum(), wide)), strict=True):
        torch.testing.assert_close(x.double(), y, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("options", [{}, {"windows": [3, 20]}], ids=["all", "windows"])
def test_the_error_of_float32_is_within_the_bound(options):
    for seed, size in enumerate((0.1, 1.0, 5.0, 40.0)):
        query = size * draw(seed, 1, 7, 5).float()
        keys, values = [draw(seed + 1, 2, 1, n, 5).float() for n in (5, 20)], None
        keys, values = [x[0] for x in keys], [x[1] for x in keys]
        out, lse = sx.tensor_attention(query, keys, values, return_lse=True, **options)
        wide = [x.double() for x in (query, *keys, *values)]
        exact, exact_lse = reference.tensor_attention(wide[0], wide[1:3], wide[3:], **options)
        bound, lse_bound = sx.exact_error_bound(query, keys, values, return_lse=True, **options)
        assert bool(((out - exact).abs().amax(-1) <= bound).all())
        seen = exact_lse > -math.inf
        assert bool(((lse - exact_lse)[seen].abs() <= lse_bound[seen]).all())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_no_bound_is_given_for_half_types(dtype):
    query, keys, values = inputs(3, 2, [3, 4])
    query, keys, values = query.to(dtype), [x.to(dtype) for x in keys], [x.to(dtype) for x in values]
    with pytest.raises(sx.SeparatrixError, match="in which order and with which rounding the matrix units"):
        sx.exact_error_bound(query, keys, values)


def test_a_tolerance_widens_half_types():
    """A certified call in a half type is computed in float32, without matrix units, and certified for float32."""
    query, keys, values = inputs(3, 3, [3, 4])
    query, keys, values = query.bfloat16(), [x.bfloat16() for x in keys], [x.bfloat16() for x in values]
    result = sx.certified_attention(query, keys, values, tolerance=1e-1, method="exact")
    expected, _ = reference.tensor_attention(query.double(), [x.double() for x in keys], [x.double() for x in values])
    assert (result.output.double() - expected).abs().max() <= result.certificate.total <= 1e-1


def test_a_gradient_is_certified():
    query, keys, values = inputs(3, 3, [3, 4])
    leaves = [x.float().requires_grad_() for x in (query, *keys, *values)]
    result = sx.certified_attention(leaves[0], leaves[1:3], leaves[3:], tolerance=1e-3, method="exact")
    assert result.certificate.gradient.total <= 1e-3
    grads = torch.autograd.grad(result.output.sum(), leaves)
    wide = [x.detach().double().requires_grad_() for x in leaves]
    expected = torch.autograd.grad(reference.tensor_attention(wide[0], wide[1:3], wide[3:])[0].sum(), wide)
    assert max((a - b).abs().max().item() for a, b in zip(grads, expected, strict=True)) <= 1e-5


def test_a_pass_reads_numbers_once(monkeypatch):
    """Reading a number from a GPU synchronises: once in a forward pass, and once in a backward pass."""
    looks = []
    monkeypatch.setattr(device_reads, "read", lambda x: (looks.append(x.shape), x.tolist())[1])
    query, keys, values = inputs(3, 3, [3, 4])
    leaves = [x.requires_grad_() for x in (query, *keys, *values)]
    out = sx.tensor_attention(leaves[0], leaves[1:3], leaves[3:])
    assert len(looks) == 1
    out.sum().backward()
    assert len(looks) == 2
