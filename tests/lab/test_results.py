from __future__ import annotations

import math
import os
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from separatrix.errors import ArgumentError
from separatrix.lab import StoreError, arrays, results

dtypes = (
    hnp.boolean_dtypes()
    | hnp.integer_dtypes()
    | hnp.unsigned_integer_dtypes()
    | hnp.floating_dtypes(sizes=(16, 32, 64))
)
some_arrays = hnp.arrays(dtypes, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))


def back(result: dict[str, Any]) -> dict[str, Any]:
    text, files = results.encode(result)
    return results.decode(text, files.__getitem__)


@given(some_arrays)
def test_arrays_are_restored_bit_for_bit(array: np.ndarray) -> None:
    found = back({"a": array})["a"]
    assert (found.shape, found.dtype) == (array.shape, array.dtype.newbyteorder("="))
    assert found.tobytes() == array.astype(array.dtype.newbyteorder("=")).tobytes()


@given(some_arrays)
def test_layout_and_byte_order_do_not_change_the_file(array: np.ndarray) -> None:
    swapped = np.array(array, order="F").astype(array.dtype.newbyteorder(">"))
    spaced = np.stack([array, array], axis=-1)[..., 0]
    assert results.encode({"a": array}) == results.encode({"a": swapped}) == results.encode({"a": spaced})


@given(some_arrays.filter(lambda array: array.dtype.byteorder in "=|"))
def test_a_tensor_is_the_same_file_as_its_array(array: np.ndarray) -> None:
    assert results.encode({"a": torch.from_numpy(array.copy())}) == results.encode({"a": array})


def test_the_file_is_named_by_its_content_and_is_safetensors() -> None:
    text, files = results.encode({"a": np.arange(3.0)})
    ((digest, data),) = files.items()
    assert sha256(data).hexdigest() == digest
    assert digest in text
    assert list(arrays.named_in(text)) == [digest]
    assert safetensors.numpy.load(data)["array"].tolist() == [0.0, 1.0, 2.0]


@given(st.floats(width=64) | st.floats(width=32).map(np.float32) | st.integers(0, 255).map(np.uint8))
def test_numbers_are_restored_exactly(number: Any) -> None:
    (found,) = back({"x": number}).values()
    assert isinstance(found, float | int)
    assert found == number or (math.isnan(found) and math.isnan(number))


def test_one_text_for_equal_results() -> None:
    one = {"b": np.float64(1), "a": [np.int64(2), np.True_], "c": (float("inf"), None)}
    assert results.encode(one)[0] == '{"a":[2,true],"b":1.0,"c":[{"$float":"inf"},null]}'


@pytest.mark.parametrize(
    ("result", "named"),
    [
        ([1], "result: expected a dict"),
        ({"a": {"b": object()}}, r"result\.a\.b"),
        ({"a": np.array(["text"])}, r"result\.a: expected an array of one of bool"),
        ({"a": np.zeros(2, np.complex128)}, r"result\.a"),
        ({"a": np.zeros(2, np.longdouble)}, r"result\.a"),
        ({"a": np.longdouble(1)}, r"result\.a"),
        ({"a": torch.zeros(2, dtype=torch.bfloat16)}, r"result\.a: expected a tensor of one of bool"),
        ({"$array": 1}, r"do not begin with \$"),
    ],
)
def test_values_that_cannot_be_stored_are_named(result: Any, named: str) -> None:
    with pytest.raises(ArgumentError, match=named):
        results.encode(result)


def test_an_array_is_whole_or_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, files = results.encode({"a": np.arange(9)})
    ((digest, data),) = files.items()

    def full_disk(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full_disk)
        with pytest.raises(StoreError, match="disk is full"):
            arrays.put(tmp_path, digest, data)
    assert list(arrays.files(tmp_path)) == []
    arrays.put(tmp_path, digest, data)
    assert list(arrays.files(tmp_path)) == [arrays.place(tmp_path, digest)]
    assert arrays.fetch(tmp_path, digest) == data


def test_a_damaged_array_is_reported_and_rewritten(tmp_path: Path) -> None:
    _, files = results.encode({"a": np.arange(9)})
    ((digest, data),) = files.items()
    with pytest.raises(StoreError, match=r"is missing.*gc --damaged"):
        arrays.fetch(tmp_path, digest)
    arrays.put(tmp_path, digest, data)
    file = arrays.place(tmp_path, digest)
    file.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(StoreError, match="does not have the SHA-256 in its name"):
        arrays.fetch(tmp_path, digest)
    arrays.put(tmp_path, digest, data)
    assert arrays.fetch(tmp_path, digest) == data
