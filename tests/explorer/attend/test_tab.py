"""The tab Attend without a browser: the map of the example and of a file, and refused input."""

from __future__ import annotations

import base64
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save

import separatrix as sx
from separatrix.explorer.app import make_app
from separatrix.explorer.attend import example, figures
from separatrix.explorer.attend import tab as attend_tab
from separatrix.explorer.attend.fields import FIELDS
from tests.explorer.bad_values import NONSENSE
from tests.explorer.reader import reader, texts

MAP, CAPTION, CSV = (f'{{"kind":"{kind}","of":"attend"}}.{name}' for kind, name in (
    ("graph", "figure"), ("caption", "children"), ("csv", "children")))  # fmt: skip
NOTE = '{"kind":"note","of":"%s","tab":"attend"}.children'


@pytest.fixture
def visitor(tmp_path: Path) -> Any:
    return reader(make_app(tmp_path, pages={"attend": attend_tab}).server.test_client())


def test_a_first_visit_shows_the_example(visitor: Any) -> None:
    page = visitor.open("?tab=attend")
    assert page["attend-alert.children"] == ""
    top = example.example().map_of(5, 0).top
    assert f"belongs to the pair ({top[0][0]}, {top[0][1]})" in texts(page[CAPTION])
    assert example.sum_of(5, *top[0][:2]) in texts(page["attend-top.children"])
    assert page["attend-example.hidden"] is False
    assert page[CSV].startswith("first,second,weight\n")
    assert len(page[CSV].splitlines()) == 1 + example.TOKENS**2


def test_the_query_and_causality_follow_the_controls(visitor: Any) -> None:
    visitor.open("?tab=attend")
    page = visitor.changed(query="3", causal="yes")
    heat = page[MAP]["data"][0]
    hidden = [[one is None for one in row] for row in heat["z"]]
    assert hidden == [[max(i, j) > 3 for j in range(example.TOKENS)] for i in range(example.TOKENS)]
    assert texts(page[CAPTION]).startswith("Query 3 of the example and its 32 \N{MULTIPLICATION SIGN} 32 pairs of keys")


def test_errors_are_shown_below_the_control_or_above_the_map(visitor: Any) -> None:
    visitor.open("?tab=attend")
    assert "query: expected a whole number from 0, got '-1'" in texts(visitor.changed(query="-1")[NOTE % "query"])
    assert "earlier settings" in visitor.changed(query="-2")['{"kind":"caption","of":"attend"}.children']
    assert visitor.changed(query="32")["attend-alert.children"] == "query: expected an integer from 0 to 31, got 32."
    assert visitor.changed(head="1")["attend-alert.children"] == "head: expected an integer from 0 to 0, got 1."


@pytest.mark.parametrize("text", [one for one in NONSENSE if one])
def test_an_invalid_index_is_refused(text: str) -> None:
    for field in FIELDS:
        with pytest.raises(sx.ArgumentError, match=f"^{field.name}: expected"):
            field.read(text)


def test_a_file_is_shown_and_not_the_example(visitor: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    tensors = dict(zip(("q", "k1", "k2"), torch.randn(3, 2, 9, 4).unbind(), strict=True))
    contents = "data:;base64," + base64.b64encode(save({name: x.contiguous() for name, x in tensors.items()})).decode()
    monkeypatch.setattr(example, "example", lambda: pytest.fail("the example was shown"))
    call, name = attend_tab._call(contents, "mine.safetensors", causal=False)
    assert name == "mine.safetensors"
    expected = sx.pair_map(tensors["q"], [tensors["k1"], tensors["k2"]], 8, head=1)
    assert call.map_of(8, 1).top == expected.top


def test_the_figure_has_the_numbers_of_the_map() -> None:
    weights = sx.pair_map(torch.randn(4, 3), [torch.randn(5, 3), torch.randn(6, 3)], 1, k=3)
    drawing = figures.draw_weights(weights, "it")
    heat, above, beside, *rings = drawing.figure.data
    assert torch.tensor(heat.customdata, dtype=torch.float64).allclose(weights.cells)
    assert heat.z[2][3] == pytest.approx(math.log10(weights.cells[2, 3]))
    assert torch.tensor(above.y, dtype=torch.float64).allclose(weights.second)
    assert torch.tensor(beside.x, dtype=torch.float64).allclose(weights.first)
    for ring in rings:
        assert [*zip(ring.y, ring.x, ring.customdata, strict=True)] == [*weights.top]
    assert "the 3 circled pairs" in drawing.text


def test_long_sets_are_drawn_at_their_places(monkeypatch: pytest.MonkeyPatch) -> None:
    from separatrix.attention.weights import pair_map

    monkeypatch.setattr(pair_map, "CELLS", 3)
    weights = sx.pair_map(torch.randn(4, 3), [torch.randn(6, 3), torch.randn(9, 3)], 1)
    heat = figures.draw_weights(weights, "it").figure.data[0]
    assert (list(heat.y), list(heat.x)) == ([0.5, 2.5, 4.5], [1.0, 4.0, 7.0])
    assert "sum over 2 x 3 keys" in heat.hovertemplate


def test_a_query_with_nothing_to_attend_is_drawn() -> None:
    weights = sx.pair_map(torch.ones(2, 3), [torch.ones(2, 3)] * 2, 0, is_causal=True, query_offset=-1)
    drawing = figures.draw_weights(weights, "it")
    assert drawing.text == "Query 0 of it has no key to attend to among 2 x 2 pairs."
    assert figures.listed(weights, "it") is None
