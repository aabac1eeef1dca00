"""Reads and checks the header of a safetensors file before any tensor is read, and computes checksums of tensors.

Nothing is ever unpickled. A checksum detects damage, not deliberate changes.
"""

from __future__ import annotations

import hashlib
import json
import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from separatrix.checks import is_whole
from separatrix.errors import ArgumentError

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["HEADER_BYTES", "ITEM_BYTES", "Stored", "digest", "header_entries", "not_safetensors", "stored_tensor"]

HEADER_BYTES = 64 * 1024
"""The largest size of a header in bytes, enough for some hundreds of tensors."""
ITEM_BYTES = {"BOOL": 1, "F16": 2, "BF16": 2, "F32": 4, "F64": 8}
"""The supported dtypes, by their names in safetensors, and their bytes per entry."""
_PICKLES = {b"\x80" + bytes([protocol]) for protocol in range(2, 6)}
_DIMENSIONS = 16
_LARGEST_SIZE = 2**40


@dataclass(frozen=True)
class Stored:
    """A tensor in a file: its dtype, its shape, and the range of its bytes after the header."""

    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


def header_entries(data: bytes, size: int) -> tuple[dict[str, Any], int]:
    """The unchecked entries of the header of a safetensors file, and the number of bytes after the header.

    Args:
        data: The file, or its beginning with all of the header.
        size: The size of the file in bytes.

    Example:
        >>> header_entries(b"PK" + bytes(20), 22)
        Traceback (most recent call last):
            ...
        separatrix.errors.ArgumentError: file: expected a safetensors file, got one that PyTorch saved with pickle, \
which is never opened here; save it with safetensors.torch.save_file.
    """
    # Both prefixes may also be the first bytes of a length, which is followed by a brace.
    if data[8:9] != b"{" and (data[:2] == b"PK" or data[:2] in _PICKLES):
        got = "one that PyTorch saved with pickle, which is never opened here; save it with safetensors.torch.save_file"
        raise not_safetensors(got)
    if size < 8:
        raise not_safetensors(f"{size} bytes")
    (length,) = struct.unpack_from("<Q", data)
    if length > size - 8 and (length > HEADER_BYTES or data[8:9] != b"{"):
        raise not_safetensors("a file that does not begin with the length of a header")
    if length > HEADER_BYTES:
        raise not_safetensors(f"a file whose header has {length:,} bytes; at most {HEADER_BYTES:,} are read")
    if data[8:9] != b"{":
        raise not_safetensors("a file without its header")
    if length > size - 8:
        raise not_safetensors(f"a file that ends inside its header, after {size:,} bytes")
    try:
        entries = json.loads(data[8 : 8 + length].decode("utf-8"))
    except (ValueError, RecursionError):
        raise not_safetensors("a file whose header is not JSON") from None
    if not isinstance(entries, dict):
        raise not_safetensors("a file whose header is not a JSON object")
    return entries, size - 8 - length


def stored_tensor(name: str, entry: object, left: int) -> Stored:
    """The tensor that an entry of a header describes; an error unless its bytes are among the `left` after the header.

    >>> stored_tensor("query", {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, 24)
    Stored(dtype='F32', shape=(2, 3), begin=0, end=24)
    >>> stored_tensor("query", {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, 20)
    Traceback (most recent call last):
        ...
    separatrix.errors.ArgumentError: file: expected a safetensors file, got one that does not have the bytes of 'query'.
    """
    entry = entry if isinstance(entry, dict) else {}
    dtype, shape, offsets = entry.get("dtype"), entry.get("shape"), entry.get("data_offsets")
    if not isinstance(dtype, str) or dtype not in ITEM_BYTES:
        raise ArgumentError(
            f"file: {name}", expected=f"one of the types {', '.join(ITEM_BYTES)}", got=f"{dtype!r}"[:40]
        )
    if (
        not isinstance(shape, list)
        or len(shape) > _DIMENSIONS
        or not all(is_whole(length, low=0, high=_LARGEST_SIZE) for length in shape)
    ):
        raise ArgumentError(f"file: {name}", expected=f"a shape of at most {_DIMENSIONS} sizes", got=f"{shape!r}"[:80])
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(is_whole(x, low=0, high=left) for x in offsets):
        raise not_safetensors(f"one that does not have the bytes of {name!r}")
    begin, end = offsets
    if end - begin != ITEM_BYTES[dtype] * math.prod(shape):
        raise not_safetensors(f"one that does not have the bytes of {name!r}")
    return Stored(dtype, tuple(shape), begin, end)


def digest(tensors: Mapping[str, Tensor], text: str = "") -> bytes:
    """The SHA-256 of a text and of tensors, with their names, types and shapes."""
    import torch  # imported here: callers that only read headers do not need torch

    digest = hashlib.sha256(text.encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"\n{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.detach().cpu().reshape(-1).view(torch.uint8).numpy().data)
    return digest.digest()


def not_safetensors(got: str) -> ArgumentError:
    return ArgumentError("file", expected="a safetensors file", got=got)
