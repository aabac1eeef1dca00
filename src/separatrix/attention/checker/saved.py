"""A call and its results in a file, to be checked elsewhere: the tensors in safetensors format, and everything else as
JSON in its metadata.

The tensors are `query`, `keys.m`, `values.m`, `key_masks.m` where there is a mask, and the results `output`, `lse` and
`per_query`. The metadata has one entry, `separatrix`, with the options of the call, the numbers of the certificate and
a checksum of all of these. The checksum detects damage, not deliberate changes.

Files are not trusted. Names, types, shapes, options and the size are checked before a tensor is loaded, tensors with
other names are never loaded, and every violation raises an `ArgumentError`.
"""

from __future__ import annotations

import io
import json
import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from safetensors.torch import save_file
from torch import Tensor

from separatrix.attention.checker.problem import as_problem, check_shapes
from separatrix.attention.checker.verification import Result, Verification, verify
from separatrix.checks import finite, flag, is_number, whole
from separatrix.errors import ArgumentError
from separatrix.tensor_files import HEADER_BYTES, Stored, digest, header_entries, stored_tensor

if TYPE_CHECKING:
    from separatrix.attention.arguments import CallOptions

LARGEST_CALL = 2**31
"""The largest total size in bytes of the tensors in a file; `verify` takes tensors of any size."""
_FORMAT = 2
_MOST_SETS = 64
_TYPES = {
    "BOOL": torch.bool, "F16": torch.float16, "BF16": torch.bfloat16, "F32": torch.float32, "F64": torch.float64
}  # fmt: skip
Entry = TypeVar("Entry")


@dataclass(frozen=True)
class SavedCertificate:
    """The numbers of a certificate as they were saved."""

    total: float
    lse: float
    per_query: Tensor


@dataclass(frozen=True)
class SavedCall:
    """A call and its results as they were saved; `arguments` and `options` are those of the call."""

    output: Tensor
    lse: Tensor
    certificate: SavedCertificate
    arguments: tuple[Tensor, list[Tensor], list[Tensor]]
    options: CallOptions

    def verify(self, queries: int = 16) -> Verification:
        """Whether the certificate holds."""
        return verify(self, *self.arguments, **self.options, queries=queries)


def save_call(
    path: str | Path,
    result: Result,
    query: Tensor,
    keys: Tensor | Sequence[Tensor],
    values: Tensor | Sequence[Tensor],
    *,
    is_causal: bool = False,
    query_offset: int = 0,
    key_masks: Tensor | Sequence[Tensor | None] | None = None,
    windows: int | Sequence[int | None] | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> None:
    """Write a call and its results."""
    sets = _sets(keys, Tensor)
    named = {"query": query, **_named("keys", sets), **_named("values", _sets(values, Tensor))}
    if key_masks is not None:
        masks = [key_masks] * len(sets) if isinstance(key_masks, Tensor) else key_masks
        named |= _named("key_masks", masks)
    certificate = result.certificate
    named |= {"output": result.output, "lse": result.lse, "per_query": certificate.per_query}
    metadata = {
        "format": _FORMAT,
        "sets": len(sets),
        "options": {
            "is_causal": is_causal,
            "query_offset": query_offset,
            "windows": [windows] * len(sets) if isinstance(windows, int) else windows and list(windows),
            "scale": scale,
            "enable_gqa": enable_gqa,
        },
        "certificate": {"total": certificate.total, "lse": certificate.lse},
    }
    # Copies, because safetensors does not save tensors that share memory, such as one key set given twice.
    tensors = {name: x.detach().cpu().clone(memory_format=torch.contiguous_format) for name, x in named.items()}
    save_file(tensors, path, metadata={"separatrix": json.dumps(metadata | {"digest": _digest(metadata, tensors)})})


def load_call(path: str | Path) -> SavedCall:
    """Read a file that `save_call` wrote.

    Raises:
        ArgumentError: The file cannot be read, is not in the format of `save_call`, has no query, or is damaged.
    """
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # checked before opening: opening a pipe might block forever
            raise _not_saved(path, "a pipe, a folder or a device, not a file")
        with open(path, "rb") as file:
            return _read(path, file, os.fstat(file.fileno()).st_size)
    except OSError as error:
        raise _not_saved(path, error.strerror or str(error)) from error


def _read(path: str | Path, file: io.BufferedReader, size: int) -> SavedCall:
    try:
        entries, left = header_entries(file.read(8 + HEADER_BYTES), size)
    except ArgumentError as error:
        raise _not_saved(path, error.got) from None
    metadata = _metadata(path, entries.pop("__metadata__", None))
    sets = range(metadata["sets"])
    optional = [f"key_masks.{m}" for m in sets if f"key_masks.{m}" in entries]
    names = ["query", *(f"{name}.{m}" for name in ("keys", "values") for m in sets), "output", "lse", "per_query"]
    for name in names:
        if name not in entries:
            raise _not_saved(path, f"one without {name!r}")
    stored = {name: stored_tensor(name, entries[name], left) for name in (*names, *optional)}
    needed = sum(tensor.end - tensor.begin for tensor in stored.values())
    if needed > LARGEST_CALL:
        expected = f"at most {LARGEST_CALL:,} bytes of tensors; sx.verify takes tensors of any size"
        raise ArgumentError("file", expected=expected, got=f"{needed:,} in {path}")
    _check_fit(_call(metadata, {name: _described(name, tensor) for name, tensor in stored.items()}))
    tensors = {name: _loaded(file, tensor, size - left) for name, tensor in stored.items()}
    if metadata.pop("digest") != _digest(metadata, tensors):
        raise ArgumentError("file", expected="content that matches its checksum", got=f"another in {path}")
    return _call(metadata, tensors)


def _call(metadata: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> SavedCall:
    sets = range(metadata["sets"])
    keys, values = ([tensors[f"{name}.{m}"] for m in sets] for name in ("keys", "values"))
    options: CallOptions = {"key_masks": [tensors.get(f"key_masks.{m}") for m in sets]}
    options.update(metadata["options"])
    return SavedCall(
        tensors["output"],
        tensors["lse"],
        SavedCertificate(**metadata["certificate"], per_query=tensors["per_query"]),
        (tensors["query"], keys, values),
        options,
    )


def _check_fit(call: SavedCall) -> None:
    """Raise an `ArgumentError` if the tensors do not match each other or the options; only their shapes and dtypes are
    used.
    """
    problem = as_problem(*call.arguments, **call.options)
    check_shapes(problem, call.output, call.certificate.per_query, call.lse)
    if 0 in call.output.shape[:-1]:
        raise ArgumentError("file", expected="one query or more", got="none")


def _metadata(path: str | Path, metadata: object) -> dict[str, Any]:
    """The metadata of a saved call, with the type of each entry checked."""
    text = metadata.get("separatrix") if isinstance(metadata, dict) else None
    if not isinstance(text, str):
        raise _not_saved(path, "one without 'separatrix' in its metadata")
    try:
        metadata = json.loads(text)
    except (ValueError, RecursionError):
        raise _not_saved(path, "one whose metadata is not JSON") from None
    if not isinstance(metadata, dict) or metadata.get("format") != _FORMAT:
        got = f"format {metadata.get('format')!r}"[:40] if isinstance(metadata, dict) else "another"
        raise ArgumentError("file", expected=f"format {_FORMAT}", got=f"{got} in {path}")
    certificate, options = metadata.get("certificate"), metadata.get("options")
    known = {"format", "sets", "options", "certificate", "digest"}
    if set(metadata) != known or not isinstance(options, dict) or not isinstance(certificate, dict):
        raise _not_saved(path, "one whose metadata are incomplete")
    whole("file: sets", metadata["sets"], low=1, high=_MOST_SETS)
    if set(certificate) != {"total", "lse"} or not all(map(is_number, certificate.values())):
        raise _not_saved(path, "one whose certificate has other entries than the numbers 'total' and 'lse'")
    if set(options) != {"is_causal", "query_offset", "windows", "scale", "enable_gqa"}:
        raise _not_saved(path, "one whose options are not those of a call")
    flag("file: is_causal", options["is_causal"])
    flag("file: enable_gqa", options["enable_gqa"])
    whole("file: query_offset", options["query_offset"], low=-(2**63), high=2**63 - 1)
    if options["scale"] is not None:
        finite("file: scale", options["scale"])
    windows = options["windows"]
    if windows is not None:
        if not isinstance(windows, list):
            raise _not_saved(path, "one whose windows are no list")
        for m, window in enumerate(windows):
            if window is not None:
                whole(f"file: windows[{m}]", window, low=1, high=2**63 - 1)
    return metadata


def _described(name: str, stored: Stored) -> Tensor:
    """A tensor without data, with the dtype and shape of a stored one."""
    if (stored.dtype == "BOOL") != name.startswith("key_masks."):
        raise ArgumentError(f"file: {name}", expected="floats, or bool in a mask", got=stored.dtype)
    return torch.empty(stored.shape, dtype=_TYPES[stored.dtype], device="meta")


def _loaded(file: io.BufferedReader, stored: Stored, start: int) -> Tensor:
    data = bytearray(stored.end - stored.begin)
    file.seek(start + stored.begin)
    if file.readinto(data) != len(data):
        raise OSError("it became shorter while it was read")
    kind = torch.uint8 if stored.dtype == "BOOL" else _TYPES[stored.dtype]
    flat = torch.frombuffer(data, dtype=kind) if data else torch.empty(0, dtype=kind)
    tensor = flat.reshape(stored.shape)
    return tensor != 0 if stored.dtype == "BOOL" else tensor


def _digest(metadata: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> str:
    return digest(tensors, json.dumps(metadata, sort_keys=True)).hex()


def _not_saved(path: str | Path, got: str) -> ArgumentError:
    return ArgumentError("file", expected="a file that Certified.save wrote", got=f"{path}: {got}")


def _sets(given: Entry | Sequence[Entry | None], bare: type[Entry]) -> list[Entry | None]:
    return [given] if isinstance(given, bare) else list(given)  # type: ignore[arg-type]


def _named(name: str, sets: Sequence[Tensor | None]) -> dict[str, Tensor]:
    return {f"{name}.{m}": x for m, x in enumerate(sets) if x is not None}
