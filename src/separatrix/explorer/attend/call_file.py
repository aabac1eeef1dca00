"""A call of order 3 in an uploaded file: ``q``, ``k1`` and ``k2``, or the output of `Certified.save`.

Nothing is unpickled. Sizes are checked before numbers are read, so that the weights of a query over all pairs of keys
take at most a second and some tens of megabytes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from safetensors import SafetensorError, deserialize
from torch import Tensor

from separatrix.attention.weights.pair_map import PairMap, pair_map
from separatrix.checks import is_whole, whole
from separatrix.errors import ArgumentError
from separatrix.explorer.compute.upload import DTYPES, check_entries, checked
from separatrix.tensor_files import header_entries

PAIRS = 1 << 22
"""The largest number of pairs of keys, which are some 2,000 keys in each set."""
LISTED = 10
_OPTIONS = ("is_causal", "query_offset", "windows", "scale", "enable_gqa")


@dataclass(frozen=True)
class CallFile:
    """The tensors of a call and its options, by their names in `sx.pair_map`; `saved` if `Certified.save` wrote it."""

    query: Tensor
    keys: list[Tensor]
    options: Mapping[str, Any]
    saved: bool

    @property
    def batch(self) -> tuple[int, ...]:
        """The leading dimensions of the call."""
        leading = [tuple(x.shape[:-2]) for x in (self.query, *self.keys)]
        if self.options.get("enable_gqa"):
            return leading[0]
        return tuple(torch.broadcast_shapes(*leading))

    def map_of(self, query: int, head: int) -> PairMap:
        """The pair map of a query of a head, both counted from 0."""
        batch = self.batch
        count, length = math.prod(batch), self.query.shape[-2]
        whole("head", head, low=0, high=count - 1)
        whole("query", query, low=0, high=length - 1)
        index = [int(coordinate) for coordinate in torch.unravel_index(torch.tensor(head), batch)] if batch else []
        return pair_map(self.query, self.keys, query, head=index, k=LISTED, **self.options)


def read(data: bytes, *, is_causal: bool) -> CallFile:
    """Read the call of a file; `is_causal` is for files that do not say whether the call is causal."""
    named, left = header_entries(data, len(data))
    metadata = named.pop("__metadata__", None)
    saved = isinstance(metadata, dict) and "separatrix" in metadata
    if saved:
        return _saved(data, named, left, metadata["separatrix"])
    declared = checked(named, left)
    shapes = {name: shape for name, (_, shape) in declared.tensors.items()}
    _check(shapes, declared.order)
    tensors = _loaded(data, {name: dtype for name, (dtype, _) in declared.tensors.items()})
    return CallFile(tensors["q"], [tensors["k1"], tensors["k2"]], {"is_causal": is_causal}, saved=False)


def _saved(data: bytes, named: Mapping[str, Any], left: int, text: object) -> CallFile:
    """A file that `Certified.save` wrote: the same tensors by other names, masks, and the options of the call."""
    expected = "a file as Certified.save writes it"
    try:
        metadata = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        metadata = None
    options = metadata.get("options") if isinstance(metadata, dict) else None
    if (
        not isinstance(metadata, dict)
        or not isinstance(options, dict)
        or not is_whole(metadata.get("sets"), low=1, high=9)
    ):
        raise ArgumentError("file", expected=expected, got="one whose options cannot be read")
    sets = range(metadata["sets"])
    names = {"query": "q", **{f"keys.{m}": f"k{m + 1}" for m in sets}}
    missing = [name for name in names if name not in named]
    if missing:
        raise ArgumentError("file", expected=expected, got=f"one without {missing[0]}")
    declared = checked({short: named[name] for name, short in names.items()}, left)
    shapes = {name: shape for name, (_, shape) in declared.tensors.items()}
    if options.get("enable_gqa") is True and all(len(shape) >= 3 for shape in shapes.values()):
        heads = shapes["q"][-3]
        shapes = {name: (*shape[:-3], heads, *shape[-2:]) for name, shape in shapes.items()}
    _check(shapes, declared.order)
    masks = [f"key_masks.{m}" for m in sets]
    for name in masks:
        mask = named.get(name)
        if mask is not None and (not isinstance(mask, dict) or mask.get("dtype") != "BOOL"):
            raise ArgumentError("file", expected=expected, got=f"one whose {name} is no mask")
    types = {name: declared.tensors[short][0] for name, short in names.items()} | dict.fromkeys(masks, "BOOL")
    tensors = _loaded(data, types)
    given = {name: options[name] for name in _OPTIONS if name in options}
    given["key_masks"] = [tensors.get(name) for name in masks]
    return CallFile(tensors["query"], [tensors[f"keys.{m}"] for m in sets], given, saved=True)


def _check(shapes: Mapping[str, tuple[int, ...]], order: int) -> None:
    if order != 3:
        raise ArgumentError("file", expected="two key sets, which is order 3", got=f"{order - 1}")
    check_entries(shapes)
    pairs = shapes["k1"][-2] * shapes["k2"][-2]
    if pairs > PAIRS:
        wanted = f"at most {PAIRS:,} pairs of keys; sx.top_tuples has no limit"
        raise ArgumentError("file", expected=wanted, got=f"{pairs:,}")


def _loaded(data: bytes, types: Mapping[str, str]) -> dict[str, Tensor]:
    """Load the tensors of a file that are named in `types`."""
    try:
        entries = deserialize(data)  # type: ignore[no-untyped-call]
    except SafetensorError as error:
        raise ArgumentError("file", expected="a safetensors file", got=f"one that cannot be read: {error}") from None
    tensors = {}
    for name, entry in entries:
        if name in types:
            kind = torch.uint8 if types[name] == "BOOL" else getattr(torch, DTYPES[types[name]])
            flat = (
                torch.frombuffer(bytearray(entry["data"]), dtype=kind) if entry["data"] else torch.zeros(0, dtype=kind)
            )
            tensor = flat.reshape(entry["shape"])
            tensors[name] = tensor != 0 if types[name] == "BOOL" else tensor
    return tensors
