"""Uploaded files of tensors: safetensors files with ``q``, ``k1``, ``k2``, ... and optionally ``v1``, ``v2``, ...

This module checks the size and the header of a file. A separate process with limits on time and memory, `plan_process`,
reads the numbers. Nothing is unpickled.
"""

from __future__ import annotations

import base64
import json
import math
import signal
import subprocess
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from separatrix.checks import is_whole
from separatrix.children import python_command, safe_environment
from separatrix.errors import ArgumentError, SeparatrixError
from separatrix.explorer.context import UPLOAD_BYTES
from separatrix.tensor_files import ITEM_BYTES, header_entries, not_safetensors

LARGEST_ORDER = 6
COORDINATES = 512
"""The limit on the number of heads times the largest last dimension: planning stores a sample of scores for each."""
ENTRIES = UPLOAD_BYTES // 2
"""The limit on the number of entries of all tensors after broadcasting: what a file of half precision can hold."""
SECONDS, MEMORY = 20, 2**30
"""The CPU time and the memory that planning a file may take, in addition to what the libraries need."""
PATIENCE_SECONDS = 900.0
"""The seconds after which planning is abandoned: on a busy machine a process takes longer than its CPU time."""

DTYPES = {"F16": "float16", "BF16": "bfloat16", "F32": "float32", "F64": "float64"}
_ONE = threading.Lock()


@dataclass(frozen=True)
class Header:
    """The header of a file: the order, and the dtype and shape of each tensor that is used."""

    order: int
    tensors: Mapping[str, tuple[str, tuple[int, ...]]]


def decoded(contents: object) -> bytes:
    """Check the length of a browser's upload, ``data:...;base64,...``, and decode it."""
    if not isinstance(contents, str):
        raise ArgumentError("file", expected="one file", got="nothing" if contents is None else "something else")
    head, comma, text = contents.partition(",")
    if not comma or not head.endswith(";base64"):
        raise ArgumentError("file", expected="a file as a browser sends it", got="something else")
    if len(text) > 4 * (UPLOAD_BYTES // 3 + 1):
        raise too_big(3 * len(text) // 4)
    try:
        data = base64.b64decode(text, validate=True)
    except ValueError:
        raise ArgumentError("file", expected="a file as a browser sends it", got="broken base64") from None
    if len(data) > UPLOAD_BYTES:
        raise too_big(len(data))
    return data


def too_big(size: int) -> ArgumentError:
    return ArgumentError("file", expected=f"at most {UPLOAD_BYTES / 2**20:g} MiB", got=f"{size / 2**20:.1f} MiB")


def header(data: bytes) -> Header:
    """Read and check the header of a file; an `ArgumentError` says what is wrong with it.

    >>> header(b"PK" + bytes(2))
    Traceback (most recent call last):
        ...
    separatrix.errors.ArgumentError: file: expected a safetensors file, got one that PyTorch saved with pickle, which \
is never opened here; save it with safetensors.torch.save_file.
    """
    named, left = header_entries(data, len(data))
    named.pop("__metadata__", None)
    declared = checked(named, left)
    shapes = {name: shape for name, (_, shape) in declared.tensors.items()}
    heads, widest = broadcast_heads(shapes), max(shape[-1] for shape in shapes.values())
    if heads * widest > COORDINATES:
        wanted = f"heads times d up to {COORDINATES}, for keys and values, so that planning is cheap"
        raise ArgumentError("file", expected=wanted, got=f"{heads} times {widest}")
    check_entries(shapes)
    return declared


def checked(named: Mapping[str, Any], left: int) -> Header:
    """Check the names, dtypes and shapes of the tensors."""
    order = next((k for k in range(1, LARGEST_ORDER + 1) if f"k{k}" not in named), LARGEST_ORDER + 1)
    if "q" not in named or not 2 <= order <= LARGEST_ORDER:
        names = ", ".join(sorted(named)[:8]) or "nothing"
        wanted = f"tensors q, k1, k2, ... up to k{LARGEST_ORDER - 1}"
        raise ArgumentError("file", expected=wanted, got=names if len(named) <= 8 else f"{names} and others")
    keys = [f"k{m}" for m in range(1, order)]
    values = [f"v{m}" for m in range(1, order)]
    given = [name for name in values if name in named]
    if given and given != values:
        raise ArgumentError("file", expected=f"all of {', '.join(values)} or none of them", got=", ".join(given))
    tensors = {name: _tensor(name, named[name]) for name in ["q", *keys, *given]}
    if len({dtype for dtype, _ in tensors.values()}) > 1:
        kinds = ", ".join(f"{name} {DTYPES[dtype]}" for name, (dtype, _) in tensors.items())
        raise ArgumentError("file", expected="tensors of one dtype", got=kinds)
    if sum(ITEM_BYTES[dtype] * math.prod(shape) for dtype, shape in tensors.values()) > left:
        raise not_safetensors("a file too short for its tensors")
    d = tensors["q"][1][-1]
    for name in keys:
        if tensors[name][1][-1] != d:
            raise ArgumentError(name, expected=f"a last dimension of {d}, as q has", got=f"{tensors[name][1][-1]}")
    return Header(order, tensors)


def check_entries(shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Raise an `ArgumentError` for tensors that are too large after their heads are broadcast."""
    entries = broadcast_heads(shapes) * sum(shape[-2] * shape[-1] for shape in shapes.values())
    if entries > ENTRIES:
        wanted = f"at most {ENTRIES:,} entries in all tensors once their heads are broadcast against each other"
        raise ArgumentError("file", expected=wanted, got=f"{entries:,}")


def broadcast_heads(shapes: Mapping[str, tuple[int, ...]]) -> int:
    """The number of heads after the dimensions before the last two are broadcast as in torch.

    >>> broadcast_heads({"q": (3, 1, 9, 2), "k1": (4, 9, 2)})
    12
    """
    axes = list(zip_longest(*(reversed(shape[:-2]) for shape in shapes.values()), fillvalue=1))
    if any(len({*axis} - {1}) > 1 for axis in axes):
        got = ", ".join(f"{name} {list(shape)}" for name, shape in shapes.items())
        raise ArgumentError("file", expected="heads that broadcast against each other", got=got[:200])
    return math.prod(max(axis) for axis in axes)


def _tensor(name: str, entry: object) -> tuple[str, tuple[int, ...]]:
    """The dtype and the shape of a tensor, after a check of both."""
    if not isinstance(entry, dict) or not isinstance(entry.get("shape"), list):
        raise not_safetensors(f"a header without dtype or shape for {name}")
    dtype, shape = entry.get("dtype"), entry["shape"]
    if not isinstance(dtype, str) or dtype not in DTYPES:
        got = f"{dtype!r}"[:40]
        raise ArgumentError(name, expected=f"one of {', '.join(DTYPES.values())}", got=got)
    if not 2 <= len(shape) <= 6 or not all(is_whole(size, low=1, high=2**31) for size in shape):
        raise ArgumentError(name, expected="a shape (..., length, d) with sizes of at least 1", got=f"{shape!r}"[:80])
    return dtype, tuple(shape)


def planned_file(data: bytes, tolerance: float) -> dict[str, Any]:
    """Plan a checked file by `plan_process`, within the limits and one file at a time."""
    header(data)
    if not _ONE.acquire(blocking=False):
        raise SeparatrixError("Another file is being planned: try again in a few seconds.")
    try:
        done = subprocess.run(
            python_command("separatrix.explorer.compute.plan_process", repr(tolerance)),
            env=safe_environment(),
            input=data,
            capture_output=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise _too_slow() from None
    finally:
        _ONE.release()
    if done.returncode:
        if done.returncode == -getattr(signal, "SIGXCPU", 0):
            raise _too_slow()
        raise RuntimeError(f"plan_process failed: {done.stderr.decode('utf-8', 'replace')}")
    answer: dict[str, Any] = json.loads(done.stdout)
    if "refused" in answer:
        raise SeparatrixError(answer["refused"])
    return answer


def _too_slow() -> SeparatrixError:
    return SeparatrixError(
        f"file: planning took more than {SECONDS} seconds and was ended. Very uneven entries take long to plan: "
        "give fewer heads or a larger tolerance, or call sx.plan_attention yourself, which has no limit."
    )
