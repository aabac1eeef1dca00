"""Certified attention: which algorithm runs, what the certificate bounds, and which calls raise an error."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

import separatrix as sx
from separatrix.attention import certified, reference
from separatrix.attention.call import check_call
from separatrix.attention.certified import certify_call
from tests.contracts.attention_contract import draw, inputs


@pytest.mark.parametrize("method", ["auto", "exact", "polynomial"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_output_and_log_sum_exp_are_within_their_certificates(method, dtype):
    query, keys, values = inputs(3, 30, [40, 50])
    query, *sets = (x.to(dtype) for x in (query, *keys, *values))
    result = sx.certified_attention(query, sets[:2], sets[2:], tolerance=1e-3, method=method)
    exact, lse = reference.tensor_attention(
        query.double(), [x.double() for x in sets[:2]], [x.double() for x in sets[2:]]
    )
    certificate = result.certificate
    assert certificate.total <= result.tolerance == 1e-3
    assert ((result.output.double() - exact).abs().amax(-1) <= certificate.per_query).all()
    assert (result.lse.double() - lse).abs().max() <= certificate.lse
    assert result.plan.method in ("exact", "polynomial") if method == "auto" else result.plan.method == method


def test_few_tokens_are_attended_exactly_and_many_by_a_polynomial():
    few = sx.certified_attention(*inputs(3, 4, [5, 6]), tolerance=1e-4)
    many = sx.certified_attention(*inputs(3, 20, [2000, 2000], batch=()), tolerance=1e-4)
    assert (few.plan.method, many.plan.method) == ("exact", "polynomial")


@pytest.mark.parametrize(("requires_grad", "keeps"), [(False, ("output",)), (True, ("output", "gradient"))])
def test_gradients_are_certified_where_they_are_wanted(requires_grad, keeps):
    query, keys, values = inputs(3, 20, [30, 40], batch=())
    result = sx.certified_attention(
        query.requires_grad_(requires_grad), keys, values, tolerance=1e-4, method="polynomial"
    )
    assert result.keeps == keeps
    assert (result.certificate.gradient is not None) == requires_grad


@pytest.mark.parametrize("which", ["keys", "lse"])
def test_a_bound_that_is_not_a_number_satisfies_no_tolerance(monkeypatch, which):
    certify, degrees = certified.certify, []

    def certify_second_run(analysis, run):
        certificate = certify(analysis, run)
        degrees.append(run.recipe.index_set.degree)
        if len(degrees) > 1:
            return certificate
        if which == "lse":
            return replace(certificate, lse=math.nan)
        return replace(certificate, gradient=replace(certificate.gradient, keys=(0.0, math.nan)))

    monkeypatch.setattr(certified, "certify", certify_second_run)
    query, keys, values = inputs(3, 20, [30, 40], batch=())
    call = check_call(query.requires_grad_(which == "keys"), keys, values)
    result = certify_call(call, 1e-4, "polynomial", with_lse=True)
    assert len(degrees) == 2
    assert result.keeps == (("output", "gradient") if which == "keys" else ("output",))
    assert result.certificate.lse <= 1e-4


def test_a_call_with_nothing_to_attend_has_no_error():
    result = sx.certified_attention(*inputs(3, 4, [0, 6]), tolerance=1e-4)
    assert not result.output.any()
    assert result.lse.isneginf().all()
    assert (result.certificate.total, result.plan.why) == (0.0, "there is nothing to attend")
    assert result.certificate.per_query.shape == (2, 4)


def test_a_tolerance_that_the_type_cannot_keep_is_refused():
    query, keys, values = inputs(2, 4, [5])
    with pytest.raises(sx.SeparatrixError, match="tolerance"):
        sx.certified_attention(query.float(), keys[0].float(), values[0].float(), tolerance=1e-12)


def test_the_log_sum_exp_keeps_the_tolerance_if_requested():
    call = check_call(*inputs(3, 20, [30, 40]))
    exact, lse = reference.tensor_attention(call.query, call.keys, call.values)
    result = certify_call(call, 1e-2, "polynomial", with_lse=True)
    assert result.certificate.lse <= 1e-2
    assert (result.lse - lse).abs().max() <= 1e-2
    assert (result.output - exact).abs().max() <= 1e-2


def test_a_saved_result_is_verified(tmp_path):
    query, key, value = draw(0, 3, 1, 6, 2)
    result = sx.certified_attention(query, key, value, tolerance=1e-6, is_causal=True)
    result.save(tmp_path / "call.safetensors", query, key, value, is_causal=True)
    assert (tmp_path / "call.safetensors").stat().st_size > result.output.nbytes
