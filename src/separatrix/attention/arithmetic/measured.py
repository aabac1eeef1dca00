"""Measures whether the arithmetic of this machine satisfies the assumptions of the certificates (see `assumptions`).

PyTorch's results are compared with 60 decimal digits from Python's `decimal`: on random and special arguments, in
float32 and float64, both in long rows, which vector instructions compute, and one by one. This is a sample, not a
proof; a proof would have to analyse the mathematics library. The exponential of the C++ kernels is measured too; its
error is proved in tests/native/test_exponential.py.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext

import torch
from torch import Tensor

from separatrix import native_tensors
from separatrix.attention.arithmetic.assumptions import ASSUMPTIONS, Assumption
from separatrix.attention.arithmetic.precision import float32_products_are_float32, require_ieee_arithmetic
from separatrix.errors import SeparatrixError
from separatrix.native import native

_TYPES = (torch.float32, torch.float64)
_DIGITS = Context(prec=60, Emax=10**6, Emin=-(10**6), traps=[])
_SAMPLE = 200
"""The number of random arguments of a function; all measurements together take about a second."""


@dataclass(frozen=True)
class Measurement:
    """The largest measured error of an assumption, in its unit; `remark` describes an error that has no magnitude."""

    assumption: Assumption
    error: float
    remark: str = ""

    @property
    def holds(self) -> bool:
        """Whether the error is within the limit of the assumption; False if the error is NaN."""
        return self.error <= self.assumption.limit


def measure(device: str = "cpu") -> list[Measurement]:
    """One measurement of each assumption, on a device.

    >>> all(measurement.holds for measurement in measure())
    True
    """
    with localcontext(_DIGITS):
        return [Measurement(assumption, *_MEASURES[assumption.name](device)) for assumption in ASSUMPTIONS]


def verdict(measurements: Iterable[Measurement]) -> str:
    """One line: whether certificates are valid on the measured machine, and if not, why."""
    broken = [measurement for measurement in measurements if not measurement.holds]
    if not broken:
        return "Certificates are valid on this machine: its arithmetic satisfies all their assumptions."
    first = broken[0]
    error = first.remark or f"{first.error:.3g}"
    return f"Certificates are NOT valid on this machine. Assumption: {first.assumption.statement} Measured: {error}."


MeasuredError = tuple[float, str] | tuple[float]


def _modes(device: str) -> MeasuredError:
    try:
        require_ieee_arithmetic()
    except SeparatrixError as error:
        return 1.0, str(error).rstrip(".")
    return (0.0,)


def _not_finite(device: str) -> MeasuredError:
    wrong = 0
    for dtype in _TYPES:
        most = torch.full((64,), torch.finfo(dtype).max, dtype=dtype, device=device)
        overflow, invalid = most * 2, most * 0 / (most * 0)
        minus = most * 2 - most * 2
        wrong += int(torch.isfinite(torch.stack([overflow, invalid, minus])).sum())
        wrong += int((~torch.isnan(torch.stack([invalid, minus]))).sum()) + int((invalid == invalid).sum())
    return (float(wrong),)


def _operations(device: str) -> MeasuredError:
    worst = 0.0
    for dtype in _TYPES:
        a, b = _spread(dtype, device, 0), _spread(dtype, device, 1)
        for operation in (operator.add, operator.mul, operator.truediv):
            truth = [operation(Decimal(x), Decimal(y)) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
            worst = max(worst, _units(operation(a, b), truth))
    return (worst,)


def _conversions(device: str) -> MeasuredError:
    given = _spread(torch.float64, device, 2, exponents=6)
    truth = [Decimal(x) for x in given.tolist()]
    return (max(_units(given.to(dtype), truth) for dtype in (torch.float32, torch.bfloat16, torch.float16)),)


def _exp(device: str) -> MeasuredError:
    worst = 0.0
    for dtype in _TYPES:
        info = torch.finfo(dtype)
        low, high = math.log(info.smallest_normal) + 1e-3, math.log(info.max) - 1e-3
        x = _between(low, high, dtype, device, 3)
        truth = [Decimal(entry).exp() for entry in x.tolist()]
        worst = max(worst, *(_units(result, truth) for result in _ways(torch.exp, x)))
        below = torch.exp(_between(16 * low, low, dtype, device, 4))
        if not bool(((below >= 0) & (below <= 1.01 * math.exp(1e-3) * info.smallest_normal)).all()):
            return math.inf, f"exp is not small in {dtype} where it should underflow"
        worst = max(worst, _kernel_exponential(dtype, device))
    return (worst,)


def _kernel_exponential(dtype: torch.dtype, device: str) -> float:
    """The error of the powers of two that the kernels in C++ compute, where these run."""
    library = native().library
    if library is None or device != "cpu":
        return 0.0
    highest = math.frexp(torch.finfo(dtype).max)[1] - 1
    x = _between(-0.88 * highest, float(highest), dtype, device, 12)
    two = Decimal(2).ln()
    return _units(native_tensors.exp2(library, x), [(Decimal(entry) * two).exp() for entry in x.tolist()])


def _log(device: str) -> MeasuredError:
    worst = 0.0
    for dtype in _TYPES:
        info = torch.finfo(dtype)
        wide = torch.exp(_between(math.log(info.smallest_normal) + 1, math.log(info.max) - 1, dtype, device, 5))
        x = torch.cat([wide, _between(0.5, 2.0, dtype, device, 6)])
        truth = [Decimal(entry).ln() for entry in x.tolist()]
        worst = max(worst, *(_units(result, truth, 1) for result in _ways(torch.log, x)))
    return (worst,)


def _powers(device: str) -> MeasuredError:
    return (max(_power_units(k, dtype, device) for dtype in _TYPES for k in range(2, 9)),)


def _power_units(k: int, dtype: torch.dtype, device: str) -> float:
    x = _between(2.0**-8, 64.0, dtype, device, 7)
    powers = [Decimal(entry) ** k for entry in x.tolist()]
    roots = [(Decimal(entry).ln() / k).exp() for entry in x.tolist()]
    square_root = _units(x.sqrt(), roots) if k == 2 else 0.0
    return max(_units(x.pow(k), powers), _units(x.pow(1 / k), roots), square_root)


def _bounds(device: str) -> MeasuredError:
    x = _between(-300.0, 300.0, torch.float64, device, 8)
    y = _between(1e-6, 1.0, torch.float64, device, 9)
    xs, ys, two = x.tolist(), y.tolist(), Decimal(2).ln()
    exponentials, logarithms = [Decimal(entry).exp() for entry in xs], [Decimal(entry).ln() / two for entry in ys]
    one_by_one = x.new_tensor([[math.exp(entry) for entry in xs[: len(ys)]], [math.log2(entry) for entry in ys]])
    functions = [
        (torch.exp(x), exponentials),
        (one_by_one[0], exponentials[: len(ys)]),
        (torch.log2(y), logarithms),
        (one_by_one[1], logarithms),
        (torch.expm1(y), [Decimal(entry).exp() - 1 for entry in ys]),
        (y**12, [Decimal(entry) ** 12 for entry in ys]),
    ]
    return (max(_units(result, truth) for result, truth in functions),)


def _products(device: str) -> MeasuredError:
    """The error of products of matrices whose rows and columns have very different magnitudes: a fast algorithm that
    adds these up would have the error of the largest in every entry."""
    narrow = float32_products_are_float32(device)
    remark = "" if narrow else "float32 products have reduced precision here, and are not used for certificates"
    worst = 0.0
    for dtype in _TYPES if narrow else (torch.float64,):
        for rows, terms, columns in ((1, 7, 1), (3, 64, 5), (64, 64, 64), (130, 257, 66), (512, 512, 512)):
            A, B = _matrix(rows, terms, dtype, device, 10), _matrix(columns, terms, dtype, device, 11).mT
            for product in (A @ B, torch.bmm(A.expand(2, -1, -1), B.expand(2, -1, -1))[1]):
                worst = max(worst, _share(A, B, product))
    return worst, remark


def _share(A: Tensor, B: Tensor, product: Tensor) -> float:
    """The largest error of a sample of entries of A B, as a fraction of gamma_n (|A| |B|)."""
    n, u = A.shape[1], torch.finfo(A.dtype).eps / 2
    gamma = Decimal(n * u) / (1 - Decimal(n * u))
    worst = 0.0
    for i in {0, A.shape[0] // 2}:
        for j in {B.shape[1] // 3, B.shape[1] - 1}:
            terms = [Decimal(x) * Decimal(y) for x, y in zip(A[i].tolist(), B[:, j].tolist(), strict=True)]
            error = abs(Decimal(product[i, j].item()) - sum(terms))
            worst = max(worst, float(error / (gamma * sum(map(abs, terms)))))
    return worst


_MEASURES: dict[str, Callable[[str], MeasuredError]] = {
    "modes": _modes,
    "not finite": _not_finite,
    "operations": _operations,
    "conversions": _conversions,
    "exp": _exp,
    "log": _log,
    "powers": _powers,
    "bounds": _bounds,
    "products": _products,
}


def _units(result: Tensor, truth: list[Decimal], beside: int = 0) -> float:
    """The largest error relative to |truth| + `beside`, in units of roundoff; infinite if an entry is not finite."""
    if not bool(torch.isfinite(result).all()):
        return math.inf
    u = Decimal(torch.finfo(result.dtype).eps / 2)
    pairs = zip(result.tolist(), truth, strict=True)
    return float(max(abs(Decimal(x) - t) / ((abs(t) + beside) * u) for x, t in pairs if t or x))


def _ways(function: Callable[[Tensor], Tensor], x: Tensor) -> Iterator[Tensor]:
    """A function's values on a row: computed at once, with a stride of two, one by one, and shared among threads."""
    yield function(x)
    yield function(x.repeat_interleave(2)[::2])
    yield torch.cat([function(x[i : i + 1]) for i in range(len(x))])
    copies = 1 + 32768 * torch.get_num_threads() // len(x)
    yield function(x.repeat(copies)).reshape(copies, -1)[-1]


def _generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _between(low: float, high: float, dtype: torch.dtype, device: str, seed: int) -> Tensor:
    """Random numbers between two ends, with the ends themselves, multiples of log(2) / 2 and numbers near 0."""
    drawn = low + (high - low) * torch.rand(_SAMPLE, dtype=torch.float64, generator=_generator(seed))
    halves = [math.log(2.0) * j / 2 for j in range(-8, 9)]  # multiples of log(2) / 2, where exp reduces its argument
    small = [sign * 2.0**-j for j in (0, 1, 8, 23, 24, 52) for sign in (-1, 1)]
    inside = torch.tensor([x for x in (low, high, *halves, *small) if low <= x <= high], dtype=torch.float64)
    return torch.cat([drawn, inside]).clamp(low, high).to(device, dtype)


def _spread(dtype: torch.dtype, device: str, seed: int, exponents: int = 30) -> Tensor:
    """Random numbers of either sign and of very different sizes."""
    generator = _generator(seed)
    drawn = torch.randn(_SAMPLE, dtype=torch.float64, generator=generator)
    return torch.ldexp(drawn, torch.randint(-exponents, exponents, (_SAMPLE,), generator=generator)).to(device, dtype)


def _matrix(rows: int, columns: int, dtype: torch.dtype, device: str, seed: int) -> Tensor:
    generator = _generator(seed)
    drawn = torch.randn(rows, columns, dtype=torch.float64, generator=generator)
    return torch.ldexp(drawn, torch.randint(-20, 20, (rows, 1), generator=generator)).to(device, dtype)
