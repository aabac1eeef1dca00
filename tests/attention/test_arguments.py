"""Violate every declared constraint in every listed way; the message names the argument and both values."""

from __future__ import annotations

import inspect
import typing

import pytest
import torch

import separatrix as sx
from separatrix.attention import reference
from separatrix.attention.arguments import CONSTRAINTS, CallOptions, check_arguments
from separatrix.attention.checker.problem import as_problem
from separatrix.attention.checker.saved import load_call, save_call
from separatrix.attention.operator import AttentionOptions
from tests.contracts.attention_contract import inputs


def valid(**changes):
    query, keys, values = inputs(3, 4, [4, 4], d_v=3)
    return {"query": query, "keys": keys, "values": values, **changes}


def changed(name, index, function):
    def change():
        call = valid()
        call[name] = [function(x) if m == index else x for m, x in enumerate(call[name])]
        return call

    return change


def with_heads(query_heads, key_heads, value_heads):
    query, keys, values = inputs(3, 4, [4, 4])
    return valid(
        query=query[:1].expand(query_heads, -1, -1),
        keys=[x[:1].expand(key_heads, -1, -1) for x in keys],
        values=[x[:1].expand(value_heads, -1, -1) for x in values],
        enable_gqa=True,
    )


TENSORS = [
    (lambda: valid(query=[1.0]), "query", "a tensor"),
    (changed("keys", 1, lambda x: x.tolist()), "keys[1]", "a tensor"),
    (changed("values", 0, lambda x: None), "values[0]", "a tensor"),
    (lambda: valid(query=inputs(3, 4, [4, 4])[0].to_sparse()), "query", "a dense tensor"),
    (changed("keys", 1, lambda x: x.to_sparse()), "keys[1]", "a dense tensor"),
    (changed("values", 0, lambda x: x.to_sparse()), "values[0]", "a dense tensor"),
    (lambda: valid(query=torch.ones(3)), "query", "shape (..., length, dimension)"),
    (changed("keys", 0, lambda x: x[0, 0]), "keys[0]", "shape (..., length, dimension)"),
    (lambda: valid(query=torch.ones(4, 3, dtype=torch.int64)), "query", "float64, float32, bfloat16 or float16"),
    (changed("values", 1, lambda x: x.float()), "values[1]", "the query's dtype torch.float64"),
    (changed("keys", 1, lambda x: x.to("meta")), "keys[1]", "the query's device cpu"),
]
"""Calls with a tensor that `check_tensor` refuses, its name, and the expected property."""


@pytest.mark.parametrize(("make", "argument", "expected"), TENSORS)
def test_a_tensor_that_is_none(make, argument, expected):
    with pytest.raises(sx.ArgumentError) as caught:
        sx.tensor_attention(**make())
    assert (caught.value.argument, caught.value.expected) == (argument, expected)
    assert caught.value.got


BREAKS = {
    "head dimension": [
        (changed("keys", 1, lambda x: x[..., :2]), r"keys\[1\]"),
        (lambda: valid(query=torch.ones(4, 0).double(), keys=[torch.ones(4, 0).double()] * 2), "query"),
    ],
    "value dimension": [
        (changed("values", 1, lambda x: x[..., :1]), r"values\[1\]"),
        (lambda: valid(values=[torch.ones(4, 0).double()] * 2), r"values\[0\]"),
    ],
    "one length per set": [(changed("values", 0, lambda x: x[:, :3]), r"values\[0\]")],
    "flags": [(lambda: valid(is_causal=1), "is_causal"), (lambda: valid(enable_gqa="yes"), "enable_gqa")],
    "offset": [
        (lambda o=o: valid(query_offset=o), "query_offset") for o in (0.5, True, 2**62 + 1, -(2**62) - 1, 2**70)
    ],
    "gqa heads": [
        (lambda: with_heads(4, 3, 3), r"keys\[0\]"),
        (lambda: with_heads(4, 2, 1), r"values\[0\]"),
        (lambda: with_heads(4, 0, 0), r"keys\[0\]"),
        (lambda: valid(query=torch.ones(4, 3).double(), enable_gqa=True), "query"),
    ],
    "broadcasting": [(changed("keys", 1, lambda x: x[:1].expand(3, -1, -1)), r"keys\[1\]")],
    "causal lengths": [(lambda: valid(query=inputs(3, 5, [4, 4])[0], is_causal=True), r"keys\[0\]")],
    "windows": [(lambda w=w: valid(windows=[None, w]), r"windows\[1\]") for w in (0, -1, 2.0, True, "3")],
    "mask layout": [(lambda: valid(key_masks=[None, torch.ones(4, dtype=torch.bool).to_sparse()]), r"key_masks\[1\]")],
    "mask device": [
        (lambda: valid(key_masks=[None, torch.ones(4, dtype=torch.bool, device="meta")]), r"key_masks\[1\]")
    ],
    "mask type": [
        (lambda: valid(key_masks=[torch.ones(4), None]), r"key_masks\[0\]"),
        (lambda: valid(key_masks=[None, [True] * 4]), r"key_masks\[1\]"),
    ],
    "mask shape": [
        (lambda s=s: valid(key_masks=[torch.ones(s, dtype=torch.bool), None]), r"key_masks\[0\]")
        for s in ((), (3,), (5, 4), (1, 2, 4), (4, 1))
    ],
    "scale": [(lambda s=s: valid(scale=s), "scale") for s in (float("nan"), float("inf"), "1", True, torch.ones(()))],
}


def test_every_constraint_is_broken():
    assert set(BREAKS) == {constraint.name for constraint in CONSTRAINTS}


@pytest.mark.parametrize(
    ("constraint", "make", "argument"),
    [
        pytest.param(constraint, make, argument, id=f"{constraint.name}-{i}")
        for constraint in CONSTRAINTS
        for i, (make, argument) in enumerate(BREAKS[constraint.name])
    ],
)
def test_broken_constraint(constraint, make, argument):
    with pytest.raises(sx.ArgumentError, match=f"^{argument}: expected ") as caught:
        sx.tensor_attention(**make())
    assert caught.value.expected == constraint.expected
    assert caught.value.got


def defaults(function):
    return {
        name: parameter.default
        for name, parameter in inspect.signature(function).parameters.items()
        if name in CallOptions.__annotations__
    }


@pytest.mark.parametrize(
    "function",
    [
        sx.tensor_attention,
        sx.certified_attention,
        sx.plan_attention,
        as_problem,
        save_call,
        reference.masked_scores,
    ],
)
def test_every_call_has_the_same_options_with_the_same_defaults(function):
    assert set(defaults(check_arguments)) == set(CallOptions.__annotations__)
    assert defaults(function) == defaults(check_arguments)


@pytest.mark.parametrize(
    ("function", "rest"),
    [
        (sx.attention_weights, [[0]]),
        (sx.top_tuples, []),
        (sx.pair_map, [0]),
        (sx.verify, []),
        (sx.exact_error_bound, [None]),
    ],
)
def test_a_function_that_forwards_the_options_declares_them_and_accepts_no_other(function, rest):
    assert function.__annotations__["options"] == "Unpack[CallOptions]"
    query, keys, values = inputs(3, 4, [4, 4], batch=())
    call = (query, keys, *rest)
    if function is sx.exact_error_bound:
        call = (query, keys, values)
    if function is sx.verify:
        call = (sx.certified_attention(query, keys, values, tolerance=1e-3, is_causal=True), query, keys, values)
    function(*call, is_causal=True)
    with pytest.raises(TypeError, match="'is_casual'"):
        function(*call, is_casual=True)


@pytest.mark.parametrize("function", [sx.tensor_attention, sx.exact_error_bound])
def test_overloads_have_the_arguments_of_the_implementation(function):
    expected = AttentionOptions if function is sx.tensor_attention else CallOptions
    options = typing.get_type_hints(expected).keys()
    for overload in typing.get_overloads(function):
        hints = typing.get_type_hints(overload, include_extras=True)
        assert hints.pop("options") == typing.Unpack[expected]
        parameters = {*inspect.signature(function).parameters} - {"options"}
        assert {*hints, *options} == {*parameters, *options, "return"}
        assert parameters >= options or function is sx.exact_error_bound


SETS = [
    ({"keys": []}, "keys: expected .* got an empty sequence"),
    ({"keys": 3}, "keys: expected .* got int"),
    ({"values": inputs(2, 4, [4])[2]}, "values: expected 2, one for each key set, got 1"),
    ({"key_masks": [None]}, "key_masks: expected 2, .* got 1"),
    ({"windows": [1, 2, 3]}, "windows: expected 2, .* got 3"),
    ({"method": "fast"}, "method: expected 'auto' or one of .*exact.*, got 'fast'"),
    ({"tolerance": 0.0}, "tolerance: expected a positive finite number, got 0.0"),
    ({"tolerance": float("inf")}, "tolerance: expected a positive finite number, got inf"),
    ({"tolerance": "tight"}, "tolerance: expected"),
]


@pytest.mark.parametrize(("changes", "message"), SETS)
def test_wrong_sets_and_methods(changes, message):
    with pytest.raises(sx.SeparatrixError, match=message):
        sx.tensor_attention(**valid(**changes))


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")
def test_nested_tensors_are_refused():
    rows = torch.nested.nested_tensor([torch.rand(2, 3), torch.rand(4, 3)])
    with pytest.raises(sx.ArgumentError, match="query: expected a dense tensor, got a nested tensor"):
        sx.tensor_attention(rows, rows, rows)


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta:UserWarning")
@pytest.mark.parametrize("sparse", [torch.Tensor.to_sparse, torch.Tensor.to_sparse_csr])
def test_sparse_tensors_are_refused_everywhere(sparse):
    x, message = sparse(torch.rand(4, 8)), "expected a dense tensor, got layout torch.sparse"
    with pytest.raises(sx.ArgumentError, match=message):
        sx.tensor_attention(*[torch.rand(1, 1, 4, 8).to_sparse()] * 3)  # ordinary attention is checked in fewer steps
    with pytest.raises(sx.ArgumentError, match=message):
        sx.linear_attention(x, x, x)
    with pytest.raises(sx.ArgumentError, match=message):
        sx.nn.TensorAttention(8, 2)(x)
    with pytest.raises(sx.ArgumentError, match=message):
        sx.TensorAttentionState(2, 8, 8, bound=1.0, tolerance=1e-2).append([x], [x])


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("offset", [0, 1, 2**62, -(2**62)])
@pytest.mark.parametrize("window", [2, 2**62, 2**63, 2**70])
def test_offsets_and_windows_of_any_length(offset, window, is_causal):
    query, keys, values = inputs(3, 4, [4, 4])
    options = {"is_causal": is_causal, "query_offset": offset}
    found = sx.tensor_attention(query, keys, values, windows=[window, None], return_lse=True, **options)
    # An int64 holds at most 2^63 - 1, and no key is that far behind a query.
    expected = reference.tensor_attention(query, keys, values, windows=[min(window, 2**63 - 1), None], **options)
    torch.testing.assert_close(found, expected)


def test_one_tensor_never_passes_for_two_key_sets():
    query = torch.rand(4, 3)
    with pytest.raises(sx.ArgumentError, match="keys: expected a list of key sets") as caught:
        sx.tensor_attention(query, torch.rand(2, 4, 3), torch.rand(2, 4, 3))
    assert "(2, 4, 3)" in caught.value.got


def test_an_error_survives_pickling():
    """A worker process sends its error to the parent."""
    import pickle

    error = pickle.loads(pickle.dumps(sx.ArgumentError("n", expected="n >= 1", got=0, hypothesis="Theorem 1")))
    assert str(error) == "n: expected n >= 1, got 0. This breaks Theorem 1."


@pytest.mark.parametrize("order", [2, 3, 4])
def test_one_window_and_one_mask_are_for_all_sets(order, tmp_path):
    query, keys, values = inputs(order, 5, [5, 5, 5])
    mask = torch.tensor([True, False, True, True, True])
    bare = {"windows": 3, "key_masks": mask, "is_causal": True}
    listed = {"windows": [3] * (order - 1), "key_masks": [mask] * (order - 1), "is_causal": True}
    expected = sx.tensor_attention(query, keys, values, **listed)
    assert torch.equal(sx.tensor_attention(query, keys, values, **bare), expected)
    lengths = torch.tensor([0, 5])
    assert torch.equal(sx.tensor_attention(query, keys, values, cu_seqlens=lengths, **bare), expected)
    result = sx.certified_attention(query, keys, values, tolerance=1e-6, **bare)
    assert sx.verify(result, query, keys, values, **bare).held
    result.save(tmp_path / "call.safetensors", query, keys, values, **bare)
    assert load_call(tmp_path / "call.safetensors").options["windows"] == [3] * (order - 1)
