"""The kernels in Triton on the GPU of this machine: whether they are right, and then how fast, against peers.

Peers are PyTorch's fused attention over materialised pairs, (keys times keys, values times values), which is the same
function where memory allows it, and FBGEMM's kernels for order 3, where these are installed. Nothing is timed if a
result is wrong. The report is JSON that can be sent to the project.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
import re
import sys
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import torch
from torch import Tensor

import separatrix as sx
from separatrix.attention import reference
from separatrix.attention.call import Call, check_call
from separatrix.attention.exact import gpu
from separatrix.attention.exact.blocks import passes

ERRORS = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 3e-2, torch.float16: 5e-3}
SHAPES: tuple[tuple[int, int, tuple[int, ...], int, int], ...] = (
    (1, 17, (5, 40), 16, 24),
    (2, 70, (33, 65), 64, 64),
    (1, 40, (20, 150), 128, 128),
    (1, 20, (5, 9, 30), 32, 16),
    (1, 20, (3, 4, 5, 20), 16, 16),
)
NEAR_LINEAR = (300, 4, 8)
"""The length and the dimensions of keys and of values for which near-linear attention is checked."""
OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"is_causal": True, "query_offset": 3},
    {"windows": [7, 40], "query_offset": 1},
)
TIMED = ((8, 512, None), (8, 2048, (512, 32)), (8, 8192, (512, 32)))
"""Heads, the length, and the windows of what is timed, causal, with 64 columns and 128."""
ROUNDS = 5


def draw(seed: int, *shape: int, dtype: torch.dtype, device: str) -> Tensor:
    """Numbers from -1 to 1, the same on every machine."""
    generator = torch.Generator().manual_seed(seed)
    return (2 * torch.rand(*shape, generator=generator, dtype=torch.float64) - 1).to(device, dtype)


def check(call: Call, expected: tuple[Tensor, Tensor], gradients: list[Tensor], grad: Tensor) -> float:
    """The largest error of output, log-sum-exp and gradients, relative to the largest entry of each where above 1."""
    out, lse = gpu.forward(call)
    by_query, by_keys, by_values = gpu.backward(call, out, lse, grad, torch.zeros_like(lse))
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
                options = dict(options, **({"windows": windows_of(sets)} if "windows" in options else {}))
                call = check_call(given[0], given[1 : 1 + sets], given[1 + sets :], **options)
                if not gpu.takes(call):
                    continue
                expected = reference.tensor_attention(leaves[0], leaves[1 : 1 + sets], leaves[1 + sets :], **options)
                gradients = torch.autograd.grad((expected[0] * grad).sum(), leaves)
                error = check(call, tuple(x.detach() for x in expected), list(gradients), grad)
                what = f"{dtype}, {queries} queries, {lengths} keys, d = {d}, d_v = {d_v}, {options}"
                found.append({"what": what, "error": error, "most": most, "right": error <= most})
    return found


def windows_of(sets: int) -> list[int | None]:
    """A short window on the first set and a long one on the last.

    >>> windows_of(3)
    [7, None, 40]
    """
    return [7, *[None] * (sets - 2), 40]


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
    """The least time of a run, by the GPU's own clock, after one that does not count."""
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
    """Order 3 as ordinary attention over all pairs, which are held; for whole sequences without causality."""
    key, value = (
        (first.unsqueeze(2) * second.unsqueeze(1)).flatten(1, 2) for first, second in (tuple(keys), tuple(values))
    )
    scaled = torch.nn.functional.scaled_dot_product_attention(
        query.unsqueeze(0), key.unsqueeze(0), value.unsqueeze(0), scale=1 / query.shape[2]
    )
    return scaled.squeeze(0)


def fbgemm() -> Callable[..., Any] | None:
    """The forward kernel of FBGEMM's experimental package `simplicial`, if it is installed.

    It takes (batch, length, heads, columns), causal, with a window for each key set, and gives output and maxima.
    """
    if importlib.util.find_spec("simplicial") is None:
        return None
    found: Callable[..., Any] = importlib.import_module("simplicial.ops.triton.fwd").triton_fwd
    return found


def times(device: str) -> list[dict[str, Any]]:
    """Times of the passes, and of peers where they have the call."""
    found = []
    peer = fbgemm()
    for dtype in (torch.bfloat16, torch.float16, torch.float32, torch.float64):
        for d in (64, 128):
            for heads, length, windows in TIMED:
                query, *sets = (draw(m, heads, length, d, dtype=dtype, device=device) for m in range(5))
                options = {"windows": list(windows)} if windows else {}
                call = check_call(query, sets[:2], sets[2:], **options)
                if not gpu.takes(call):
                    continue
                out, lse = gpu.forward(call)
                grad = torch.ones_like(out)
                row: dict[str, Any] = {"what": f"{dtype}, {heads} heads, n = {length}, windows {windows}, d = {d}"}
                row["forward"] = seconds(lambda call=call: gpu.forward(call))
                row["backward"] = seconds(
                    lambda call=call, out=out, lse=lse, grad=grad: gpu.backward(
                        call, out, lse, grad, torch.zeros_like(lse)
                    )
                )
                reach = math.prod(windows) if windows else length * length
                row["scores a second"] = heads * length * reach / row["forward"]
                if windows is None:
                    row["pairs by fused attention"] = seconds(
                        lambda query=query, sets=sets: pairs_by_fused_attention(query, sets[:2], sets[2:])
                    )
                    row["plain PyTorch"] = seconds(lambda call=call: passes.forward(call.widened()))
                elif peer is not None and dtype == torch.bfloat16:
                    laid_out = [x.transpose(0, 1).unsqueeze(0).contiguous() for x in (query, *sets)]
                    try:
                        row["FBGEMM"] = seconds(lambda laid_out=laid_out, windows=windows: peer(*laid_out, *windows))
                    except Exception as error:  # a peer of another version is no fault of ours
                        row["FBGEMM"] = f"did not run: {type(error).__name__}: {error}"
                found.append(row)
    return found


def report(device: str = "cuda") -> dict[str, Any] | None:
    """Everything about this machine's GPU, or None if it has none; times only if every result is right."""
    if not torch.cuda.is_available():
        return None
    right = checks(device) + near_linear_checks(device)
    return {
        "gpu": torch.cuda.get_device_name(),
        "python": sys.version.split()[0],
        "torch": torch.__version__,
        "triton": version("triton"),
        "checks": right,
        "times": times(device) if all(row["right"] for row in right) else [],
    }


def folder(name: str) -> str:
    """A name of a file for a GPU.

    >>> folder("NVIDIA H100 80GB HBM3")
    'nvidia-h100-80gb-hbm3'
    """
    return "-".join(re.findall(r"[a-z0-9]+", name.lower()))


def table(report: dict[str, Any]) -> str:
    """The times of a report, a line for each."""
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
