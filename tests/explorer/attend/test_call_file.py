"""Uploaded files with a call: what is read, and which files are refused with an error message."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save
from torch import Tensor

import separatrix as sx
from separatrix.attention import reference
from separatrix.errors import SeparatrixError
from separatrix.explorer.attend import call_file, example
from separatrix.explorer.attend.call_file import read
from tests.attention.exact.peak_bytes import peak_bytes


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def plain(*batch: int, lengths: tuple[int, int, int] = (6, 6, 6)) -> dict[str, Tensor]:
    names = dict(zip(("q", "k1", "k2"), lengths, strict=True))
    return {name: draw(*batch, size, 4, seed=at) for at, (name, size) in enumerate(names.items())}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("is_causal", [False, True])
def test_a_file_of_tensors_is_the_librarys_map(dtype: torch.dtype, is_causal: bool) -> None:
    tensors = {name: x.to(dtype) for name, x in plain(2, 3).items()}
    weights = read(save({**tensors, "other": torch.zeros(2)}), is_causal=is_causal).map_of(4, 5)
    keys = [tensors["k1"], tensors["k2"]]
    expected = sx.pair_map(tensors["q"], keys, 4, head=(1, 2), is_causal=is_causal)
    assert torch.equal(weights.cells, expected.cells)
    assert weights.top == expected.top


def saved(tmp_path: Path, query: Tensor, keys: list[Tensor], **options: Any) -> bytes:
    values = [torch.ones_like(key) for key in keys]
    result = sx.certified_attention(query, keys, values, tolerance=0.1, **options)
    path = tmp_path / "call.safetensors"
    result.save(path, query, keys, values, **options)
    return path.read_bytes()


OPTIONS: list[dict[str, Any]] = [
    {},
    {"is_causal": True, "scale": 0.7},
    {"windows": [2, None], "query_offset": 1},
    {"key_masks": [torch.tensor([True, False, True, True, False, True]), None]},
]


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("asked", [False, True])
def test_a_saved_call_has_options_of_its_own(tmp_path: Path, options: dict[str, Any], asked: bool) -> None:
    query, first, second = plain(2).values()
    call = read(saved(tmp_path, query, [first, second], **options), is_causal=asked)
    expected = reference.attention_weights(query, [first, second], **options)[1, 3]
    assert call.saved
    torch.testing.assert_close(call.map_of(3, 1).cells, expected.double(), rtol=1e-5, atol=1e-7)


def test_a_saved_call_with_grouped_heads(tmp_path: Path) -> None:
    query, keys = draw(4, 6, 4), [draw(2, 6, 4, seed=1), draw(2, 6, 4, seed=2)]
    call = read(saved(tmp_path, query, keys, enable_gqa=True), is_causal=False)
    expected = reference.attention_weights(query, keys, enable_gqa=True)[3, 0]
    torch.testing.assert_close(call.map_of(0, 3).cells, expected.double(), rtol=1e-5, atol=1e-7)


def told(metadata: object, tensors: dict[str, Tensor] | None = None) -> bytes:
    """A file with any options."""
    query, first, second = plain().values()
    named = {"query": query, "keys.0": first, "keys.1": second} if tensors is None else tensors
    text = metadata if isinstance(metadata, str) else json.dumps(metadata)
    return save(named, metadata={"separatrix": text})


GOOD = {"format": 1, "sets": 2, "options": {"is_causal": False}}
BAD = {
    "words": (b"these are words, and no tensors", "expected a safetensors file"),
    "names": (save({"query": draw(4, 2)}), "tensors q, k1, k2"),
    "order 2": (save({"q": draw(4, 2), "k1": draw(4, 2)}), "two key sets, which is order 3, got 1"),
    "order 4": (save({**plain(), "k3": draw(4, 4)}), "two key sets, which is order 3, got 3"),
    "many pairs": (save(plain(lengths=(1, 2049, 2048))), "at most 4,194,304 pairs of keys; sx.top_tuples has no limit"),
    "heads": (save({**plain(2), "k1": draw(3, 6, 4)}), "heads that broadcast against each other"),
    "broadcast": (
        save({"q": draw(600, 1, 64, 2), "k1": draw(1, 600, 2, 2), "k2": draw(2, 2)}),
        "entries in all tensors once their heads are broadcast",
    ),
    "no JSON": (told("{no JSON"), "one whose options cannot be read"),
    "no options": (told({"sets": 2}), "one whose options cannot be read"),
    "no sets": (told({"sets": True, "options": {}}), "one whose options cannot be read"),
    "a missing set": (told({**GOOD, "sets": 3}), "one without keys.2"),
    "no mask": (
        told(GOOD, {**{"query": draw(6, 4), "keys.0": draw(6, 4), "keys.1": draw(6, 4)}, "key_masks.0": draw(6)}),
        "one whose key_masks.0 is no mask",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_refused_in_a_sentence(name: str) -> None:
    data, sentence = BAD[name]
    with pytest.raises(SeparatrixError) as refused:
        read(data, is_causal=False)
    assert sentence in str(refused.value)
    assert len(str(refused.value)) < 400


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"is_causal": 1}, "is_causal"),
        ({"windows": "wide"}, "windows"),
        ({"windows": [1]}, "windows"),
        ({"scale": "large"}, "scale"),
        ({"query_offset": 0.5}, "query_offset"),
        ({"enable_gqa": "yes"}, "enable_gqa"),
    ],
)
def test_options_that_no_call_has_are_refused(options: dict[str, Any], argument: str) -> None:
    with pytest.raises(sx.ArgumentError) as refused:
        read(told({**GOOD, "options": options}), is_causal=False).map_of(0, 0)
    assert refused.value.argument.startswith(argument)


NAMES = st.sampled_from(["sets", "options", "is_causal", "windows", "scale", "enable_gqa"])
SIMPLE = st.none() | st.booleans() | st.integers() | st.text(max_size=8)


@given(st.recursive(SIMPLE, lambda inner: st.lists(inner) | st.dictionaries(NAMES, inner)))
@settings(max_examples=150)
def test_any_options_are_taken_or_refused_in_a_sentence(metadata: Any) -> None:
    for said in (metadata, {**GOOD, "options": metadata}, {**GOOD, "options": {"windows": metadata}}):
        try:
            read(told(said), is_causal=False).map_of(0, 0)
        except SeparatrixError:
            continue


def test_a_false_header_is_refused() -> None:
    """Overlapping offsets pass the check of the header, but not the safetensors reader."""
    one = {"dtype": "F32", "shape": [1, 1], "data_offsets": [0, 4]}
    text = json.dumps({"q": one, "k1": one, "k2": one}).encode()
    with pytest.raises(SeparatrixError, match="one that cannot be read"):
        read(struct.pack("<Q", len(text)) + text + bytes(12), is_causal=False)


@pytest.mark.parametrize(("query", "head", "message"), [(6, 0, "query: .* 0 to 5, got 6"), (0, 2, "head: .* 0 to 1")])
def test_a_query_or_head_that_is_not_there_is_refused(query: int, head: int, message: str) -> None:
    with pytest.raises(SeparatrixError, match=message):
        read(save(plain(2)), is_causal=False).map_of(query, head)


def test_nan_is_refused() -> None:
    tensors = plain()
    tensors["k2"][3, 1] = float("nan")
    with pytest.raises(SeparatrixError, match=r"keys\[1\]: expected finite numbers"):
        read(save(tensors), is_causal=False).map_of(0, 0)


@pytest.mark.parametrize("query", range(0, example.TOKENS, 7))
def test_the_example_attends_pairs_that_complete_the_sum(query: int) -> None:
    found, numbers = example.example().map_of(query, 0), example.numbers()
    sums = torch.tensor([[(numbers[query] + a + b) % example.MODULUS for b in numbers] for a in numbers])
    complete = int((sums == 0).sum())
    assert complete > 0
    torch.testing.assert_close(found.cells[sums == 0], torch.full((complete,), found.top[0][2], dtype=torch.float64))
    assert found.cells[sums == 0].sum() > 0.9
    first, second, _ = found.top[0]
    three = [numbers[at] for at in (query, first, second)]
    assert example.sum_of(query, first, second) == f"{three[0]} + {three[1]} + {three[2]} = {sum(three)}"
    assert sum(three) % example.MODULUS == 0


def test_the_largest_map_takes_little_memory() -> None:
    data = save(plain(lengths=(1, 2048, 2048)))
    assert call_file.PAIRS == 2048**2
    assert peak_bytes(lambda: read(data, is_causal=False).map_of(0, 0)) < 256 * 2**20
