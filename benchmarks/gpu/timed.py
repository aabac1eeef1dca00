"""The kernels in Triton on the GPU of this machine: their correctness, then their speed against peers.

Peers are PyTorch's fused attention over materialised pairs, (keys times keys, values times values), which is the same
function where memory allows it, and FBGEMM's kernels for order 3, where these are installed: these support only 64 or
128 query heads that share one key head. Nothing is timed if one of our results is wrong or differs between two runs; a
peer with a different output is not timed. Our times include the checks that run before the kernels. The report is JSON
that can be sent to the project.
"""

from __future__ import annotations

import importlib
import math
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from itertools import accumulate, pairwise, product
from typing import Any

import torch
from torch import Tensor

import separatrix as sx
from separatrix.attention import reference
from separatrix.attention.arguments import check_arguments
from separatrix.attention.call import Call, check_call, grouped
from separatrix.attention.dispatch import gpu
from separatrix.attention.exact import guarded, triton
from separatrix.attention.exact import torch as in_pytorch

ERRORS = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 3e-2, torch.float16: 5e-3}
SHAPES: tuple[tuple[int, int, int, tuple[int, ...], int, int], ...] = (
    (1, 1, 17, (5, 40), 16, 24),
    (1, 2, 70, (33, 65), 64, 64),
    (1, 1, 40, (20, 150), 128, 128),
    (1, 1, 20, (5, 9, 30), 32, 16),
    (1, 1, 20, (3, 4, 5, 20), 16, 16),
    (3, 2, 70, (33, 65), 64, 64),
    (64, 1, 150, (7, 300), 64, 64),
    (128, 1, 150, (7, 300), 128, 128),
    (1, 1, 300, (7, 300), 64, 64),
    (1, 1, 300, (7, 300), 128, 128),
    (1, 1, 300, (7, 300), 192, 256),
    (1, 1, 300, (300, 300), 16, 16),
)
"""Query heads that share a key head, key heads, queries, keys of each set, and columns of keys and of values.

The last four have several blocks in every loop."""
SEQUENCES = (5, 0, 150, 1, 70)
"""The lengths of the packed sequences that are checked."""
NEAR_LINEAR = (300, 4, 8)
"""The length and the dimensions of keys and of values for which near-linear attention is checked."""
OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"is_causal": True, "query_offset": 3},
    {"windows": [7, 40], "query_offset": 1},
    {"windows": [7, 40], "is_causal": True, "query_offset": 3, "key_masks": []},
)
TIMED = ((8, 512, None), (8, 2048, (512, 32)), (8, 8192, (512, 32)))
"""Heads, the length, and the windows of what is timed, causal, with 64 columns and 128."""
GROUPED = ((64, 2048), (128, 2048), (64, 8192), (128, 8192))
"""Heads of queries that share one head of keys, and the length, of what is timed against FBGEMM in bfloat16."""
GROUPED_WINDOWS = (32, 512)
PEERS = {
    "FBGEMM, Triton": ("simplicial.ops.triton.fwd", "triton_fwd"),
    "FBGEMM, TLX": ("simplicial.ops.tlx.fwd_ws", "tlx_fwd_ws"),
    "FBGEMM, TLX ping-pong": ("simplicial.ops.tlx.fwd_ws_pingpong", "tlx_fwd_ws_pingpong"),
}
"""The module and the name of FBGEMM's forward kernels, in its experimental package `simplicial`. They take tensors
(batch, length, heads, columns), are causal with a window for each key set, and scale by one over the root of the
columns, rounded to bfloat16. Those in TLX need an extension of Triton, and a first window that is not longer than the
second."""
DIFFERENCE = 5e-2
"""The largest difference between our output and that of a peer in bfloat16, for values from -1 to 1."""
ROUNDS = 5


def draw(seed: int, *shape: int, dtype: torch.dtype, device: str) -> Tensor:
    """Numbers from -1 to 1, the same on every machine."""
    generator = torch.Generator().manual_seed(seed)
    return (2 * torch.rand(*shape, generator=generator, dtype=torch.float64) - 1).to(device, dtype)


def largest_error(found: Sequence[Tensor], expected: Sequence[Tensor]) -> float:
    """The largest error of some results, relative to the largest entry of each result where that is above 1."""
    worst = 0.0
    for result, wanted in zip(found, expected, strict=True):
        result, seen = result.double(), torch.isfinite(wanted)
        if not torch.equal(seen, torch.isfinite(result)):
            return math.inf
        if bool(seen.any()):
            size = max(1.0, wanted[seen].abs().max().item())
            worst = max(worst, (result - wanted)[seen].abs().max().item() / size)
    return worst


def call_error(call: Call, given: Sequence[Tensor], options: dict[str, Any], grad: Tensor) -> float:
    """The error of output, log-sum-exp and gradients of a call; infinite if a second run gives different bits.

    Args:
        call: The call.
        given: Its query, keys and values.
        options: Its options.
        grad: The gradient of its output.
    """
    leaves, sets = [x.double().requires_grad_() for x in given], len(call.keys)
    expected = reference.tensor_attention(leaves[0], leaves[1 : 1 + sets], leaves[1 + sets :], **options)
    gradients = torch.autograd.grad((expected[0] * grad).sum(), leaves)
    runs = []
    for _ in range(2):
        out, lse = triton.forward(replace(call))
        by_query, by_keys, by_values = triton.backward(replace(call), out, lse, grad, torch.zeros_like(lse))
        runs.append((out, lse, by_query, *by_keys, *by_values))
    same = all(map(torch.equal, *runs))
    return largest_error(runs[0], [x.detach() for x in (*expected, *gradients)]) if same else math.inf


def judged(what: str, measure: Callable[[], float], most: float) -> dict[str, Any]:
    """The row of a check, which passes if `measure` returns an error of at most `most`.

    If `measure` raises an exception, the row has its message, and the other checks still run.
    """
    row: dict[str, Any] = {"what": what, "error": math.inf, "most": most}
    try:
        row["error"] = measure()
    except Exception as problem:
        row["raised"] = f"{type(problem).__name__}: {problem}"
    return row | {"right": row["error"] <= most}


def checks(device: str) -> list[dict[str, Any]]:
    """The kernels against the definition in float64, for every type, on awkward shapes."""
    found = []
    for (dtype, most), shape, options in product(ERRORS.items(), SHAPES, OPTIONS):
        shared, heads, queries, lengths, d, d_v = shape
        given = [draw(0, shared * heads, queries, d, dtype=dtype, device=device)]
        given += [draw(1 + m, heads, n, d, dtype=dtype, device=device) for m, n in enumerate(lengths)]
        given += [draw(5 + m, heads, n, d_v, dtype=dtype, device=device) for m, n in enumerate(lengths)]
        grad = draw(9, shared * heads, queries, d_v, dtype=dtype, device=device)
        sets = len(lengths)
        options = dict(options, enable_gqa=shared > 1)
        if "windows" in options:
            options["windows"] = windows_of(lengths)
        if "key_masks" in options:
            masks = (draw(10 + m, n, dtype=torch.float64, device=device) < 0.5 for m, n in enumerate(lengths))
            options["key_masks"] = list(masks)
        call = grouped(check_arguments(given[0], given[1 : 1 + sets], given[1 + sets :], **options))
        if not triton.takes(call):
            continue
        named = ", ".join(key for key in options if key != "enable_gqa")
        what = f"{dtype}, {shared} x {heads} heads, {queries} queries, {lengths} keys, d = {d}, d_v = {d_v}, {named}"
        found.append(judged(what, partial(call_error, call, given, options, grad), most))
    return found


def sequence_error(dtype: torch.dtype, shared: int, windows: list[int] | None, device: str) -> float:
    """The error of packed sequences of order 3, and of their gradients, against the definition of each sequence."""
    stops = list(accumulate(SEQUENCES, initial=0))
    shapes = (2 * shared, stops[-1], 64), *[(2, stops[-1], 64)] * 4
    given = [draw(m, *shape, dtype=dtype, device=device).requires_grad_() for m, shape in enumerate(shapes)]
    grad = draw(9, *shapes[0], dtype=dtype, device=device)
    options: dict[str, Any] = {"is_causal": True, "windows": windows, "enable_gqa": shared > 1}
    out = sx.tensor_attention(given[0], given[1:3], given[3:], cu_seqlens=torch.tensor(stops), **options)
    results = [out.detach(), *torch.autograd.grad(out, given, grad)]
    parts = []
    for start, stop in pairwise(stops):
        leaves = [x[:, start:stop].detach().double().requires_grad_() for x in given]
        expected = reference.tensor_attention(leaves[0], leaves[1:3], leaves[3:], **options)[0]
        gradients = torch.autograd.grad(expected, leaves, grad[:, start:stop].double())
        parts.append((expected.detach(), *gradients))
    return largest_error(results, [torch.cat(part, 1) for part in zip(*parts, strict=True)])


def sequence_checks(device: str) -> list[dict[str, Any]]:
    """Packed sequences for every type, with one query head for each key head and with three."""
    return [
        judged(
            f"{dtype}, packed sequences, {shared} x 2 heads, windows {limits}",
            partial(sequence_error, dtype, shared, limits, device),
            most,
        )
        for (dtype, most), shared, limits in product(ERRORS.items(), (1, 3), (None, [7, 40]))
    ]


def windows_of(lengths: Sequence[int]) -> list[int | None]:
    """A short window on the first set, and a window on the last set that contains whole blocks.

    >>> windows_of((3, 4, 5)), windows_of((7, 300))
    ([7, None, 40], [7, 150])
    """
    return [7, *[None] * (len(lengths) - 2), max(40, lengths[-1] // 2)]


def near_linear_checks(device: str) -> list[dict[str, Any]]:
    """Checks of near-linear attention of order 3 and of streams: each error as a fraction of its certificate.

    On an unknown architecture, where certified calls raise an error, there are no checks.
    """
    if gpu.unchecked(torch.device(device)) is not None:
        return []
    n, d, d_v = NEAR_LINEAR

    def tensors(dtype: torch.dtype) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        query, *keys = (draw(m, 2, n, d, dtype=dtype, device=device) for m in range(3))
        return query, keys, [draw(5 + m, 2, n, d_v, dtype=dtype, device=device) for m in range(2)]

    def exact(query: Tensor, keys: list[Tensor], values: list[Tensor], **options: Any) -> Tensor:
        wide = query.double(), [x.double() for x in keys], [x.double() for x in values]
        return reference.tensor_attention(*wide, **options)[0]

    def call(dtype: torch.dtype, is_causal: bool) -> float:
        given = tensors(dtype)
        made = sx.certified_attention(*given, tolerance=1e-2, method="polynomial", is_causal=is_causal)
        return (made.output.double() - exact(*given, is_causal=is_causal)).abs().max().item() / made.certificate.total

    def stream(dtype: torch.dtype) -> float:
        query, keys, values = tensors(dtype)
        state = sx.TensorAttentionState(
            3, d, d_v, bound=1.0, tolerance=1e-2, batch_shape=(2,), dtype=dtype, device=device
        )
        for token in range(n):
            state.append([x[:, token : token + 1] for x in keys], [x[:, token : token + 1] for x in values])
        out = state.attend(query[:, :1]).double()
        return (out - exact(query[:, :1], keys, values)).abs().max().item() / state.certificate.total

    types, found = (torch.float32, torch.float64), []
    for dtype, is_causal in product(types, (False, True)):
        found.append(judged(f"near-linear, {dtype}, is_causal={is_causal}", partial(call, dtype, is_causal), 1.0))
    return found + [judged(f"a stream, {dtype}", partial(stream, dtype), 1.0) for dtype in types]


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
            options: dict[str, Any] = {"windows": list(GROUPED_WINDOWS), "scale": d**-0.5, "enable_gqa": True}
            call = grouped(check_arguments(query, sets[:2], sets[2:], **options))
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
    """The report on this machine's GPU, or None without a GPU or Triton; it has times only if every result is right."""
    if not torch.cuda.is_available() or not gpu.installed():
        return None
    right = checks(device) + sequence_checks(device) + near_linear_checks(device)
    return {
        "gpu": torch.cuda.get_device_name(),
        "architecture": gpu.architecture(torch.device(device)),
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
