"""Plan the safetensors file on the standard input: ``python -m separatrix.explorer.compute.plan_process TOLERANCE``.

The explorer runs it as a separate process with limits on time and memory.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, deserialize
from torch import Tensor

from separatrix.attention.operator import plan_attention
from separatrix.errors import SeparatrixError
from separatrix.explorer.compute.upload import DTYPES, MEMORY, SECONDS, Header, header

TOO_MUCH = (
    f"file: planning takes more than {MEMORY / 2**30:g} GiB of memory. Give fewer tokens or heads, or call "
    "sx.plan_attention yourself, which has no limit."
)


def stand_in(key: Tensor) -> Tensor:
    """Values of alternating signs, which have the largest spread of all values of magnitude 1.

    >>> stand_in(torch.zeros(1, 2, 3))
    tensor([[[ 1., -1.,  1.],
             [-1.,  1., -1.]]])
    """
    rows, columns = (torch.arange(size) for size in key.shape[-2:])
    signs = 1 - 2 * ((rows[:, None] + columns) % 2)
    return signs.to(key.dtype).expand_as(key)


def loaded(data: bytes, declared: Header) -> dict[str, Tensor]:
    """Load the tensors that the header declares; other tensors of the file are ignored."""
    tensors = {}
    for name, entry in deserialize(data):  # type: ignore[no-untyped-call]
        if name in declared.tensors:
            dtype, shape = declared.tensors[name]
            tensors[name] = torch.frombuffer(bytearray(entry["data"]), dtype=getattr(torch, DTYPES[dtype])).reshape(
                shape
            )
    return tensors


def answer(data: bytes, tolerance: float) -> dict[str, Any]:
    """The plan and a description of the tensors as a dictionary, or the error message under the key "refused"."""
    declared = header(data)
    try:
        tensors = loaded(data, declared)
    except SafetensorError as error:
        return {"refused": f"file: expected a safetensors file, got one that cannot be read: {error}."}
    keys = [tensors[f"k{m}"] for m in range(1, declared.order)]
    given = "v1" in tensors
    values = [tensors[f"v{m}"] if given else stand_in(keys[m - 1]) for m in range(1, declared.order)]
    for name, tensor in zip(declared.tensors, [tensors["q"], *keys, *(values if given else [])], strict=True):
        if not bool(torch.isfinite(tensor).all()):
            return {"refused": f"{name}: expected finite numbers, got NaN or infinity."}
    try:
        plan = plan_attention(tensors["q"], keys, values, tolerance=tolerance)
    except SeparatrixError as error:
        return {"refused": str(error)}
    return {
        "order": declared.order,
        "shapes": {name: list(shape) for name, (_, shape) in declared.tensors.items()},
        "bound": max(float(tensor.abs().max()) for tensor in (tensors["q"], *keys)),
        "values": given,
        "method": plan.method,
        "degree": plan.degree,
        "rank": plan.rank,
        "index_set": plan.index_set,
        "predicted_error": plan.predicted_error,
        "flops": plan.flops,
        "bytes": plan.bytes,
        "why": plan.why,
    }


def limit() -> None:
    """Limit this process to `MEMORY` more bytes and `SECONDS` more CPU time than it has used so far.

    Allocations beyond the limit fail, and SIGXCPU terminates the process. Both limits are enforced on Linux only.
    """
    if sys.platform == "linux":
        import resource

        taken = resource.getrusage(resource.RUSAGE_SELF)
        seconds = int(taken.ru_utime + taken.ru_stime) + 1 + SECONDS
        _, before = resource.getrlimit(resource.RLIMIT_CPU)
        if before == resource.RLIM_INFINITY or before > seconds:
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, before))

        now = int(Path("/proc/self/statm").read_text("ascii").split()[0]) * resource.getpagesize()
        most, (_, before) = now + MEMORY, resource.getrlimit(resource.RLIMIT_AS)
        if before != resource.RLIM_INFINITY:  # a limit can be lowered but not raised again
            most = min(most, before)
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def main(tolerance: float) -> dict[str, Any]:
    """Plan the file on the standard input within the limits, and print the plan or the error as JSON."""
    torch.set_num_threads(1)
    limit()
    try:
        return answer(sys.stdin.buffer.read(), tolerance)
    except SeparatrixError as error:
        return {"refused": str(error)}
    except MemoryError:
        return {"refused": TOO_MUCH}
    except RuntimeError as error:
        if "can't allocate memory" not in str(error):  # the message of torch
            raise
        return {"refused": TOO_MUCH}


if __name__ == "__main__":
    print(json.dumps(main(float(sys.argv[1]))))
