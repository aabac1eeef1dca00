"""The format of results: numbers as canonical JSON, arrays as safetensors files named by their SHA-256.

Equal results have the same text and the same files on every machine, so two runs can be compared bit for bit. Times are
not part of results.

>>> import numpy as np
>>> text, files = encode({"loss": np.float64(0.5), "curve": np.zeros(2), "limit": float("nan")})
>>> text[:24], text[-38:]
('{"curve":{"$array":{"dty', '},"limit":{"$float":"nan"},"loss":0.5}')
>>> decode(text, lambda digest: files[digest])
{'curve': array([0., 0.]), 'limit': nan, 'loss': 0.5}
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray
from safetensors import SafetensorError

from separatrix.errors import ArgumentError
from separatrix.lab import arrays, canonical_json
from separatrix.lab.faults import DamagedError

Array = NDArray[Any]

_NAME = "array"
# The types that safetensors and numpy both have, so that any reader can read them.
_WIDTHS = {"uint": (8, 16, 32, 64), "int": (8, 16, 32, 64), "float": (16, 32, 64), "complex": (64,)}
_DTYPES = ("bool", *(f"{kind}{width}" for kind, widths in _WIDTHS.items() for width in widths))


def encode(result: Mapping[str, Any]) -> tuple[str, dict[str, bytes]]:
    """The canonical text of a result, and the files of its arrays by their digests."""
    files: dict[str, bytes] = {}
    if not isinstance(result, Mapping):
        raise ArgumentError("result", expected="a dict", got=type(result).__name__)

    def other(value: Any, name: str) -> canonical_json.Plain:
        if isinstance(value, np.generic) and value.dtype.kind in "biuf" and value.dtype.name in _DTYPES:
            number = value.item()  # exact, because every narrower float is a float64
            return number if np.isfinite(value) else {"$float": repr(number)}
        array = _of_tensor(value, name) if _is_tensor(value) else value
        if not isinstance(array, np.ndarray):
            return canonical_json.refuse(value, name)
        data = pack(array, name)
        digest = sha256(data).hexdigest()
        files[digest] = data
        return {"$array": {"sha256": digest, "dtype": array.dtype.name, "shape": list(array.shape)}}

    return canonical_json.canonical(result, "result", other), files


def _is_tensor(value: Any) -> bool:
    # A value can be a tensor only if torch has been imported.
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def _of_tensor(tensor: Any, name: str) -> Array:
    try:
        array: Array = tensor.detach().cpu().resolve_conj().resolve_neg().numpy()
    except TypeError:
        raise ArgumentError(name, expected=f"a tensor of one of {', '.join(_DTYPES)}", got=tensor.dtype) from None
    return array


def pack(array: Array, name: str = "array") -> bytes:
    """The bytes of a safetensors file with one array; they are the same on every machine."""
    if array.dtype.name not in _DTYPES:
        raise ArgumentError(name, expected=f"an array of one of {', '.join(_DTYPES)}", got=array.dtype.name)
    little = np.array(array, dtype=array.dtype.newbyteorder("<"), order="C")
    return safetensors.numpy.save({_NAME: little})


def unpack(data: bytes) -> Array:
    """The array of a file that `pack` made."""
    return safetensors.numpy.load(data)[_NAME]


def load(mark: arrays.Mark, fetch: Callable[[str], bytes]) -> Array:
    """The array that a mark names; `fetch` returns the bytes of its file, given their SHA-256.

    Raises:
        DamagedError: if the file is not one that `pack` makes for an array of this dtype and shape.
    """
    data = fetch(mark.sha256)
    try:
        array = unpack(data)
    except (SafetensorError, KeyError, TypeError, ValueError) as error:  # the file may come from an untrusted source
        raise DamagedError(f"The file of the array {mark.sha256} does not hold one array ({error}).") from error
    if (array.dtype.name, array.shape) != (mark.dtype, mark.shape):
        raise DamagedError(
            f"The file of the array {mark.sha256} holds {array.dtype.name} {list(array.shape)}, and its result names "
            f"{mark.dtype} {list(mark.shape)}. {arrays.REMEDY}"
        )
    return array


def decode(text: str, fetch: Callable[[str], bytes]) -> dict[str, Any]:
    """The result of a canonical text; `fetch` returns the bytes of an array's file, given its SHA-256."""

    def unmarked(inner: dict[str, Any]) -> Any:
        if inner.keys() == {"$array"}:
            return load(arrays.checked_mark(inner["$array"]), fetch)
        return canonical_json.unmarked(inner)

    decoded: dict[str, Any] = json.loads(text, object_hook=unmarked)
    return decoded
