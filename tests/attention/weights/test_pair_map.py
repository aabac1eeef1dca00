"""The map of one query's pairs: its numbers against the definition, and a picture that shows them."""

from __future__ import annotations

import base64
import re
import struct
import zlib
from xml.etree import ElementTree

import pytest
import torch
from torch import Tensor

import separatrix as sx
from separatrix.attention import reference
from separatrix.attention.weights import pair_map
from tests.contracts.attention_contract import draw


def call(*batch: int, lengths: tuple[int, int, int] = (6, 5, 7)) -> tuple[Tensor, list[Tensor]]:
    query, *keys = (2 * draw(seed, *batch, length, 3) for seed, length in enumerate(lengths))
    return query, keys


@pytest.mark.parametrize("options", [{}, {"windows": [2, None]}, {"is_causal": True, "query_offset": 1}])
def test_the_numbers_are_the_definitions(options: dict) -> None:
    query, keys = call(2, 3)
    weight_map = sx.pair_map(query, keys, -2, head=(1, 2), k=4, scale=0.7, **options)
    weights = reference.attention_weights(query, keys, scale=0.7, **options)[1, 2, 4]
    torch.testing.assert_close(weight_map.cells, weights)
    torch.testing.assert_close(weight_map.first, weights.sum(1))
    torch.testing.assert_close(weight_map.second, weights.sum(0))
    assert (weight_map.query, weight_map.keys_per_cell) == (4, (1, 1))
    top = sx.top_tuples(query, keys, 4, scale=0.7, **options)
    assert [list(pair[:2]) for pair in weight_map.top] == top.indices[1, 2, 4].tolist()
    torch.testing.assert_close(torch.tensor([pair[2] for pair in weight_map.top]), top.weights[1, 2, 4].float())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("size", [1.0, 1e5, 1e8])
def test_cells_and_sides_sum_to_one(dtype: torch.dtype, size: float) -> None:
    query, keys = call(lengths=(6, 500, 300))
    query, keys = query.to(dtype), [(1 + key / 64).to(dtype) for key in keys]
    weights = sx.pair_map(query, keys, at=3, scale=size)
    for sums in (weights.cells, weights.first, weights.second):
        assert abs(sums.sum().item() - 1) <= 64 * torch.finfo(torch.promote_types(dtype, torch.float32)).eps


def test_a_head_of_grouped_keys_and_masks() -> None:
    query = draw(0, 4, 3, 2)
    keys = [draw(1, 2, 5, 2), draw(2, 2, 6, 2)]
    masks = [torch.rand(4, 5, generator=torch.Generator().manual_seed(0)) < 0.6, None]
    weights = sx.pair_map(query, keys, 1, head=3, key_masks=masks, enable_gqa=True)
    expected = reference.attention_weights(query, keys, key_masks=masks, enable_gqa=True)[3, 1]
    torch.testing.assert_close(weights.cells, expected)


@pytest.mark.parametrize("batch", [(), (1,), (1, 1)])
def test_a_single_head_need_not_be_named(batch: tuple[int, ...]) -> None:
    query, keys = call(*batch)
    assert sx.pair_map(query, keys, 0).cells.shape == (5, 7)


def test_long_sets_have_several_keys_to_a_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pair_map, "CELLS", 3)
    query, keys = call()
    weight_map = sx.pair_map(query, keys, 2)
    weights = reference.attention_weights(query, keys)[2]
    assert (weight_map.keys_per_cell, tuple(weight_map.cells.shape)) == ((2, 3), (3, 3))
    for row, rows in enumerate(([0, 1], [2, 3], [4])):
        for column, columns in enumerate(([0, 1, 2], [3, 4, 5], [6])):
            torch.testing.assert_close(weight_map.cells[row, column], weights[rows][:, columns].sum())
    assert len(weight_map.first) == 5
    assert "sum over 2 x 3 keys" in weight_map._repr_svg_()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"head": 2}, "head: expected an integer from -2 to 1, got 2"),
        ({"head": ()}, r"head: expected an index for each of the leading dimensions \(2,\), got"),
        ({"head": (0, 0)}, "head: expected an index for each"),
        ({"head": True}, "head: expected an integer"),
        ({"at": 6}, "at: expected an integer from -6 to 5, got 6"),
        ({"k": 0}, "k: expected an integer >= 1"),
        ({"keys": [draw(0, 2, 6, 3)]}, r"keys: expected two key sets \(order 3\), got 1"),
        ({"keys": [draw(0, 2, 6, 3), draw(0, 2, 0, 3)]}, "keys: expected at least one token"),
        ({"query": draw(0, 2, 0, 3)}, "query: expected at least one token"),
        ({"query": draw(0, 0, 6, 3)}, "query: expected at least one head|keys.*broadcast"),
    ],
)
def test_bad_arguments_are_refused(change: dict, message: str) -> None:
    query, keys = call(2)
    given = {"query": query, "keys": keys, "at": 0, "head": 0, **change}
    with pytest.raises(sx.ArgumentError, match=message):
        sx.pair_map(**given)


def pixels(svg: str) -> Tensor:
    """The image inside an SVG: eight bits of red, green, blue and opacity, rows without a PNG filter."""
    data = base64.b64decode(re.search(r"data:image/png;base64,([^\"]+)", svg).group(1))  # type: ignore[union-attr]
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    chunks, at = {}, 8
    while at < len(data):
        (length,) = struct.unpack_from(">I", data, at)
        kind, content = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        assert struct.unpack_from(">I", data, at + 8 + length) == (zlib.crc32(kind + content),)
        chunks[kind] = content
        at += 12 + length
    assert [*chunks] == [b"IHDR", b"IDAT", b"IEND"]
    width, height, *form = struct.unpack(">2I5B", chunks[b"IHDR"])
    assert form == [8, 6, 0, 0, 0]
    lines = torch.tensor(list(zlib.decompress(chunks[b"IDAT"]))).reshape(height, 1 + 4 * width)
    assert (lines[:, 0] == 0).all()
    return lines[:, 1:].reshape(height, width, 4)


def test_the_picture_shows_the_map() -> None:
    query, keys = call(lengths=(6, 6, 6))
    weights = sx.pair_map(query, keys, 3, k=2, is_causal=True)
    svg = weights._repr_svg_()
    root = ElementTree.fromstring(svg)
    name = "{http://www.w3.org/2000/svg}"
    words = " ".join(text for text in root.itertext())
    assert f"The weights that query 3 gives to 6 x 6 pairs of keys; the largest is {weights.top[0][2]:.3g}" in words
    for first, second, weight in weights.top:
        assert f"({first}, {second}): {weight:.3g}" in words
    assert len(root.findall(f"{name}circle")) == 2 * 2
    shown = pixels(svg)
    assert torch.equal(shown[..., 3] == 0, weights.cells == 0), "clear is what may not be attended"
    best = divmod(int(weights.cells.argmax()), 6)
    assert shown[best][:3].tolist() == [253, 231, 37]


def test_a_query_with_nothing_to_attend_has_a_picture() -> None:
    query, keys = call()
    weights = sx.pair_map(query, keys, 0, is_causal=True, query_offset=-3)
    assert weights.top == ()
    assert "The query attends no pair." in weights._repr_svg_()
    ElementTree.fromstring(weights._repr_svg_())


def test_equal_weights_have_one_colour() -> None:
    weights = sx.pair_map(torch.zeros(1, 2), [torch.ones(3, 2), torch.ones(4, 2)], 0)
    ElementTree.fromstring(weights._repr_svg_())
    assert weights.top[:2] == ((0, 0, pytest.approx(1 / 12)), (0, 1, pytest.approx(1 / 12)))
