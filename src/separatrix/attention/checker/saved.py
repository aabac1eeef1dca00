"""A call and its results in a file, to be checked elsewhere: tensors by safetensors, all else as JSON beside them.

The tensors are `query`, `keys.m`, `values.m`, `key_masks.m` where there is a mask, and the results `output`, `lse` and
`per_query`. The metadata has one entry, `separatrix`, with the options of the call and the numbers of the certificate.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from separatrix.attention.checker.verdict import Verification
from separatrix.attention.checker.verification import Result, verify
from separatrix.errors import ArgumentError

_FORMAT = 1
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
    options: dict[str, Any]

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
        named |= _named("key_masks", _sets(key_masks, Tensor))
    certificate = result.certificate
    named |= {"output": result.output, "lse": result.lse, "per_query": certificate.per_query}
    said = {
        "format": _FORMAT,
        "sets": len(sets),
        "options": {
            "is_causal": is_causal,
            "query_offset": query_offset,
            "windows": None if windows is None else _sets(windows, int),
            "scale": scale,
            "enable_gqa": enable_gqa,
        },
        "certificate": {"total": certificate.total, "lse": certificate.lse},
    }
    # Copies: safetensors takes no tensors that share memory, as one key set given twice does.
    tensors = {name: x.detach().cpu().clone(memory_format=torch.contiguous_format) for name, x in named.items()}
    save_file(tensors, path, metadata={"separatrix": json.dumps(said)})


def load_call(path: str | Path) -> SavedCall:
    """Read a call and its results; an error says what of them is missing."""
    try:
        with safe_open(path, "pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  # it is no mapping
            metadata = file.metadata() or {}
    except (OSError, SafetensorError) as error:
        raise ArgumentError("file", expected="a file that Certified.save wrote", got=f"{path} ({error})") from error
    try:
        said = json.loads(metadata["separatrix"])
        if said["format"] != _FORMAT:
            raise ArgumentError("file", expected=f"format {_FORMAT}", got=f"format {said['format']} in {path}")
        sets = range(said["sets"])
        keys, values = ([tensors[f"{name}.{m}"] for m in sets] for name in ("keys", "values"))
        numbers = said["certificate"]
        return SavedCall(
            tensors["output"],
            tensors["lse"],
            SavedCertificate(numbers["total"], numbers["lse"], tensors["per_query"]),
            (tensors["query"], keys, values),
            said["options"] | {"key_masks": [tensors.get(f"key_masks.{m}") for m in sets]},
        )
    except KeyError as missing:
        expected = f"a file that Certified.save wrote, with {missing.args[0]!r} in it"
        raise ArgumentError("file", expected=expected, got=str(path)) from None


def _sets(given: Entry | Sequence[Entry | None], bare: type[Entry]) -> list[Entry | None]:
    return [given] if isinstance(given, bare) else list(given)  # type: ignore[arg-type]


def _named(name: str, sets: Sequence[Tensor | None]) -> dict[str, Tensor]:
    return {f"{name}.{m}": x for m, x in enumerate(sets) if x is not None}
