"""The factorised algorithm of the pairwise form against the literal definition, and its range."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

import separatrix as sx
from separatrix import forms
from separatrix.attention.forms import factorised
from tests.contracts.attention_contract import AttentionContract, draw, inputs
from tests.contracts.derivatives import same_gradients
from tests.contracts.literal_forms import literal_attention, pairwise_scores


@pytest.fixture(autouse=True)
def for_few_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the factorised algorithm for any number of keys."""
    monkeypatch.setattr(factorised, "LEAST_KEYS", 0)
    monkeypatch.setattr(factorised, "LEAST_CAUSAL_KEYS", 0)


class TestPairwiseAttention(AttentionContract):
    error = 1e-12
    lse_error = 1e-12

    def attend(self, query, keys, values, **options):
        return forms.pairwise_attention(query, keys, values, return_lse=True, **options)

    def definition(self, query, keys, values, **options):
        return literal_attention(pairwise_scores, query, keys, values, **options)


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of 5 queries, tiles of 16 keys, one channel at a time: all loops run several times."""
    monkeypatch.setattr(factorised, "QUERIES", 5)
    monkeypatch.setattr(factorised, "ENTRIES", 64)


@pytest.fixture
def only_factorised(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the product form raise an error, so that a test cannot pass by the fallback."""

    def refuse(*_: object) -> None:
        raise AssertionError("the product form was computed")

    monkeypatch.setattr(factorised, "exact_attention", refuse)


CALLS = [
    {},
    {"is_causal": True},
    {"is_causal": True, "windows": [4, None]},
    {"windows": [7, 3], "query_offset": -2},
    {"is_causal": True, "query_offset": 9},
    {"is_causal": True, "query_offset": -12},
    {"windows": [4, None], "query_offset": 30},
    {"key_masks": "some"},
]


@pytest.mark.parametrize("options", CALLS)
@pytest.mark.usefixtures("small_blocks", "only_factorised")
def test_many_blocks(options):
    query, keys, values = inputs(3, 37, [37, 37], d=4, d_v=3)
    query, keys = 3 * query, [3 * key for key in keys]
    if options.get("key_masks"):
        options = {"key_masks": [torch.arange(37) % 3 != 1, torch.stack([torch.arange(37) > 30, torch.arange(37) < 0])]}
    options = {"scale": 0.5, **options}
    leaves = [x.requires_grad_() for x in (query, *keys, *values)]

    def function(q, k1, k2, v1, v2):
        out, lse = forms.pairwise_attention(q, [k1, k2], [v1, v2], return_lse=True, **options)
        return out, lse.masked_fill(lse == -torch.inf, 0.0)

    def definition(q, k1, k2, v1, v2):
        out, lse = literal_attention(pairwise_scores, q, [k1, k2], [v1, v2], **options)
        return out, lse.masked_fill(lse == -torch.inf, 0.0)

    for actual, expected in zip(function(*leaves), definition(*leaves), strict=True):
        torch.testing.assert_close(actual, expected, rtol=0, atol=1e-12)
    same_gradients(function, definition, leaves, 1e-11)


@pytest.mark.usefixtures("only_factorised")
def test_gradcheck():
    query, keys, values = inputs(3, 3, [4, 2], d=2, batch=(1,))
    leaves = [x.requires_grad_() for x in (query, *keys, *values)]

    def attend(q, k1, k2, v1, v2):
        return forms.pairwise_attention(q, [k1, k2], [v1, v2], scale=0.7, return_lse=True)

    assert torch.autograd.gradcheck(attend, leaves)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.usefixtures("only_factorised")
def test_types(dtype):
    tensors = [draw(seed, 2, 50, 8).to(dtype) for seed in range(5)]
    exact = literal_attention(pairwise_scores, *_call([x.double() for x in tensors]), scale=1.0, is_causal=True)
    out, lse = forms.pairwise_attention(*_call(tensors), scale=1.0, is_causal=True, return_lse=True)
    assert (out.dtype, lse.dtype) == (dtype, torch.float32)
    error = torch.finfo(dtype).eps + 1e-5
    assert (out.double() - exact[0]).abs().max() <= error
    assert (lse.double() - exact[1]).abs().max() <= 1e-5


def onednn_linear() -> object:
    """PyTorch's private operator, on any processor; None without oneDNN."""
    return torch.ops.mkldnn._linear_pointwise.default if torch.backends.mkldnn.is_available() else None


@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize("fast", [False, torch.backends.mkldnn.is_available()])
def test_products_by_either_library(heads, fast, monkeypatch):
    monkeypatch.setattr(factorised, "_onednn_linear", lambda: onednn_linear() if fast else None)
    left, right = (draw(seed, heads, 20, 20).float() for seed in range(2))
    for a, b in ((left, right), (left.mT, right), (left, right.mT), (left[:, :7], right)):
        exact = a.double() @ b.double()
        error = 20 * 2.0**-24 * (a.double().abs() @ b.double().abs())
        assert ((factorised._product(a, b) - exact).abs() <= error).all()


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="this PyTorch has no oneDNN")
@pytest.mark.parametrize("change", ["none", "no operator", "other arguments", "other processor"])
def test_the_private_operator_is_used_only_with_the_arguments_that_it_has_here(change, monkeypatch):
    """If PyTorch lacks the operator, or has it with another signature, `torch.matmul` computes the products."""
    operators, calls = torch.ops.mkldnn, []

    class Linear:
        _schema = f"{operators._linear_pointwise.default._schema}{'s' * (change == 'other arguments')}"

        def __call__(self, *arguments):
            calls.append(arguments)
            return operators._linear_pointwise.default(*arguments)

    offered = {} if change == "no operator" else {"_linear_pointwise": SimpleNamespace(default=Linear())}
    monkeypatch.setattr(torch.ops, "mkldnn", SimpleNamespace(**offered))
    capability = "DEFAULT" if change == "other processor" else "AVX512"
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    factorised._onednn_linear.cache_clear()
    try:
        query, keys, values = _call([draw(seed, 2, 9, 4).float() for seed in range(5)])
        leaves = [x.requires_grad_() for x in (query, *keys, *values)]
        out = forms.pairwise_attention(query, keys, values)
        gradients = torch.autograd.grad(out.square().sum(), leaves)
    finally:
        factorised._onednn_linear.cache_clear()
    assert bool(calls) == (change == "none")
    mapped = sx.tensor_attention(*forms.pairwise(query, keys), values, scale=1 / 4)
    torch.testing.assert_close(out, mapped)
    for ours, theirs in zip(gradients, torch.autograd.grad(mapped.square().sum(), leaves), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_flop_counters_count_all_products():
    def count(dtype: torch.dtype) -> int:
        query, keys, values = _call([draw(seed, 2, 9, 4).to(dtype) for seed in range(5)])
        with FlopCounterMode(display=False) as counter:
            forms.pairwise_attention(query, keys, values)
        return counter.get_total_flops()

    assert count(torch.float32) == count(torch.float64) > 2 * 2 * 9**3 * 5


def _call(tensors: list[Tensor]) -> tuple[Tensor, list[Tensor], list[Tensor]]:
    query, k1, k2, v1, v2 = tensors
    return query, [k1, k2], [v1, v2]


@pytest.mark.parametrize("size", [3.0, 6.0, 12.0])
def test_large_scores_in_float32(size):
    """For scores up to several hundred the output is that of the definition with either algorithm."""
    query, keys, values = _call([draw(seed, 1, 24, 8).float() for seed in range(5)])
    query, keys = size * query, [size * key for key in keys]
    leaves = [x.requires_grad_() for x in (query, *keys, *values)]
    out, lse = forms.pairwise_attention(query, keys, values, scale=0.5, return_lse=True)
    wide = [x.detach().double().requires_grad_() for x in leaves]
    exact, exact_lse = literal_attention(pairwise_scores, *_call(wide), scale=0.5)
    error = 2.0**-23 * 24 * size**2
    assert (out - exact).abs().max() <= error
    assert (lse - exact_lse).abs().max() <= error
    incoming = draw(9, *out.shape)
    gradients = torch.autograd.grad(out, leaves, incoming.float())
    expected = torch.autograd.grad(exact, wide, incoming)
    for ours, theirs in zip(gradients, expected, strict=True):
        assert (ours - theirs).abs().max() <= 200 * error


def opposed(gap: float, dtype: torch.dtype) -> tuple[Tensor, list[Tensor], list[Tensor]]:
    """One query and two keys in each set; the keys with the largest q.k_1 = q.k_2 = gap have k_1.k_2 = -3 gap.

    The best scores, of either key and a zero key, are gap. The product of the largest factors is 2 gap.
    """
    query = torch.tensor([[1.0, 0.0]], dtype=dtype)
    first = torch.tensor([[gap, gap], [0.0, 0.0]], dtype=dtype)
    second = torch.tensor([[gap, -gap - 3], [0.0, 0.0]], dtype=dtype)
    return query, [first, second], [torch.tensor([[1.0], [2.0]], dtype=dtype)] * 2


@pytest.mark.parametrize("gap", [4.0, 60.0, 75.0, 100.0, 300.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_underflowing_factors_are_detected(gap, dtype, monkeypatch):
    query, keys, values = opposed(gap, dtype)
    computed = []
    exact_attention = factorised.exact_attention

    def recorded(call):
        computed.append(call)
        return exact_attention(call)

    monkeypatch.setattr(factorised, "exact_attention", recorded)
    out, lse = forms.pairwise_attention(query, keys, values, scale=1.0, return_lse=True)
    wide = [x.double() for x in (query, *keys, *values)]
    expected, expected_lse = literal_attention(pairwise_scores, *_call(wide), scale=1.0)
    torch.testing.assert_close(out.double(), expected, rtol=1e-5, atol=0)
    torch.testing.assert_close(lse.double(), expected_lse, rtol=1e-6, atol=0)
    if dtype == torch.float32:
        assert bool(computed) == (gap > 68)  # the logarithm of 8 * 4 * tiny / eps


@pytest.mark.parametrize(
    ("of_first", "of_second"), [(1e30, 1e-30), (1e-25, 1e-25), (1e25, 1e10), (3e38, 1.0), (0.0, 1.0)]
)
def test_values_of_any_size(of_first, of_second):
    query, keys, values = _call([draw(seed, 1, 9, 4).float() for seed in range(5)])
    values = [values[0] * of_first, values[1] * of_second]
    leaves = [x.requires_grad_() for x in values]
    out = forms.pairwise_attention(query, keys, values)
    expected = sx.tensor_attention(*forms.pairwise(query, keys), values, scale=1 / 4)
    torch.testing.assert_close(out, expected, rtol=1e-4, atol=1e-6 * of_first * of_second)
    grads = [torch.autograd.grad(x.sum(), leaves) for x in (out, expected)]
    for ours, theirs, other in zip(*grads, (of_second, of_first), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6 * other)


@pytest.mark.parametrize("size", [1e-30, 1e15, 1e30])
@pytest.mark.usefixtures("only_factorised")
def test_incoming_gradients_of_any_size(size):
    tensors = [draw(seed, 1, 9, 4).float().requires_grad_() for seed in range(5)]
    out = forms.pairwise_attention(*_call(tensors))
    unit = torch.autograd.grad(out, tensors, torch.ones_like(out), retain_graph=True)
    scaled = torch.autograd.grad(out, tensors, torch.full_like(out, size))
    for ours, theirs in zip(scaled, unit, strict=True):
        torch.testing.assert_close(ours / size, theirs, rtol=1e-4, atol=1e-6)


def test_a_hidden_nan_reaches_no_query():
    query, keys, values = inputs(3, 9, [9, 9])
    expected = forms.pairwise_attention(query, keys, values, is_causal=True)
    for sets in (keys, values):
        sets[1][:, 6] = torch.nan
    out = forms.pairwise_attention(query, keys, values, is_causal=True)
    torch.testing.assert_close(out[:, :6], expected[:, :6], rtol=0, atol=1e-12)
    assert out[:, 6:].isnan().all()
    mask = torch.arange(9) != 6
    assert forms.pairwise_attention(query, keys, values, key_masks=[None, mask]).isfinite().all()


def test_compiled_and_transformed_calls_compute_the_product_form():
    query, keys, values = inputs(3, 4, [5, 6])
    expected = forms.pairwise_attention(query, keys, values)

    def loss(q):
        return forms.pairwise_attention(q, keys, values).sum()

    torch.testing.assert_close(torch.func.grad(loss)(query), torch.autograd.functional.vjp(loss, query)[1])
    mapped = torch.func.vmap(lambda q, *sets: forms.pairwise_attention(q, list(sets[:2]), list(sets[2:])))
    torch.testing.assert_close(mapped(query, *keys, *values), expected)


@pytest.mark.parametrize(
    ("options", "shortest", "factorises"),
    [({}, 8, True), ({}, 7, False), ({"is_causal": True}, 9, False), ({"windows": [9, 20]}, 20, False)],
)
def test_which_algorithm_runs_depends_on_the_lengths(options, shortest, factorises, monkeypatch):
    monkeypatch.setattr(factorised, "LEAST_KEYS", 8)
    monkeypatch.setattr(factorised, "LEAST_CAUSAL_KEYS", 10)
    calls = []
    monkeypatch.setattr(factorised, "exact_attention", lambda call: calls.append(call) or (call.query, call.query))
    lengths = [shortest] * 2 if options else [12, shortest]
    query, keys, values = inputs(3, shortest, lengths)
    forms.pairwise_attention(query, keys, values, **options)
    assert bool(calls) != factorises


def test_bad_arguments():
    query, keys, values = inputs(3, 4, [5, 6])
    with pytest.raises(sx.ArgumentError, match="is_causal without a query_offset"):
        forms.pairwise_attention(query, keys, values, is_causal=True)
    with pytest.raises(TypeError, match="tolerance"):
        forms.pairwise_attention(query, keys, values, tolerance=1e-3)
