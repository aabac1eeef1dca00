"""Packed sequences in a layer: every format gives the results of a loop over the sequences."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor

import separatrix as sx
from separatrix.nn import TensorAttention
from tests.draws import draw

LENGTHS = [5, 9, 5, 1]
CU = torch.tensor([0, *LENGTHS]).cumsum(0)
LAYERS = [
    {},
    {"order": 2},
    {"num_kv_heads": 2, "windows": 3},
    {"rotary": 100.0},
    {"form": "pairwise"},
    {"form": "determinant", "alibi": True, "rotary": 100.0},
    {"bound": 1.0},
    {"bound": 1.0, "tolerance": 1e-3},
]


def made(options: dict[str, object]) -> TensorAttention:
    generator = torch.Generator().manual_seed(0)
    return TensorAttention(
        **{"embed_dim": 24, "num_heads": 4, "order": 3, **options}, dtype=torch.float64, generator=generator
    )


def looped(layer: TensorAttention, x: Tensor, **options: object) -> Tensor:
    return torch.cat([layer(x[..., a:b, :], **options) for a, b in itertools.pairwise(CU)], -2)


@pytest.mark.parametrize("options", LAYERS)
def test_cumulative_lengths(options):
    layer = made(options)
    for x in (draw(20, 24), draw(2, 20, 24)):
        expected = looped(layer, x, is_causal=True)
        torch.testing.assert_close(layer(x, cu_seqlens=CU, is_causal=True), expected, rtol=0, atol=1e-12)


def test_a_padding_mask_and_a_key_of_its_own():
    layer = made({})
    x, memory = draw(2, 20, 24), draw(2, 16, 24, seed=1)
    key_cu = torch.tensor([0, 4, 5, 12, 16])
    padding = draw(2, 16, seed=2) > 0.5
    out = layer(x, memory, cu_seqlens=[CU, key_cu], key_padding_mask=padding)
    parts = [
        layer(x[:, CU[s] : CU[s + 1]], memory[:, here], key_padding_mask=padding[:, here])
        for s, here in enumerate(slice(a, b) for a, b in itertools.pairwise(key_cu))
    ]
    torch.testing.assert_close(out, torch.cat(parts, 1), rtol=0, atol=1e-12)


@pytest.mark.parametrize("options", [{}, {"rotary": 100.0, "num_kv_heads": 1}, {"batch_first": False}])
def test_sequence_ids(options):
    layer = made(options)
    x = draw(2, 6, 24)
    padding = torch.tensor([[False] * 6, [True, False, False, True, False, False]])
    ids = torch.tensor([[7, 7, 7, 2, 2, 9], [0, 0, 1, 1, 1, 1]])
    rows = [[(0, 3), (3, 5), (5, 6)], [(0, 2), (2, 6)]]

    def attend(x: Tensor, **arguments: object) -> Tensor:
        return layer(x, **arguments) if layer.batch_first else layer(x.movedim(0, -2), **arguments).movedim(-2, 0)

    expected = torch.stack(
        [
            torch.cat([attend(x[row, a:b], key_padding_mask=padding[row, a:b], is_causal=True) for a, b in rows[row]])
            for row in (0, 1)
        ]
    )
    out = attend(x, sequence_ids=ids, key_padding_mask=padding, is_causal=True)
    torch.testing.assert_close(out, expected, rtol=0, atol=1e-12)


def test_jagged_tensors():
    layer = made({"rotary": 100.0})
    parts = [draw(length, 24, seed=length) for length in (4, 7, 1)]
    x = torch.nested.nested_tensor(parts, layout=torch.jagged).requires_grad_()
    out = layer(x, is_causal=True)
    for actual, part in zip(out.unbind(), parts, strict=True):
        torch.testing.assert_close(actual, layer(part, is_causal=True), rtol=0, atol=1e-12)
    (x + out).values().sum().backward()
    assert x.grad.values().shape == (12, 24)


def test_gradients():
    layer = made({})
    x = draw(20, 24).requires_grad_()
    incoming = draw(20, 24, seed=5)
    grads = [
        torch.autograd.grad(out, [x, *layer.parameters()], incoming)
        for out in (layer(x, cu_seqlens=CU, is_causal=True), looped(layer, x, is_causal=True))
    ]
    for ours, theirs in zip(*grads, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-11)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"cu_seqlens": [CU, CU, CU]}, "cu_seqlens: expected one tensor, or two"),
        ({"cu_seqlens": CU, "sequence_ids": torch.zeros(20, dtype=torch.int64)}, "None beside sequence_ids"),
        ({"sequence_ids": torch.zeros(19, dtype=torch.int64)}, r"sequence_ids: expected .* shape \(20,\)"),
        ({"sequence_ids": [0] * 20}, "sequence_ids: expected .* got list"),
        ({"cu_seqlens": torch.tensor([0, 3])}, "query: expected 3 tokens"),
    ],
)
def test_refused_arguments(arguments, message):
    with pytest.raises(sx.ArgumentError, match=message):
        made({})(draw(20, 24), **arguments)


def test_arguments_refused_with_jagged_tensors():
    x = torch.nested.nested_tensor([draw(4, 24), draw(3, 24)], layout=torch.jagged)
    with pytest.raises(sx.ArgumentError, match="cu_seqlens: expected None for a jagged query"):
        made({})(x, cu_seqlens=CU)
    with pytest.raises(sx.ArgumentError, match="batch_first=True"):
        made({"batch_first": False})(x)
    holes = torch.nested.narrow(draw(2, 6, 24), 1, torch.tensor([0, 1]), torch.tensor([3, 2]), layout=torch.jagged)
    with pytest.raises(sx.ArgumentError, match="without holes"):
        made({})(holes)


@pytest.mark.parametrize("argument", ["cu_seqlens", "sequence_ids"])
def test_lengths_without_entries(argument):
    layer, x = made({}), draw(20, 24)
    lengths = {"cu_seqlens": CU, "sequence_ids": torch.zeros(20, dtype=torch.int64)}[argument]
    error = pytest.raises(sx.ArgumentError, match=f"{argument}.*: expected a tensor with entries")
    with error:
        torch.export.export(layer, (x,), {argument: lengths})
    with error:
        torch.vmap(lambda given: layer(x, **{argument: given}))(lengths.expand(2, -1))
    with error:
        layer.to("meta")(x.to("meta"), **{argument: lengths.to("meta")})


def test_packed_sequences_under_a_compiler():
    layer, x = made({}).requires_grad_(False), draw(20, 24)
    out = torch.compile(layer, backend="aot_eager")(x, cu_seqlens=CU, is_causal=True)
    torch.testing.assert_close(out, looped(layer, x, is_causal=True), rtol=0, atol=1e-12)
