"""A call of order 3 in a file that a reader gives: ``q``, ``k1`` and ``k2``, or what `Certified.save` wrote.

Nothing is unpickled, and the sizes are looked at before anything is made of the numbers: what is computed afterwards,
one query of one head against all pairs of keys, takes no more than a second and some tens of megabytes.
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
"""The most pairs of keys: some 2,000 keys in each set."""
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
        """The map of a query of a head, both counted from 0."""
        batch = self.batch
        count, length = math.prod(batch), self.query.shape[-2]
        whole("head", head, low=0, high=count - 1)
        whole("query", query, low=0, high=length - 1)
        index = [int(one) for one in torch.unravel_index(torch.tensor(head), batch)] if batch else []
        return pair_map(self.query, self.keys, query, head=index, k=LISTED, **self.options)


def read(data: bytes, *, is_causal: bool) -> CallFile:
    """The call of a file; a file without options of its own is causal or not as the reader says."""
    named, left = header_entries(data, len(data))
    metadata = named.pop("__metadata__", None)
    saved = isinstance(metadata, dict) and "separatrix" in metadata
    if saved:
        return _saved(data, named, left, metadata["separatrix"])
    found = checked(named, left)
    shapes = {name: shape for name, (_, shape) in found.tensors.items()}
    _check(shapes, found.order)
    tensors = _loaded(data, {name: dtype for name, (dtype, _) in found.tensors.items()})
    return CallFile(tensors["q"], [tensors["k1"], tensors["k2"]], {"is_causal": is_causal}, saved=False)


def _saved(data: bytes, named: Mapping[str, Any], left: int, text: object) -> CallFile:
    """A file that `Certified.save` wrote: the same tensors by other names, masks, and the options of the call."""
    expected = "a file as Certified.save writes it"
    try:
        said = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        said = None
    options = said.get("options") if isinstance(said, dict) else None
    if not isinstance(said, dict) or not isinstance(options, dict) or not is_whole(said.get("sets"), low=1, high=9):
        raise ArgumentError("file", expected=expected, got="one whose options cannot be read")
    sets = range(said["sets"])
    names = {"query": "q", **{f"keys.{m}": f"k{m + 1}" for m in sets}}
    missing = [name for name in names if name not in named]
    if missing:
        raise ArgumentError("file", expected=expected, got=f"one without {missing[0]}")
    found = checked({short: named[name] for name, short in names.items()}, left)
    shapes = {name: shape for name, (_, shape) in found.tensors.items()}
    if options.get("enable_gqa") is True and all(len(shape) >= 3 for shape in shapes.values()):
        heads = shapes["q"][-3]
        shapes = {name: (*shape[:-3], heads, *shape[-2:]) for name, shape in shapes.items()}
    _check(shapes, found.order)
    masks = [f"key_masks.{m}" for m in sets]
    for name in masks:
        told = named.get(name)
        if told is not None and (not isinstance(told, dict) or told.get("dtype") != "BOOL"):
            raise ArgumentError("file", expected=expected, got=f"one whose {name} is no mask")
    types = {name: found.tensors[short][0] for name, short in names.items()} | dict.fromkeys(masks, "BOOL")
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
    """The named tensors of a file, those that it has."""
    try:
        found = deserialize(data)  # type: ignore[no-untyped-call]
    except SafetensorError as error:
        raise ArgumentError("file", expected="a safetensors file", got=f"one that cannot be read: {error}") from None
    tensors = {}
    for name, one in found:
        if name in types:
            kind = torch.uint8 if types[name] == "BOOL" else getattr(torch, DTYPES[types[name]])
            flat = torch.frombuffer(bytearray(one["data"]), dtype=kind) if one["data"] else torch.zeros(0, dtype=kind)
            tensor = flat.reshape(one["shape"])
            tensors[name] = tensor != 0 if types[name] == "BOOL" else tensor
    return tensors
