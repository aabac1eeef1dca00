"""The kernels in Triton on the GPU of this machine: their correctness, then their speed against peers.

Peers are PyTorch's fused attention over materialised pairs, (keys times keys, values times values), which is the same
function where memory allows it, and FBGEMM's kernels for order 3, where these are installed: these support only 64 or
128 query heads that share one key head. Nothing is timed if one of our results is wrong; a peer with a different output
is not timed. Our times include the checks that run before the kernels. The report is JSON that can be sent to the
project.
"""

from __future__ import annotations

import importlib
import math
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.metadata import version
from typing import Any

import torch
from torch import Tensor

import separatrix as sx
from separatrix.attention import reference
from separatrix.attention.call import Call, check_call
from separatrix.attention.exact import guarded, triton
from separatrix.attention.exact import torch as in_pytorch

ERRORS = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 3e-2, torch.float16: 5e-3}
SHAPES: tuple[tuple[int, int, tuple[int, ...], int, int], ...] = (
    (1, 17, (5, 40), 16, 24),
    (2, 70, (33, 65), 64, 64),
    (1, 40, (20, 150), 128, 128),
    (1, 20, (5, 9, 30), 32, 16),
    (1, 20, (3, 4, 5, 20), 16, 16),
    (1, 300, (7, 300), 64, 64),
    (1, 300, (7, 300), 128, 128),
    (1, 300, (300, 300), 16, 16),
)
"""Heads, queries, keys of each set, and columns of keys and of values.

The last three have several blocks in every loop."""
NEAR_LINEAR = (300, 4, 8)
"""The length and the dimensions of keys and of values for which near-linear attention is checked."""
OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"is_causal": True, "query_offset": 3},
    {"windows": [7, 40], "query_offset": 1},
)
TIMED = ((8, 512, None), (8, 2048, (512, 32)), (8, 8192, (512, 32)))
"""Heads, the length, and the windows of what is timed, causal, with 64 columns and 128."""
GROUPED = ((64, 2048), (128, 2048), (64, 8192), (128, 8192))
"""Heads of queries that share one head of keys, and the length, of what is timed against FBGEMM in bfloat16."""
GROUPED_WINDOWS = (512, 32)
PEERS = {
    "FBGEMM, Triton": ("simplicial.ops.triton.fwd", "triton_fwd"),
    "FBGEMM, TLX": ("simplicial.ops.tlx.fwd_ws", "tlx_fwd_ws"),
    "FBGEMM, TLX ping-pong": ("simplicial.ops.tlx.fwd_ws_pingpong", "tlx_fwd_ws_pingpong"),
}
"""The module and the name of FBGEMM's forward kernels, in its experimental package `simplicial`. They take tensors
(batch, length, heads, columns), are causal with a window for each key set, and scale by one over the root of the
columns, rounded to bfloat16. Those in TLX need an extension of Triton."""
DIFFERENCE = 5e-2
"""The largest difference between our output and that of a peer in bfloat16, for values from -1 to 1."""
ROUNDS = 5


def draw(seed: int, *shape: int, dtype: torch.dtype, device: str) -> Tensor:
    """Numbers from -1 to 1, the same on every machine."""
    generator = torch.Generator().manual_seed(seed)
    return (2 * torch.rand(*shape, generator=generator, dtype=torch.float64) - 1).to(device, dtype)


def check(call: Call, expected: tuple[Tensor, Tensor], gradients: list[Tensor], grad: Tensor) -> float:
    """The largest error of output, log-sum-exp and gradients, relative to the largest entry of each where above 1."""
    out, lse = triton.forward(call)
    by_query, by_keys, by_values = triton.backward(call, out, lse, grad, torch.zeros_like(lse))
    pairs = zip((out, lse, by_query, *by_keys, *by_values), (*expected, *gradients), strict=True)
    worst = 0.0
    for found, wanted in pairs:
        found, seen = found.double(), torch.isfinite(wanted)
        if not torch.equal(seen, torch.isfinite(found)):
            return math.inf
        size = max(1.0, wanted[seen].abs().max().item()) if bool(seen.any()) else 1.0
        worst = max(worst, (found - wanted)[seen].abs().max().item() / size if bool(seen.any()) else 0.0)
    return worst


def checks(device: str) -> list[dict[str, Any]]:
    """The kernels against the definition in float64, for every type, on awkward shapes."""
    found = []
    for dtype, most in ERRORS.items():
        for heads, queries, lengths, d, d_v in SHAPES:
            for options in OPTIONS:
                given = [draw(0, heads, queries, d, dtype=dtype, device=device)]
                given += [draw(1 + m, heads, n, d, dtype=dtype, device=device) for m, n in enumerate(lengths)]
                given += [draw(5 + m, heads, n, d_v, dtype=dtype, device=device) for m, n in enumerate(lengths)]
                grad = draw(9, heads, queries, d_v, dtype=dtype, device=device)
                leaves = [x.double().requires_grad_() for x in given]
                sets = len(lengths)
                options = dict(options, **({"windows": windows_of(lengths)} if "windows" in options else {}))
                call = check_call(given[0], given[1 : 1 + sets], given[1 + sets :], **options)
                if not triton.takes(call):
                    continue
                expected = reference.tensor_attention(leaves[0], leaves[1 : 1 + sets], leaves[1 + sets :], **options)
                gradients = torch.autograd.grad((expected[0] * grad).sum(), leaves)
                error = check(call, tuple(x.detach() for x in expected), list(gradients), grad)
                what = f"{dtype}, {queries} queries, {lengths} keys, d = {d}, d_v = {d_v}, {options}"
                found.append({"what": what, "error": error, "most": most, "right": error <= most})
    return found


def windows_of(lengths: Sequence[int]) -> list[int | None]:
    """A short window on the first set, and a window on the last set that contains whole blocks.

    >>> windows_of((3, 4, 5)), windows_of((7, 300))
    ([7, None, 40], [7, 150])
    """
    return [7, *[None] * (len(lengths) - 2), max(40, lengths[-1] // 2)]


def near_linear_checks(device: str) -> list[dict[str, Any]]:
    """Near-linear attention of order 3 and a stream's states against the definition: errors within certificates."""
    found = []
    n, d, d_v = NEAR_LINEAR

    def compare(what: str, out: Tensor, exact: Tensor, most: float) -> None:
        error = (out.double() - exact).abs().max().item()
        found.append({"what": what, "error": error, "most": most, "right": error <= most})

    for dtype in (torch.float32, torch.float64):
        query, *keys = (draw(m, 2, n, d, dtype=dtype, device=device) for m in range(3))
        values = [draw(5 + m, 2, n, d_v, dtype=dtype, device=device) for m in range(2)]
        wide = query.double(), [x.double() for x in keys], [x.double() for x in values]
        for is_causal in (False, True):
            exact = reference.tensor_attention(*wide, is_causal=is_causal)[0]
            made = sx.certified_attention(query, keys, values, tolerance=1e-2, method="polynomial", is_causal=is_causal)
            compare(f"near-linear, {dtype}, is_causal={is_causal}", made.output, exact, made.certificate.total)
        state = sx.TensorAttentionState(
            3, d, d_v, bound=1.0, tolerance=1e-2, batch_shape=(2,), dtype=dtype, device=device
        )
        for token in range(n):
            state.append([x[:, token : token + 1] for x in keys], [x[:, token : token + 1] for x in values])
        exact = reference.tensor_attention(*wide)[0][:, :1]
        compare(f"a stream, {dtype}", state.attend(query[:, :1]), exact, state.certificate.total)
    return found


def seconds(run: Callable[[], object]) -> float:
    """The shortest time of a run, by GPU events, after a warm-up run."""
    run()
    best = math.inf
    for _ in range(ROUNDS):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        run()
        stop.record()
        torch.cuda.synchronize()
        best = min(best, start.elapsed_time(stop) * 1e-3)
    return best


def pairs_by_fused_attention(query: Tensor, keys: list[Tensor], values: list[Tensor]) -> Tensor:
    """Order 3 as ordinary attention over all pairs, materialised; for full sequences without a causal mask."""
    key, value = (
        (first.unsqueeze(2) * second.unsqueeze(1)).flatten(1, 2) for first, second in (tuple(keys), tuple(values))
    )
    scaled = torch.nn.functional.scaled_dot_product_attention(
        query.unsqueeze(0), key.unsqueeze(0), value.unsqueeze(0), scale=1 / query.shape[2]
    )
    return scaled.squeeze(0)


def scores_of(length: int, windows: Sequence[int] | None) -> int:
    """The number of scores of one head: all pairs, or the pairs within causal windows.

    >>> scores_of(3, None), scores_of(3, (2, 1)), scores_of(3, (9, 9))
    (27, 5, 14)
    """
    if windows is None:
        return length**3
    return sum(math.prod(min(position + 1, window) for window in windows) for position in range(length))


def times(device: str) -> list[dict[str, Any]]:
    """Times of the passes, including their checks, and of the peers that support the call."""
    rows = []
    for dtype in (torch.bfloat16, torch.float16, torch.float32, torch.float64):
        for d in (64, 128):
            for heads, length, windows in TIMED:
                query, *sets = (draw(m, heads, length, d, dtype=dtype, device=device) for m in range(5))
                options = {"windows": list(windows)} if windows else {}
                call = check_call(query, sets[:2], sets[2:], **options)
                if not triton.takes(call):
                    continue
                out, lse = guarded.forward(call)
                incoming = (out, lse, torch.ones_like(out), torch.zeros_like(lse))
                row: dict[str, Any] = {"what": f"{dtype}, {heads} heads, n = {length}, windows {windows}, d = {d}"}
                # A copy of the call has no values cached in earlier rounds.
                row["forward"] = seconds(lambda call=call: guarded.forward(replace(call)))
                row["backward"] = seconds(
                    lambda call=call, incoming=incoming: guarded.backward(replace(call), *incoming)
                )
                row["scores a second"] = heads * scores_of(length, windows) / row["forward"]
                if windows is None:
                    row["pairs by fused attention"] = seconds(
                        lambda query=query, sets=sets: pairs_by_fused_attention(query, sets[:2], sets[2:])
                    )
                    row["plain PyTorch"] = seconds(lambda call=call: in_pytorch.forward(call.widened()))
                rows.append(row)
    return rows


def grouped_times(device: str) -> list[dict[str, Any]]:
    """Times of the forward pass and of FBGEMM's kernels, if many query heads share one key head.

    The floating-point operations are those of the two matrix products, 4 d for each score that is within the windows.
    """
    rows = []
    for d in (64, 128):
        for heads, length in GROUPED:
            query = draw(0, heads, length, d, dtype=torch.bfloat16, device=device)
            sets = [draw(1 + m, 1, length, d, dtype=torch.bfloat16, device=device) for m in range(4)]
            plain = check_call(query[:1], sets[:2], sets[2:], windows=list(GROUPED_WINDOWS), scale=d**-0.5)
            call = replace(plain, query=query)
            tera = 4e-12 * d * heads * scores_of(length, GROUPED_WINDOWS)
            time = seconds(lambda call=call: guarded.forward(replace(call)))
            row: dict[str, Any] = {"what": f"{heads} heads of queries on one of keys, n = {length}, d = {d}"}
            row |= {"forward": time, "TFLOP/s": tera / time}
            out, _ = guarded.forward(call)
            laid_out = [x.transpose(0, 1).unsqueeze(0).contiguous() for x in (query, *sets)]
            for name in PEERS:
                row[name] = against_peer(name, laid_out, out.transpose(0, 1).unsqueeze(0), tera)
            rows.append(row)
    return rows


def against_peer(name: str, laid_out: list[Tensor], out: Tensor, tera: float) -> float | str:
    """The throughput of a peer in 10^12 floating-point operations per second, or the reason why it was not timed.

    Args:
        name: One of `PEERS`.
        laid_out: Queries, keys and values, (batch, length, heads, columns).
        out: Our output; the output of the peer is compared with it before the peer is timed.
        tera: The number of operations, in units of 10^12.
    """
    module, function = PEERS[name]
    try:
        peer = getattr(importlib.import_module(module), function)
        difference = (peer(*laid_out, *GROUPED_WINDOWS)[0].float() - out.float()).abs().max().item()
        if not difference <= DIFFERENCE:
            return f"not timed: its output differs by {difference:.3g}"
        return tera / seconds(lambda: peer(*laid_out, *GROUPED_WINDOWS))
    except Exception as error:  # a peer that is missing or of an unsupported version is reported and skipped
        return f"did not run: {type(error).__name__}: {error}"


def report(device: str = "cuda") -> dict[str, Any] | None:
    """The report on this machine's GPU, or None without a GPU; it has times only if every result is correct."""
    if not torch.cuda.is_available():
        return None
    right = checks(device) + near_linear_checks(device)
    return {
        "gpu": torch.cuda.get_device_name(),
        "python": sys.version.split()[0],
        "torch": torch.__version__,
        "triton": version("triton"),
        "checks": right,
        "times": times(device) + grouped_times(device) if all(row["right"] for row in right) else [],
    }


def folder(name: str) -> str:
    """The file name of the report on a GPU.

    >>> folder("NVIDIA H100 80GB HBM3")
    'nvidia-h100-80gb-hbm3'
    """
    return "-".join(re.findall(r"[a-z0-9]+", name.lower()))


def table(report: dict[str, Any]) -> str:
    """The times of a report, one per line."""
    right = sum(row["right"] for row in report["checks"])
    lines = [f"{report['gpu']}: {right} of {len(report['checks'])} results are right."]
    for row in report["times"]:
        numbers = [
            f"{name} {value:.3g}" if isinstance(value, float) else f"{name} {value}"
            for name, value in row.items()
            if name != "what"
        ]
        lines.append(f"{row['what']}: " + ", ".join(numbers))
    return "\n".join(lines)
