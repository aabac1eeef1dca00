"""NaN and infinity affect exactly the queries that may attend them, in outputs and in gradients."""

from __future__ import annotations

import math

import pytest
import torch

import separatrix as sx
from separatrix.attention import reference
from tests.contracts.attention_contract import draw
from tests.contracts.engines import engine  # noqa: F401
from tests.pairwise import pairwise

LENGTH = 7
POSITIONS = {
    "causal": {"is_causal": True},
    "causal with an offset": {"is_causal": True, "query_offset": -2},
    "windows": {"windows": 3},
    "causal windows, later queries": {"is_causal": True, "windows": 2, "query_offset": 3},
    "causal, masked": {"is_causal": True, "masked": True},
    "nothing hidden": {},
}


def call(order, options):
    """Tensors of one head, and the options with one entry for each set."""
    query, *sets = draw(3, 2 * order - 1, 1, LENGTH, 2)
    options = dict(options)
    if "windows" in options:
        options["windows"] = [options["windows"], *[None] * (order - 2)]
    if options.pop("masked", False):
        options["key_masks"] = [torch.arange(LENGTH) != 1, *[None] * (order - 2)]
    return query, sets[: order - 1], sets[order - 1 :], options


def sees(order, options, m, token):
    """Which queries may attend a tuple with this token of set m: (L,)."""
    positions = {key: value for key, value in options.items() if key != "key_masks"}
    allowed = reference.allowed_tuples(LENGTH, [LENGTH] * (order - 1), **positions)
    for n, mask in enumerate(options.get("key_masks") or ()):
        if mask is not None:
            allowed = allowed & mask.reshape(-1, *[1] * (order - 2 - n))
    return allowed.select(m + 1, token).reshape(LENGTH, -1).any(1)


PLACES = [("key", 0, 4), ("value", -1, 4), ("value", 0, 1), ("key", -1, 0)]


@pytest.mark.parametrize(
    ("order", "positions", "bad", "place"), pairwise([2, 3, 4], POSITIONS, [math.nan, math.inf, -math.inf], PLACES)
)
def test_hidden_entries_do_not_reach_outputs(order, positions, bad, place):
    kind, m, token = place
    query, keys, values, options = call(order, POSITIONS[positions])
    expected = reference.tensor_attention(query, keys, values, **options)
    (keys if kind == "key" else values)[m][0, token, 1] = bad
    touched = sees(order, options, m % (order - 1), token)
    for return_lse in (False, True):
        output = sx.tensor_attention(query, keys, values, return_lse=return_lse, **options)
        out = output[0] if return_lse else output
        assert torch.allclose(out[0, ~touched], expected[0][0, ~touched], atol=1e-12)
        if return_lse:
            assert torch.allclose(output[1][0, ~touched], expected[1][0, ~touched], atol=1e-12)
        if kind == "value" or math.isnan(bad):  # an infinite key may have weight 0
            column = out[0, touched][:, 1] if kind == "value" else out[0, touched]
            assert not torch.isfinite(column).any()


@pytest.mark.parametrize(
    ("order", "dtype", "length", "is_causal"),
    pairwise([2, 3], [torch.float64, torch.float32, torch.bfloat16, torch.float16], [3, 16, 20], [False, True]),
)
def test_a_nonfinite_query_does_not_change_others(order, dtype, length, is_causal):
    """PyTorch's fused kernel returns zeros for some of these inputs."""
    query, *sets = (x.to(dtype) for x in draw(0, 2 * order - 1, 1, 2, length, 4))
    keys, values = sets[: order - 1], sets[order - 1 :]
    expected = sx.tensor_attention(query, keys, values, is_causal=is_causal)
    query[0, 1, 2, 3] = math.nan
    output = sx.tensor_attention(query, keys, values, is_causal=is_causal)
    assert torch.isnan(output[0, 1, 2]).all()
    output[0, 1, 2] = expected[0, 1, 2]
    assert torch.allclose(output, expected, atol=4 * torch.finfo(dtype).eps)


@pytest.mark.parametrize(
    ("order", "positions", "kind"),
    pairwise([2, 3, 4], [x for x in POSITIONS if x != "nothing hidden"], ["key", "value"]),
)
def test_gradients_of_queries_that_cannot_attend_it(order, positions, kind):
    query, keys, values, options = call(order, POSITIONS[positions])
    touched = sees(order, options, 0, 4)
    weights = draw(9, 1, LENGTH, 2)

    def gradients(attend, rows):
        tensors = [x.detach().clone().requires_grad_() for x in (query, *keys, *values)]
        out, lse = attend(tensors[0], tensors[1:order], tensors[order:], **options)
        lse = lse.masked_fill(lse == -math.inf, 0.0)
        return torch.autograd.grad((out * weights)[:, rows].sum() + lse[:, rows].sum(), tensors)

    def ours(*tensors, **options):
        return sx.tensor_attention(*tensors, return_lse=True, **options)

    expected = gradients(reference.tensor_attention, ~touched)
    (keys if kind == "key" else values)[0][0, 4, 0] = math.nan
    for mine, theirs in zip(gradients(ours, ~touched), expected, strict=True):
        assert torch.allclose(mine, theirs, atol=1e-12)
    of_query = gradients(ours, torch.ones_like(touched))[0]
    assert torch.allclose(of_query[0, ~touched], expected[0][0, ~touched], atol=1e-12)
    assert torch.isnan(of_query[0, touched]).all()


def test_factors_are_balanced_unless_an_entry_is_not_finite():
    """A NaN in the last token of one head changes neither other heads nor earlier queries."""
    query, key, value = draw(0, 3, 2, 4, 1).float()
    expected = sx.tensor_attention(query, key, value, is_causal=True, scale=0.5)
    value[0, 3] = math.nan
    output = sx.tensor_attention(query * 2.0**100, key * 2.0**100, value, is_causal=True, scale=0.5 * 2.0**-200)
    assert torch.isnan(output[0, 3]).all()
    assert torch.allclose(output[0, :3], expected[0, :3], atol=1e-6)
    assert torch.allclose(output[1], expected[1], atol=1e-6)
