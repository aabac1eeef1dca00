"""The public calls: which algorithm they run, and that their options mean the same for each algorithm."""

from __future__ import annotations

import inspect

import pytest
import torch

import separatrix as sx
from separatrix.attention import reference
from separatrix.attention.operator import METHODS, check_method
from tests.contracts.attention_contract import inputs

CU_SEQLENS = torch.tensor([0, 3, 3, 8])


def test_without_a_tolerance_attention_is_exact():
    query, keys, values = inputs(3, 4, [5, 6])
    expected, expected_lse = reference.tensor_attention(query, keys, values)
    out, lse = sx.tensor_attention(query, keys, values, return_lse=True)
    torch.testing.assert_close(out, expected, rtol=0, atol=1e-13)
    torch.testing.assert_close(lse, expected_lse, rtol=0, atol=1e-13)
    torch.testing.assert_close(sx.tensor_attention(query, keys, values), out, rtol=0, atol=1e-13)


@pytest.mark.parametrize("method", ["auto", *METHODS])
def test_with_a_tolerance_the_output_is_the_certified_one(method):
    query, keys, values = inputs(3, 20, [30, 40])
    result = sx.certified_attention(query, keys, values, tolerance=1e-3, method=method)
    assert torch.equal(sx.tensor_attention(query, keys, values, tolerance=1e-3, method=method), result.output)


def test_the_plan_is_the_one_that_a_certified_call_starts_with():
    query, keys, values = inputs(3, 20, [2000, 2000], batch=())
    plan = sx.plan_attention(query, keys, values, tolerance=1e-4)
    assert plan.method == sx.certified_attention(query, keys, values, tolerance=1e-4).plan.method == "polynomial"


@pytest.mark.parametrize("method", ["auto", *METHODS])
@pytest.mark.parametrize(("queries", "keys"), [(0, 5), (5, 0), (0, 0)])
def test_a_call_with_nothing_to_attend_has_the_plan_of_its_certified_result(queries, keys, method):
    arguments = inputs(3, queries, [keys, keys], batch=())
    result = sx.certified_attention(*arguments, tolerance=1e-4, method=method)
    assert sx.plan_attention(*arguments, tolerance=1e-4, method=method) == result.plan
    assert result.plan.why == "there is nothing to attend"


def test_one_set_may_be_given_in_a_list():
    query, keys, values = inputs(2, 4, [5])
    assert torch.equal(sx.tensor_attention(query, keys, values), sx.tensor_attention(query, keys[0], values[0]))


def test_the_calls_have_the_same_options():
    options = [
        {
            name
            for name, parameter in inspect.signature(call).parameters.items()
            if parameter.kind is parameter.KEYWORD_ONLY
        }
        for call in (sx.tensor_attention, sx.certified_attention, sx.plan_attention)
    ]
    without_certificates = {"return_lse", "lookahead", "sinks", "prefix", "distinct"}
    assert options[0] - without_certificates == options[1] == options[2]


@pytest.mark.parametrize("call", [sx.tensor_attention, sx.certified_attention, sx.plan_attention])
def test_a_method_that_does_not_exist_is_refused(call):
    with pytest.raises(sx.ArgumentError, match=r"^method: expected 'auto' or one of"):
        call(*inputs(2, 4, [5]), tolerance=1e-2, method="fast")
    for method in ("auto", *METHODS):
        check_method(method)


def test_packed_sequences_are_attended_planned_and_certified_one_by_one():
    query, keys, values = inputs(3, 8, [8, 8], batch=())
    parts = [
        (query[part], [key[part] for key in keys], [value[part] for value in values])
        for part in (slice(0, 3), slice(3, 8))
    ]
    options = {"tolerance": 1e-2, "cu_seqlens": CU_SEQLENS, "is_causal": True}
    expected = torch.cat([reference.tensor_attention(*part, is_causal=True)[0] for part in parts])
    result = sx.certified_attention(query, keys, values, **options)
    assert torch.equal(sx.tensor_attention(query, keys, values, **options), result.output)
    assert ((result.output - expected).abs().amax(-1) <= result.certificate.per_query).all()
    flops = [sx.plan_attention(*part, tolerance=1e-2, is_causal=True).flops for part in parts]
    assert sx.plan_attention(query, keys, values, **options).flops == pytest.approx(sum(flops))


@pytest.mark.parametrize("call", [sx.tensor_attention, sx.certified_attention, sx.plan_attention])
def test_offsets_of_sequences_belong_to_packed_sequences(call):
    with pytest.raises(sx.ArgumentError, match=r"^query_offsets: expected None without cu_seqlens"):
        call(*inputs(3, 8, [8, 8]), tolerance=1e-2, query_offsets=[0, 0, 0])
