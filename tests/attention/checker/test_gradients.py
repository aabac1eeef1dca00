"""Exact gradients in balls, against autograd through the reference and against differences, and their certificate."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
import torch

import separatrix as sx
from separatrix.attention import reference
from separatrix.attention.checker.problem import as_problem
from tests.attention.checker import gradients
from tests.attention.checker.gradients import check_gradients, exact_gradients
from tests.contracts.attention_contract import draw, inputs


def promise(query, sets, bound):
    return SimpleNamespace(query=torch.full(query.shape[:-1], bound), keys=(bound,) * sets, values=(bound,) * sets)


def by_autograd(query, keys, values, incoming, **options):
    leaves = [x.clone().requires_grad_() for x in (query, *keys, *values)]
    sets = len(keys)
    out, _ = reference.tensor_attention(leaves[0], leaves[1 : 1 + sets], leaves[1 + sets :], **options)
    found = [x.contiguous() for x in torch.autograd.grad((out * incoming).sum(), leaves)]
    return found[0], found[1 : 1 + sets], found[1 + sets :]


CALLS = {
    "order 2": (inputs(2, 3, [4]), {}),
    "order 3": (inputs(3, 3, [4, 2]), {"scale": -1.3}),
    "order 5": (inputs(5, 2, [2, 1, 2, 2]), {}),
    "causal": (inputs(3, 4, [4, 4]), {"is_causal": True}),
    "windows": (inputs(3, 4, [5, 4]), {"windows": [2, None], "query_offset": 1}),
    "masks": (inputs(2, 3, [5]), {"key_masks": [torch.tensor([True, False, True, True, False])]}),
    "nothing to attend": (inputs(2, 3, [5]), {"is_causal": True, "query_offset": -2}),
}


@pytest.mark.parametrize("name", CALLS)
def test_gradients_of_autograd_pass_and_perturbed_ones_fail(name):
    (query, keys, values), options = CALLS[name]
    incoming = draw(7, *query.shape[:-1], values[0].shape[-1])
    gradients = by_autograd(query, keys, values, incoming, **options)
    kept = check_gradients(gradients, incoming, promise(query, len(keys), 1e-13), query, keys, values, **options)
    assert kept.held, kept
    for part in (gradients[0], *gradients[1], *gradients[2]):
        part.view(-1)[0] += 1.0
        wrong = check_gradients(gradients, incoming, promise(query, len(keys), 1e-3), query, keys, values, **options)
        assert not wrong.held
        part.view(-1)[0] -= 1.0


def test_grouped_and_broadcast_heads():
    query, _, _ = inputs(3, 2, [3, 2], batch=(2, 4))
    _, keys, values = inputs(3, 2, [3, 2], batch=(2,))
    incoming = draw(7, 2, 4, 2, 2)
    gradients = by_autograd(query, keys, values, incoming, enable_gqa=True)
    options = {"enable_gqa": True}
    kept = check_gradients(gradients, incoming, promise(query, 2, 1e-13), query, keys, values, **options)
    assert kept.held, kept
    turned = (gradients[0], [key.roll(1, 0) for key in gradients[1]], gradients[2])
    assert not check_gradients(turned, incoming, promise(query, 2, 1e-4), query, keys, values, **options).held


def test_the_allowed_error_scales_with_the_incoming_gradient():
    """Two heads: the second has no incoming gradient, and one query of the first has an incoming gradient of 2^-32."""
    query, keys, values = inputs(2, 2, [3])
    incoming = torch.zeros(2, 2, 2, dtype=torch.float64)
    incoming[0, 0] = torch.tensor([3.0, -1.0])
    exact = exact_gradients(as_problem(query, keys, values), incoming, promise(query, 1, 0.5))
    allowed = [[float(x) for x in one.allowed.ravel()] for one in exact]
    smallest = 2.0**-1074
    assert allowed[0] == [2.0, 2.0 * 2.0**-32, smallest, smallest]
    assert allowed[1] == allowed[2] == [2.0 * (1 + 2.0**-32)] * 3 + [smallest] * 3


def test_a_nan_gradient_is_broken():
    query, keys, values = inputs(2, 2, [3])
    incoming = draw(7, 2, 2, 2)
    gradients = by_autograd(query, keys, values, incoming)
    gradients[1][0][1, 2, 0] = math.nan
    wrong = check_gradients(gradients, incoming, promise(query, 1, math.inf), query, keys, values)
    assert (wrong.held, wrong.what, wrong.worst) == (False, "keys[0]", (1, 2, 0))
    assert str(wrong) == "broken, the gradient of keys[0] at entry 1, 2, 0: it is nan."


def test_large_calls_are_refused(monkeypatch):
    monkeypatch.setattr(gradients, "TUPLES", 20)
    query, keys, values = inputs(2, 3, [4])
    with pytest.raises(sx.SeparatrixError, match="at most 20 tuples"):
        exact_gradients(as_problem(query, keys, values), draw(7, 2, 3, 2), promise(query, 1, 1.0))
