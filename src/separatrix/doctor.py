"""Versions, speed, kernels and self-checks of an installation, for `separatrix doctor`."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from itertools import pairwise
from time import perf_counter

import torch
from torch import Tensor

from separatrix.attention import operator, reference
from separatrix.attention.arithmetic.measured import Measurement, measure
from separatrix.attention.call import check_call
from separatrix.attention.certified import Certified
from separatrix.attention.dispatch.gpu import OLDEST_TRITON, installed
from separatrix.attention.exact.backend import exact_backend
from separatrix.attention.near_linear.backend import backend_of
from separatrix.attention.near_linear.cost import Shape, exact_cost, recipe_cost
from separatrix.native import FILE, NONE, architectures, native, runnable
from separatrix.processor import ONEDNN_WITHOUT_AMX, amx_is_incomplete, processor_name

Attend = Callable[[Tensor, list[Tensor], list[Tensor]], tuple[Tensor, Tensor]]

CORE = ("torch", "numpy", "safetensors")
EXTRAS = {
    "scipy": "lab",
    "mpmath": "lab",
    "threadpoolctl": "lab",
    "typer": "lab",
    "rich": "lab",
    "plotly": "lab",
    "dash": "explore",
    "waitress": "explore",
    "dask": "dask",
    "distributed": "dask",
    "cryptography": "dask",
    "transformers": "hf",
    "python-flint": "verify",
    "tensorboardX": "tensorboard",
}

# Blocks of scores of 0.5 to 2 MiB in float32: large enough to hide the overhead of a call, small enough for a cache.
BLOCKS = ((1024, 128), (1024, 256), (512, 512), (256, 1024), (1024, 512), (512, 1024))


def versions() -> list[tuple[str, str]]:
    """The packages that the library can use, each with its version or the extra that installs it."""
    rows = [("python", platform.python_version()), ("separatrix", metadata.version("separatrix"))]
    rows += [(name, metadata.version(name)) for name in CORE]
    for name, extra in EXTRAS.items():
        try:
            rows.append((name, metadata.version(name)))
        except metadata.PackageNotFoundError:
            rows.append((name, f"not installed: pip install 'separatrix[{extra}]'"))
    return rows


def machine() -> list[tuple[str, str]]:
    """The processor, the cores this process may use, torch's threads, how busy the machine is, the kernels, the GPU.

    Other work on the same cores lowers the measured roofline, by a factor of a hundred if torch's threads wait for each
    other.
    """
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    load = f"{os.getloadavg()[0]:.1f} in the last minute" if hasattr(os, "getloadavg") else "not known on this system"
    return [
        ("processor", f"{processor_name()} ({torch.backends.cpu.get_cpu_capability()})"),
        ("cores", f"{usable} usable of {os.cpu_count()}"),
        ("torch threads", str(torch.get_num_threads())),
        ("load", load),
        ("kernels", kernels()),
        ("backends", chosen_backends()),
        ("GPU", gpu_engine()),
        *([("AMX", amx())] if amx_is_incomplete() else []),
    ]


def kernels() -> str:
    """The architecture of the kernels that run, the reason, and the other architectures; or why no kernels run."""
    native_kernels = native()
    if native_kernels.library is None:
        return f"none: plain PyTorch is used. {native_kernels.reason} {_how_to_get_kernels()}"
    runs = runnable(native_kernels.library)
    other_architectures = [
        name if name in runs else f"{name}, which this processor does not run"
        for name in architectures(native_kernels.library)
        if name != native_kernels.architecture
    ]
    threads = (
        "They run on PyTorch's threads."
        if native_kernels.threads
        else "They run on one thread, because this build of PyTorch does not share its threads."
    )
    other_names = "; ".join(other_architectures) or "none"
    return f"{native_kernels.architecture}. {native_kernels.reason} {threads} Others: {other_names}.{_amx_kernels()}"


def _amx_kernels() -> str:
    """The state of the kernels that multiply tiles, if the library has them."""
    library = native().library
    if library is None or "avx512_amx" not in architectures(library):
        return ""
    return " The products of bfloat16 of avx512_amx are compiled and tested by emulation, but not yet run on hardware."


def chosen_backends() -> str:
    """The backends that are chosen for a call of order 3 in float32 on the CPU."""
    call = check_call(*(torch.zeros(1, 2, 1), [torch.zeros(1, 2, 1)] * 2, [torch.zeros(1, 2, 1)] * 2))
    return f"exact attention: {exact_backend(call).NAME}; near-linear attention: {backend_of(call).NAME} (on the CPU)"


def _how_to_get_kernels() -> str:
    """The advice if no kernels run."""
    if os.environ.get("SEPARATRIX_ISA") == NONE:
        return "Without that variable the kernels run."
    if FILE.exists():
        return "Rebuild it by `make native` or `pip install`."
    compiler = shutil.which(os.environ.get("CXX") or "c++")
    if compiler is None:
        return "Install a C++ compiler and then the package again."
    return f"A C++ compiler was found, {compiler}: reinstall the package (pip install -v shows errors)."


def gpu_engine() -> str:
    """The GPUs, and the backends that compute on them."""
    oldest = ".".join(map(str, OLDEST_TRITON))
    with_triton = (
        "exact attention of order 3 and up and near-linear attention by kernels in Triton (tested in the interpreter, "
        "compiled for sm_80 to sm_120, gfx90a and gfx942, not yet timed on hardware), the rest by plain PyTorch"
        if installed()
        else f"everything by plain PyTorch, because Triton {oldest} or later is not installed"
    )
    if not torch.cuda.is_available():
        return f"none that PyTorch can use. On a GPU: {with_triton}."
    names = sorted({torch.cuda.get_device_name(at) for at in range(torch.cuda.device_count())})
    return f"{', '.join(names)}: {with_triton}."


def amx() -> str:
    """The state of AMX, with advice if the processor reports AMX without its tiles."""
    chosen = os.environ.get("ONEDNN_MAX_CPU_ISA")
    if chosen:
        return f"reported without its tiles; ONEDNN_MAX_CPU_ISA={chosen} is set"
    return (
        "reported without its tiles, as some virtual machines do: the first large bfloat16 product of PyTorch ends the "
        f"process with an illegal instruction. Set ONEDNN_MAX_CPU_ISA={ONEDNN_WITHOUT_AMX}"
    )


@dataclass(frozen=True)
class Roofline:
    """The speed of attention if it consisted of its two matrix products and its exponential only.

    `gflops` is 4 * rows * columns * width floating-point operations over the time of one block; the exponentials
    cost time but do not count as operations, as is usual for attention.
    """

    width: int
    rows: int
    columns: int
    gflops: float


def roofline(width: int, *, seconds: float = 0.4) -> Roofline:
    """The best over `BLOCKS` of S = Q K^T, exp(S), exp(S) V in float32, with Q, K and V of `width` columns.

    The measurement takes about `seconds`, with PyTorch's number of threads.
    """
    return max((_block(*shape, width, seconds / len(BLOCKS)) for shape in BLOCKS), key=lambda speed: speed.gflops)


def _block(rows: int, columns: int, width: int, seconds: float) -> Roofline:
    """Time each of the three operations repeatedly; the time of a block is the sum of their best times."""
    generator = torch.Generator().manual_seed(0)
    Q, K, V = (torch.rand(n, width, generator=generator) for n in (rows, columns, columns))
    K /= width  # scores in [0, 1]
    S, out = torch.empty(rows, columns), torch.empty(rows, width)
    best = [float("inf")] * 3
    end = perf_counter() + seconds
    while True:
        times = [perf_counter()]
        torch.mm(Q, K.T, out=S)
        times.append(perf_counter())
        torch.exp(S, out=S)
        times.append(perf_counter())
        torch.mm(S, V, out=out)
        times.append(perf_counter())
        best = [min(so_far, after - before) for so_far, (before, after) in zip(best, pairwise(times), strict=True)]
        if times[-1] >= end:
            return Roofline(width, rows, columns, 4e-9 * rows * columns * width / sum(best))


@dataclass(frozen=True)
class Speed:
    """The time of a method on this machine, and its time by the cost model of the planner.

    The constants of the cost model ship with the source, so that plans do not depend on the machine. The constants suit
    this machine if both methods have nearly the same `factor`.
    """

    method: str
    what: str
    seconds: float
    reckoned: float

    @property
    def factor(self) -> float:
        """The time on this machine divided by the time of the cost model."""
        return self.seconds / self.reckoned


def speeds(*, seconds: float = 0.5, clock: Callable[[], float] = perf_counter) -> list[Speed]:
    """Exact attention at order 2 and near-linear attention at order 3, in float32, each timed for some `seconds`.

    The best time counts, with the current number of torch threads. With one thread, the clock `time.thread_time`
    excludes the time that other programs take.
    """
    generator = torch.Generator().manual_seed(0)

    def uniform(*shape: int) -> Tensor:
        return 2 * torch.rand(*shape, generator=generator) - 1

    n, d = 1024, 64
    Q, K, V = uniform(3, n, d)
    took = _best(lambda: operator.tensor_attention(Q, K, V, method="exact", return_lse=True), seconds, clock)
    exact = Speed("exact", f"order 2, n = {n}, d = {d}", took, 1e-9 * exact_cost(Shape(1, n, (n,), d, d), False).time)

    n, d = 16384, 8
    query, *sets = uniform(5, n, d)

    def certified() -> Certified:
        return operator.certified_attention(query, sets[:2], sets[2:], tolerance=1e-3, method="polynomial")

    plan = certified().plan
    assert plan.recipe is not None
    cost = recipe_cost(Shape(1, n, (n, n), d, d), plan.recipe)
    what = f"order 3, n = {n}, d = {d}, rank {plan.rank}"
    return [exact, Speed("polynomial", what, _best(certified, seconds, clock), 1e-9 * cost.time)]


def busy() -> str | None:
    """A warning that the machine is busy, so that measured times are unreliable; None if it is not.

    The machine is busy if the load average of the last minute exceeds one more program for each core; systems without a
    load average give None.
    """
    if not hasattr(os, "getloadavg"):
        return None
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    if load <= cores:
        return None
    return f"a load of {load:.1f} on {cores} cores: the times are unreliable, measure again when the machine is idle"


def _best(run: Callable[[], object], seconds: float, clock: Callable[[], float]) -> float:
    """The shortest time of at least two runs, and of as many as fit in `seconds`."""
    best, times, end = float("inf"), 0, perf_counter() + seconds
    while times < 2 or perf_counter() < end:
        start = clock()
        run()
        best, times = min(best, clock() - start), times + 1
    return best


def assumptions() -> dict[str, list[Measurement]]:
    """Measurements of what the certificates assume about the arithmetic, by device; they take about a second."""
    return {device: measure(device) for device in ("cpu", *(["cuda"] if torch.cuda.is_available() else []))}


@dataclass(frozen=True)
class SelfCheck:
    """The comparison of a method with the definition: the largest absolute error of the output and its log-sum-exp."""

    method: str
    order: int
    error: float
    tolerance: float

    @property
    def passed(self) -> bool:
        """Whether the error is small; False if it is NaN."""
        return self.error <= self.tolerance


def self_check(name: str, attend: Attend, *, tolerance: float = 1e-10) -> SelfCheck:
    """Compare `attend` with `reference.tensor_attention` in float64, order 3, all lengths different, d_v != d.

    >>> self_check("the definition", reference.tensor_attention).error
    0.0
    """
    generator = torch.Generator().manual_seed(0)

    def draw(*shape: int) -> Tensor:
        return 2 * torch.rand(2, 3, *shape, generator=generator, dtype=torch.float64) - 1

    query, keys, values = draw(7, 5), [draw(37, 5), draw(11, 5)], [draw(37, 3), draw(11, 3)]
    pairs = zip(attend(query, keys, values), reference.tensor_attention(query, keys, values), strict=True)
    error = torch.cat([(got - expected).abs().flatten() for got, expected in pairs]).max().item()
    return SelfCheck(name, len(keys) + 1, error, tolerance)


def self_checks() -> list[SelfCheck]:
    """A self-check of each method, by its public call."""
    return [self_check(name, _public(name)) for name in operator.METHODS]


def _public(method: str) -> Attend:
    tolerance = None if method == "exact" else 1e-11
    return lambda query, keys, values: operator.tensor_attention(
        query, keys, values, method=method, tolerance=tolerance, return_lse=True
    )
