"""The kernels that run first: bounds on products of factors, and the rows of a backward pass."""

from __future__ import annotations

import math
import warnings

import pytest
import torch

from separatrix.attention.arithmetic import device_reads
from separatrix.attention.call import Call, check_call
from separatrix.attention.exact import guarded, triton
from separatrix.attention.exact.balance import Magnitudes
from separatrix.attention.exact.torch import IncomingRows
from separatrix.attention.exact.triton import description, launch, size
from tests.contracts.interpreter import interpreted, needs_triton  # noqa: F401

pytestmark = [needs_triton, pytest.mark.usefixtures("interpreted"), pytest.mark.timeout(1200)]

TYPES = [torch.float64, torch.float32, torch.float16]
SPREAD = {torch.float64: 300, torch.float32: 30, torch.float16: 8, torch.bfloat16: 30}
"""The base-2 exponents of the factors that are drawn."""


def drawn(seed, dtype, *, order=3, masked=False, spread=None, shared=1):
    """A call with factors of all magnitudes, some of them zero, and heads that share keys."""
    generator = torch.Generator().manual_seed(seed)
    spread = SPREAD[dtype] if spread is None else spread

    def factor(heads, rows, columns):
        exponents = torch.randint(-spread, spread + 1, (heads, 1, columns), generator=generator)
        x = torch.randn(heads, rows, columns, generator=generator, dtype=torch.float64) * 2.0 ** exponents.double()
        return (x * (torch.rand(heads, 1, columns, generator=generator) < 0.8)).to(dtype)

    lengths = [33, 5, 7][: order - 1]
    query = factor(2 * shared, 20, 6)
    keys, values = [factor(2, n, 6) for n in lengths], [factor(2, n, 4) for n in lengths]
    masks = [torch.rand(2 * shared, n, generator=generator) < 0.5 for n in lengths] if masked else []
    plain = check_call(query[:2], keys, values, scale=0.7)
    return Call(query, tuple(keys), tuple(values), tuple(masks), plain.positions, 0.7)


def literal_bounds(call):
    """The bounds by their definition, from the exponents of `math.frexp`."""
    heads, shared, sets = call.keys[0].shape[0], call.shared, len(call.keys)
    inner = description.inner_of(call)
    tensors = [call.query.reshape(heads, -1, call.query.shape[2]), *call.keys, *call.values]

    def shows(m, head, row):
        masks = call.masks[m] if call.masks else None
        return masks is None or bool(masks.view(heads, shared, -1)[head, :, row].any())

    def exponents(which, head):
        x = tensors[which]
        rows = [row for row in range(x.shape[1]) if which == 0 or shows((which - 1) % sets, head, row)]
        columns = [max((abs(x[head, row, column].item()) for row in rows), default=0.0) for column in range(x.shape[2])]
        return [math.frexp(largest)[1] if largest else None for largest in columns]

    def largest(factors, of, lower=0):
        products = [
            sum(of(e) for e in column) - lower * len(column)
            for column in zip(*factors, strict=True)
            if None not in column
        ]
        return max(products, default=None)

    def above(factors):
        return max(sum(max(e or 0, 0) for e in column) for column in zip(*factors, strict=True))

    bounds = {name: [] for name in size.Bounds._fields}
    for head in range(heads):
        every = [exponents(which, head) for which in range(len(tensors))]
        scores, values = every[: 1 + sets], every[1 + sets :]
        bounds["scores"].append(above(scores))
        bounds["values"].append(above(values))
        bounds["least_values"].append(largest(values, int, 1))
        bounds["output"].append(largest(values, int))
        for factors in (scores, values):
            for m in range(len(factors)):
                bounds["least_others"].append(largest(factors[:m] + factors[m + 1 :], int, 1))
        bounds["rows"].append(largest(scores[: 1 + inner] + scores[2 + inner :], int))
        bounds["inner"].append(largest([scores[1 + inner]], int))
        bounds["prefix_values"].append(above(values[:inner] + values[inner + 1 :]))
    least = ("least_values", "least_others")
    known = {name: [x for x in bound if x is not None] for name, bound in bounds.items()}
    return {name: (min if name in least else max)(found) for name, found in known.items() if found}


def written_bounds(call):
    limits = (size.ANY, size.ANY, -size.ANY, size.ANY, -size.ANY)
    written, _ = size._check_range(call, limits, writes=False)
    return size.Bounds.of(written[: size.BOUNDS].tolist())._asdict()


def bounds_agree(dtype, **options):
    for seed in range(4):
        call = drawn(seed, dtype, **options)
        written = written_bounds(call)
        for name, expected in literal_bounds(call).items():
            assert written[name] == expected, name


@pytest.mark.parametrize("masked", [False, True], ids=["", "masked"])
@pytest.mark.parametrize("shared", [1, 2])
@pytest.mark.parametrize("order", [3, 4])
@pytest.mark.parametrize("dtype", [*TYPES, torch.bfloat16], ids=str)
def test_bounds_on_products(dtype, order, shared, masked):
    bounds_agree(dtype, order=order, shared=shared, masked=masked)


def test_subnormal_numbers_have_their_exponents():
    for dtype in (torch.float64, torch.float32, torch.float16):
        call = drawn(0, dtype, spread=0)
        smallest = torch.finfo(dtype).smallest_normal * torch.finfo(dtype).eps
        call.query.fill_(3 * smallest)
        written = written_bounds(call)
        assert written["rows"] == literal_bounds(call)["rows"]


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_no_call_is_computed_as_it_is_that_plain_pytorch_would_balance(dtype):
    moderate, near_one = [], []
    for seed in range(12):
        call = drawn(seed, dtype, spread=SPREAD[dtype] * (seed % 4) // 3)
        found, plain = triton.size_of(call), Magnitudes.of(call).size()
        assert plain.moderate or not found.moderate
        assert plain.near_one or not found.near_one
        assert plain.log_output <= found.log_output <= plain.log_output + len(call.values)
        moderate.append(found.moderate)
        near_one.append(found.near_one)
    assert any(moderate)
    assert any(near_one)
    assert not all(near_one)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf], ids=str)
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_nonfinite_entries_are_out_of_range_unless_masked(dtype, bad):
    for which in range(5):
        call = drawn(1, dtype, spread=0)
        call.tensors[which][1, 3, 2] = bad
        assert triton.size_of(call) == (False, False, triton.size_of(call).log_output)
        masks = tuple(torch.ones(2, key.shape[1], dtype=torch.bool) for key in call.keys)
        for mask in masks:
            mask[:, 3] = False
        hidden = Call(call.query, call.keys, call.values, masks, call.positions, call.scale)
        assert triton.size_of(hidden).moderate == (which > 0)


@pytest.fixture
def no_looks(monkeypatch):
    """Fail if the CPU reads a number from the GPU."""

    def read(x):
        raise AssertionError("A number was read on the host.")

    monkeypatch.setattr(device_reads, "read", read)


def run(call):
    """Output and gradients of a call, all by the kernels; ignore NumPy's warnings about NaN maxima and exponents."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "All-NaN slice|invalid value encountered in cast", RuntimeWarning)
        out, lse = guarded.forward(call)
        by_query, by_keys, by_values = guarded.backward(call, out, lse, torch.ones_like(out), torch.zeros_like(lse))
    return out, lse, by_query, *by_keys, *by_values


def heads_of_nan(results):
    """For each result, which heads are NaN; a head is NaN in all of its entries or in none."""
    for x in results:
        nan = x.isnan().flatten(1)
        assert torch.equal(nan.any(1), nan.all(1))
        yield nan.all(1).tolist()


@pytest.mark.usefixtures("no_looks")
def test_bfloat16_reads_no_number_and_a_head_that_is_not_finite_is_nan():
    call = drawn(2, torch.bfloat16, spread=0)
    assert all(heads == [False, False] for heads in heads_of_nan(run(call)))
    for which in range(5):
        call = drawn(2, torch.bfloat16, spread=0)
        call.tensors[which][1, 3, 2] = math.nan
        assert all(heads == [False, True] for heads in heads_of_nan(run(call)))


@pytest.mark.usefixtures("no_looks")
@pytest.mark.parametrize(
    ("which", "exponent", "forward", "backward"),
    [
        (3, 80, False, True),
        (3, -80, False, True),
        (3, 95, True, True),
        (3, -99, True, True),
        (1, 95, True, True),
        (1, -55, False, True),
        (1, -45, False, False),
        (3, 40, False, False),
    ],
)
def test_bfloat16_out_of_range_is_nan(which, exponent, forward, backward):
    """Products of values, or of queries and keys, beyond the limits give NaN; the limits of gradients are narrower."""
    call = drawn(2, torch.bfloat16, spread=0)
    for tensor in call.tensors:
        tensor.copy_(tensor.sign() + (tensor == 0))
    call.tensors[which][1] *= 2.0**exponent
    out, lse, *gradients = heads_of_nan(run(call))
    assert out == lse == [False, forward]
    assert gradients == [[False, backward]] * 5


def rows_agree(dtype, shared):
    call = drawn(3, dtype, spread=0, shared=shared)
    generator = torch.Generator().manual_seed(4)
    heads, queries, _ = call.query.shape
    wide = call.computed_in
    exponents = torch.randint(-100, 100, (heads, queries, 1), generator=generator)
    grad_out = (
        torch.randn(heads, queries, 4, generator=generator, dtype=torch.float64) * 2.0 ** exponents.double()
    ).to(wide)
    grad_lse = torch.randn(heads, queries, generator=generator, dtype=wide)
    grad_out[0, 3], grad_lse[0, 3] = 0.0, 0.0
    grad_out[1, 2], grad_lse[1, 2] = 0.0, torch.finfo(wide).smallest_normal / 8
    out = torch.randn(heads, queries, 4, generator=generator, dtype=wide).to(dtype)
    lse = torch.randn(heads, queries, generator=generator, dtype=wide)
    lse[0, 5] = -math.inf
    near, shift, delta, own, top = launch.incoming_rows(call, out, lse, grad_out, grad_lse, 3)
    expected = IncomingRows.of(call, lse, grad_out, grad_lse)
    assert torch.equal(near, expected.near)
    products = expected.near.double() * out.double()
    exact = products.sum(-1) - expected.near_lse.squeeze(-1).double()
    assert bool(((delta - exact).abs() <= 8 * torch.finfo(wide).eps * (products.abs().sum(-1) + 1)).all())
    assert torch.allclose(shift, expected.lse * description.LOG2_E - 3)
    nothing = near.abs().amax(-1).eq(0) & expected.near_lse.squeeze(-1).eq(0)
    assert torch.equal(own == -(1 << 16), nothing)
    assert torch.equal(own[~nothing], expected._own.exponents.view_as(own)[~nothing])
    assert torch.equal((top - (1 << 16)).flatten(), expected._head.exponents.flatten())


@pytest.mark.parametrize("shared", [1, 3])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
def test_the_rows_of_a_backward_pass(dtype, shared):
    """The rows are those that plain PyTorch computes for other backends."""
    rows_agree(dtype, shared)


def test_a_head_without_an_incoming_gradient_has_gradients_of_zero():
    call = drawn(5, torch.float32, spread=0)
    out, lse = triton.forward(call)
    grad = torch.ones_like(out)
    grad[1] = 0.0
    by_query, by_keys, by_values = triton.backward(call, out, lse, grad, torch.zeros_like(lse))
    for x in (by_query, *by_keys, *by_values):
        assert not x[1].any()
        assert x[0].any()
        assert x.isfinite().all()
