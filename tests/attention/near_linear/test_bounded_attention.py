"""The attention contract for bounded attention: by its plan alone, and exactly where that is cheaper."""

from __future__ import annotations

import pytest
import torch

from separatrix.attention import reference
from separatrix.attention.call import check_call
from separatrix.attention.exact.error_bound import exact_error_bound, relative_bound
from separatrix.attention.near_linear import bounded_attention as bounded
from separatrix.attention.near_linear.bounded_attention import bounded_attention, exact_dtype
from separatrix.attention.near_linear.bounded_plan import normalised, plan_bounded, score_radius, sum_rounding
from separatrix.errors import ArgumentError
from separatrix.nn import TensorAttention
from tests.contracts.attention_contract import AttentionContract


class TestBoundedAttention(AttentionContract):
    error = 1e-5
    may_be_exact = False

    def attend(self, query, keys, values, **options):
        call = check_call(query, keys, values, **options)
        order, d = len(keys) + 1, query.shape[-1]
        radius = score_radius(order, d, 1.0, call.scale, "entries", query.dtype)
        plan = plan_bounded(order, d, radius, self.error, query.dtype)
        return bounded_attention(plan, call, may_be_exact=self.may_be_exact), None


class TestBoundedAttentionThatMayBeExact(TestBoundedAttention):
    may_be_exact = True


D = 8


def planned(order: int, dtype: torch.dtype, tolerance: float):
    return plan_bounded(order, D, score_radius(order, D, 1.0, 1.0, "order", dtype), tolerance, dtype)


def call_of(order: int, n: int, dtype: torch.dtype, is_causal: bool = False):
    generator = torch.Generator().manual_seed(0)
    tensors = [torch.randn(2, n, D, generator=generator).to(dtype) for _ in range(2 * order - 1)]
    query, *keys = (normalised(x, order) for x in tensors[:order])
    return check_call(query, keys, tensors[order:], is_causal=is_causal, scale=1.0)


@pytest.mark.parametrize("is_causal", [False, True])
def test_few_tokens_are_attended_exactly_and_many_are_not(is_causal):
    plan = planned(3, torch.float32, 1e-3)
    found = [exact_dtype(plan, call_of(3, n, torch.float32, is_causal)) for n in (1, 16, 2048)]
    assert found == [torch.float32, torch.float32, None]


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("order", [2, 3, 4])
@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [
        (torch.float64, 1e-6),
        (torch.float32, 1e-3),
        (torch.float32, 2e-7),
        (torch.bfloat16, 1e-2),
        (torch.float16, 1e-2),
    ],
)
def test_exact_results_keep_the_certificate_of_the_plan(order, dtype, tolerance, is_causal):
    plan, call = planned(order, dtype, tolerance), call_of(order, 9, dtype, is_causal)
    assert exact_dtype(plan, call) == (torch.float64 if tolerance < 1e-4 else torch.float32)
    wide = call.to(torch.float64)
    exact, _ = reference.tensor_attention(wide.query, wide.keys, wide.values, is_causal=is_causal, scale=1.0)
    magnitude = torch.stack([v.abs().max() for v in wide.values]).prod()
    certificate = plan.certificate(sum_rounding(plan, call), magnitude)
    difference = (bounded_attention(plan, call).to(torch.float64) - exact).abs().max()
    assert difference <= certificate.total


@pytest.mark.parametrize(("share", "dtype"), [(0.99, torch.float32), (1.01, None)])
def test_exact_attention_with_a_larger_error_than_the_polynomial_is_not_used(share, dtype, monkeypatch):
    plan, call = planned(3, torch.float32, 1e-3), call_of(3, 16, torch.float32)
    promised = sum(plan.relative_error(sum_rounding(plan, call)))
    monkeypatch.setattr(bounded, "relative_bound", lambda *given: share * promised)
    bounded._is_exact.cache_clear()
    try:
        assert exact_dtype(plan, call) == dtype
    finally:
        bounded._is_exact.cache_clear()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_bound_for_all_data_is_at_least_the_bound_for_given_data(dtype):
    call = call_of(3, 16, dtype)
    most = relative_bound(call, 1.01, dtype) + torch.finfo(dtype).eps
    magnitude = torch.stack([v.double().abs().max() for v in call.values]).prod()
    given = exact_error_bound(call.query, call.keys, call.values, scale=1.0)
    assert 0.1 * most * magnitude <= given.max() <= 1.1 * most * magnitude


def test_layers_with_and_without_a_tolerance_are_the_same_function_of_few_tokens():
    near, exact = (
        TensorAttention(16, 2, order=3, bound=1.0, tolerance=tolerance, generator=torch.Generator().manual_seed(0))
        for tolerance in (1e-3, None)
    )
    x = torch.randn(2, 7, 16, generator=torch.Generator().manual_seed(1))
    mask = torch.zeros(2, 7, dtype=torch.bool)
    mask[1, 5:] = True
    for options in ({}, {"is_causal": True}, {"key_padding_mask": mask}):
        outputs = [layer(x, **options) for layer in (near, exact)]
        assert torch.equal(*outputs)
        for layer, output in zip((near, exact), outputs, strict=True):
            layer.zero_grad()
            output.square().sum().backward()
        for actual, other in zip(near.parameters(), exact.parameters(), strict=True):
            assert torch.equal(actual.grad, other.grad)


def test_decoding_is_the_call_within_the_tolerance():
    layer = TensorAttention(16, 2, order=3, bound=1.0, tolerance=1e-3, generator=torch.Generator().manual_seed(0))
    x = torch.randn(1, 12, 16, generator=torch.Generator().manual_seed(1))
    state = layer.state(1)
    with torch.no_grad():
        steps = torch.cat([layer.decode(x[:, i : i + 1], state) for i in range(12)], 1)
        whole = layer(x, is_causal=True)
        largest = torch.stack([project(x).abs().max() for project in layer.v_proj]).prod()
        most = layer.out_proj.weight.abs().sum(1).max() * largest
    assert 0 < (steps - whole).abs().max() <= 1e-3 * most


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("order", [2, 3, 4])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-6), (torch.float32, 1e-3), (torch.float32, 2e-7)])
def test_the_crossover_is_where_exact_attention_ends(order, dtype, tolerance, is_causal):
    plan = plan_bounded(order, 4, 1.0, tolerance, dtype)
    crossover = plan.crossover(2, is_causal=is_causal)

    def is_exact(length):
        tokens = torch.zeros(2, length, 4, dtype=dtype)
        return exact_dtype(
            plan, check_call(tokens, [tokens] * (order - 1), [tokens] * (order - 1), is_causal=is_causal)
        )

    step = max(crossover // 100, 1)
    assert all(is_exact(length) for length in (*range(1, crossover, step), crossover - 1))
    assert not any(is_exact(length) for length in range(crossover, 3 * crossover, step))


@pytest.mark.parametrize("is_causal", [False, True])
def test_a_layer_changes_its_method_at_the_crossover(is_causal):
    made = {"order": 3, "bound": 1.0, "tolerance": 1e-3}
    chosen, near = (
        TensorAttention(16, 4, method=method, generator=torch.Generator().manual_seed(0), **made)
        for method in ("auto", "polynomial")
    )
    length = chosen.plan.crossover(2 * 4, is_causal=is_causal)
    x = torch.randn(2, length, 16, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        below, at = ([layer(tokens, is_causal=is_causal) for layer in (chosen, near)] for tokens in (x[:, 1:], x))
    assert not torch.equal(*below)
    assert torch.equal(*at)


@pytest.mark.parametrize("heads", [0, -1, 2.0, True])
def test_a_crossover_of_no_heads(heads):
    with pytest.raises(ArgumentError, match="heads: expected an integer >= 1"):
        planned(3, torch.float32, 1e-3).crossover(heads)


def saved_bytes(layer, x, is_causal):
    """The bytes of all storages that a call saves for its backward pass."""
    storages = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        storages[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        out = layer(x, is_causal=is_causal)
    kept = sum(storages.values())
    out.sum().backward()
    return kept


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("is_causal", [False, True])
def test_exact_attention_below_the_crossover_saves_no_states(is_causal, compiled):
    """A state of this plan is far larger than all tokens: the layer saves no more than a layer without a tolerance."""
    x = torch.randn(3, 8, 16, generator=torch.Generator().manual_seed(0))
    kept = []
    for tolerance in (None, 1e-3):
        layer = TensorAttention(16, 2, bound=2.0, tolerance=tolerance, generator=torch.Generator().manual_seed(0))
        assert tolerance is None or layer.plan.crossover(6) > 8
        run = torch.compile(layer, backend="aot_eager", fullgraph=True) if compiled else layer
        kept.append(saved_bytes(run, x, is_causal))
    log_sum_exp = 3 * 2 * 8 * 8  # bytes in float64; the layer without a tolerance saves it in float32
    assert kept[1] <= kept[0] + log_sum_exp


def test_gradients_are_the_same_whether_states_are_saved_or_computed_again():
    """Above the crossover length a call saves its states, except in a compiled graph, which may run at any length."""
    layer = TensorAttention(8, 2, bound=0.5, tolerance=1e-1, generator=torch.Generator().manual_seed(0))
    length = layer.plan.crossover(2) + 5
    x = torch.randn(1, length, 8, generator=torch.Generator().manual_seed(1))
    grads, kept = [], []
    for run in (layer, torch.compile(layer, backend="aot_eager", fullgraph=True)):
        layer.zero_grad()
        kept.append(saved_bytes(run, x, False))
        grads.append([p.grad.clone() for p in layer.parameters()])
    states = 2 * 2 * layer.plan.rank * 5 * 8  # sets, heads, rank, columns, bytes
    assert kept[0] - kept[1] >= states
    torch.testing.assert_close(grads[1], grads[0], rtol=1e-5, atol=1e-6)
