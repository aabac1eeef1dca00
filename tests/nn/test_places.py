"""Sinks, lookahead, distinct tuples and prefixes of a layer, against the definition on its own queries and keys."""

from __future__ import annotations

import pickle

import pytest
import torch

import separatrix as sx
from separatrix.attention import reference
from separatrix.nn import TensorAttention
from separatrix.nn.scoring import factors, positioned, scoring
from tests.draws import draw
from tests.pairwise import pairwise


def make(**options) -> TensorAttention:
    return TensorAttention(12, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0), **options)


def expected(layer, x, is_causal, prefix=0, mask=None):
    """The output of a layer by the definition, from its own projections."""
    q, keys, values = layer.project(x, x, x)
    if layer.bound is None:
        q, keys = positioned(layer, q, keys, is_causal, 0)
        q, keys = factors(layer, q, keys, 0)
    places = {"lookahead": layer.lookahead, "sinks": layer.sinks, "distinct": layer.distinct, "prefix": prefix}
    masks = None if mask is None else [~mask.unsqueeze(-2)] * len(keys)
    options = {"is_causal": is_causal, "windows": layer.windows, "key_masks": masks}
    heads, _ = reference.tensor_attention(q, keys, values, **options, **places, **scoring(layer))
    return layer._output(heads)


@pytest.mark.parametrize(
    ("places", "kind", "prefix"),
    pairwise(
        [{}, {"windows": 3, "sinks": 2}, {"windows": [None, 2], "sinks": 1}, {"distinct": True}],
        [{}, {"form": "pairwise"}, {"form": "determinant"}, {"rotary": 100.0}, {"num_kv_heads": 1}, {"bound": 2.0}],
        [0, 4],
    ),
)
def test_causal_calls_are_those_of_the_definition(places, kind, prefix):
    layer, x = make(**places, **kind), draw(2, 9, 12)
    mask = torch.zeros(2, 9, dtype=torch.bool)
    mask[0, 1] = mask[1, 7] = True
    out = layer(x, is_causal=True, prefix=prefix, key_padding_mask=mask)
    torch.testing.assert_close(out, expected(layer, x, True, prefix, mask))


@pytest.mark.parametrize("places", [{"sinks": 2}, {"distinct": True}, {"rotary": 100.0}], ids=str)
def test_windows_that_look_ahead(places):
    layer, x = make(windows=[3, 1], lookahead=2, **places), draw(2, 9, 12)
    torch.testing.assert_close(layer(x), expected(layer, x, False))
    with pytest.raises(sx.ArgumentError, match="lookahead: expected 0 for a causal call"):
        layer(x, is_causal=True)


def test_gradients_are_those_of_the_definition():
    layer, x = make(windows=3, sinks=2, distinct=True), draw(2, 9, 12).requires_grad_()
    weights, wanted = draw(2, 9, 12, seed=2), [x, *layer.parameters()]
    outs = (layer(x, is_causal=True, prefix=4), expected(layer, x, True, 4))
    torch.testing.assert_close(*(torch.autograd.grad((out * weights).sum(), wanted) for out in outs))


def test_packed_sequences_have_sinks_and_a_prefix_each():
    layer, x = make(windows=2, sinks=1), draw(9, 12)
    parts = torch.cat([layer(x[:4], is_causal=True, prefix=3), layer(x[4:], is_causal=True, prefix=3)])
    packed = layer(x, is_causal=True, prefix=3, cu_seqlens=torch.tensor([0, 4, 9]))
    torch.testing.assert_close(packed, parts)
    jagged = torch.nested.nested_tensor([x[:4], x[4:]], layout=torch.jagged)
    torch.testing.assert_close(layer(jagged, is_causal=True, prefix=3).values(), parts)


def test_top_tuples_look_ahead():
    layer, x = make(windows=2, lookahead=1), draw(6, 12)
    top = layer.top_tuples(x, k=9)
    assert top.indices[:, 0].max() == 1
    assert top.indices[:, 3].amax((0, 1)).tolist() == [4, 4]
    assert sorted(set(top.indices[0, 3].flatten().tolist())) == [2, 3, 4]
    for options in ({"sinks": 1, "windows": 2}, {"distinct": True}):
        with pytest.raises(sx.ArgumentError, match="are not available"):
            make(**options).top_tuples(x)


def test_configuration():
    layer = make(windows=4, sinks=2, lookahead=1, distinct=True)
    assert TensorAttention.from_config(layer.config()).config() == layer.config()
    assert "lookahead=1, sinks=2, distinct=True" in repr(layer)
    assert "sinks" not in repr(make())
    again = pickle.loads(pickle.dumps(layer))
    assert (again.sinks, again.lookahead, again.distinct) == (2, 1, True)
    old = make()
    state = {name: value for name, value in vars(old).items() if name not in ("sinks", "lookahead", "distinct")}
    restored = TensorAttention.__new__(TensorAttention)
    restored.__setstate__(state)
    x = draw(2, 5, 12)
    torch.testing.assert_close(restored(x, is_causal=True), old(x, is_causal=True))
    layer.load_state_dict(
        make(windows=4).state_dict()
    )  # weights have the same meaning for every set of attended tuples


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sinks": 1}, "sinks: expected 0 for a call without windows"),
        ({"lookahead": 1, "windows": [None, None]}, "lookahead: expected 0 for a call without windows"),
        ({"sinks": 1.0, "windows": 2}, "sinks: expected an integer >= 0"),
        ({"distinct": 1}, "distinct: expected True or False"),
        ({"sinks": 1, "windows": 2, "alibi": True}, "sinks: expected 0 for a layer with alibi"),
        ({"lookahead": 1, "windows": 2, "alibi": True}, "lookahead: expected 0 for a layer with alibi"),
        ({"distinct": True, "bound": 1.0, "tolerance": 1e-2}, "distinct: expected False for a layer with a tolerance"),
    ],
)
def test_invalid_layer_options(options, message):
    with pytest.raises(sx.ArgumentError, match=message):
        make(**options)


def test_a_prefix_needs_a_causal_call_and_exact_attention():
    with pytest.raises(sx.ArgumentError, match="prefix: expected 0 for a call that is not causal"):
        make()(draw(2, 5, 12), prefix=2)
    with pytest.raises(sx.ArgumentError, match="prefix: expected 0 for a layer with a tolerance"):
        make(bound=1.0, tolerance=1e-2)(draw(2, 5, 12), prefix=2, is_causal=True)


def test_compiled_calls():
    layer, x = make(windows=3, sinks=2), draw(2, 6, 12)
    compiled = torch.compile(layer, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(x, is_causal=True, prefix=2), layer(x, is_causal=True, prefix=2))
