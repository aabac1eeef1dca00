"""The assumptions of certificates about the arithmetic: measured here, and shown to fail for worse arithmetic."""

from __future__ import annotations

import math

import mpmath
import pytest
import torch

from separatrix import native_tensors
from separatrix.attention import bounds
from separatrix.attention.arithmetic import assumptions, measured
from separatrix.attention.arithmetic.assumptions import ASSUMPTIONS
from separatrix.errors import SeparatrixError
from separatrix.native import native


def test_this_machine_keeps_every_assumption():
    found = measured.measure()
    assert [each.assumption for each in found] == list(ASSUMPTIONS)
    assert [each.assumption.name for each in found if not each.holds] == []
    assert measured.verdict(found).startswith("Certificates are valid on this machine")
    # A check must not accept a value that is not exact.
    assert {each.assumption.name for each in found if each.error == 0} == {"modes", "not finite"}


def one(name, device="cpu"):
    with measured.localcontext(measured._DIGITS):
        assumption = next(each for each in ASSUMPTIONS if each.name == name)
        return measured.Measurement(assumption, *measured._MEASURES[name](device))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_errors_are_those_that_mpmath_finds(dtype):
    """Measured errors of the exponential and of a matrix product are those of mpmath, in units of rounding."""
    x = measured._between(-80.0, 80.0, dtype, "cpu", 0)
    u = torch.finfo(dtype).eps / 2
    with mpmath.workdps(50), measured.localcontext(measured._DIGITS):
        truth = [mpmath.exp(mpmath.mpf(each)) for each in x.tolist()]
        pairs = zip(torch.exp(x).tolist(), truth, strict=True)
        expected = max(abs(mpmath.mpf(a) - t) / t for a, t in pairs) / u
        actual = measured._units(torch.exp(x), [measured.Decimal(each).exp() for each in x.tolist()])
        assert actual == pytest.approx(float(expected), rel=1e-9)
        A, B = measured._matrix(1, 40, dtype, "cpu", 1), measured._matrix(1, 40, dtype, "cpu", 2).mT
        terms = [mpmath.mpf(a) * mpmath.mpf(b) for a, b in zip(A[0].tolist(), B[:, 0].tolist(), strict=True)]
        error = abs(mpmath.mpf((A @ B).item()) - mpmath.fsum(terms))
        share = error * (1 - 40 * u) / (40 * u * mpmath.fsum(map(abs, terms)))
        assert measured._share(A, B, A @ B) == pytest.approx(float(share), rel=1e-9)


def strassen(A, B):
    """One step of Strassen's algorithm where the sizes allow it: seven products in place of eight."""
    if A.dim() != 2 or any(size % 2 for size in (*A.shape, *B.shape)):
        return torch.matmul(A, B)
    (a, b), (c, d) = (half.chunk(2, 1) for half in A.chunk(2, 0))
    (e, f), (g, h) = (half.chunk(2, 1) for half in B.chunk(2, 0))
    mm = torch.matmul
    p, q, r, s = mm(a + d, e + h), mm(c + d, e), mm(a, f - h), mm(d, g - e)
    t, v, w = mm(a + b, h), mm(c - a, e + f), mm(b - d, g + h)
    return torch.cat([torch.cat([p + s - t + w, r + t], 1), torch.cat([q + s, p - q + r + v], 1)], 0)


def worse(function, factor):
    def changed(x, *rest):
        return function(x, *rest) * (1 + factor * torch.finfo(x.dtype).eps)

    return changed


def refusing():
    raise SeparatrixError("torch.set_flush_denormal: so.")


WORSE = {
    "modes": (measured, "require_ieee_arithmetic", refusing),
    "not finite": (
        torch,
        "isfinite",
        lambda x: torch.ones_like(x, dtype=torch.bool),
    ),  # as with the compiler's fast-math
    "operations": (torch.Tensor, "__truediv__", lambda a, b: a * b.reciprocal()),
    "exp": (torch, "exp", worse(torch.exp, 4)),
    "log": (torch, "log", worse(torch.log, 8)),
    "powers": (torch.Tensor, "pow", worse(torch.Tensor.pow, 4)),
    "bounds": (torch, "expm1", lambda x: torch.exp(x) - 1),
    "products": (torch.Tensor, "__matmul__", strassen),
}


@pytest.mark.parametrize("name", WORSE)
def test_worse_arithmetic_is_detected(monkeypatch, name):
    assert one(name).holds
    monkeypatch.setattr(*WORSE[name])
    found = one(name)
    assert not found.holds
    told = measured.verdict([found])
    assert told.startswith("Certificates are NOT valid on this machine. ")
    assert found.assumption.statement in told


def test_truncating_conversions_are_detected(monkeypatch):
    kept = torch.Tensor.to

    def cut(x, *arguments):
        if arguments != (torch.bfloat16,):
            return kept(x, *arguments)
        bits = kept(x, torch.float32).view(torch.int32) & ~0xFFFF  # the upper half of float32, truncated
        return kept(bits.view(torch.float32), torch.bfloat16)

    assert one("conversions").holds
    monkeypatch.setattr(torch.Tensor, "to", cut)
    assert 1.5 < one("conversions").error <= 2


def test_an_exponential_that_does_not_underflow_is_detected(monkeypatch):
    kept = torch.exp
    monkeypatch.setattr(torch, "exp", lambda x: kept(x.clamp(min=-80.0)))
    found = one("exp")
    assert (found.error, found.holds) == (math.inf, False)


def test_a_worse_exponential_of_the_kernels_is_detected(monkeypatch):
    if native().library is None:
        pytest.skip(f"There are no kernels to measure. {native().reason}")
    kept = native_tensors.exp2
    monkeypatch.setattr(
        native_tensors, "exp2", lambda library, x: kept(library, x) * (1 + 4 * torch.finfo(x.dtype).eps)
    )
    found = one("exp")
    assert not found.holds
    assert found.error < 12


def test_products_that_are_not_used_are_not_measured(monkeypatch):
    """Where float32 products have fewer digits, certificates rest on float64 alone."""
    monkeypatch.setattr(measured, "float32_products_are_float32", lambda device: False)
    kept = torch.Tensor.__matmul__
    monkeypatch.setattr(torch.Tensor, "__matmul__", lambda a, b: kept(a.bfloat16(), b.bfloat16()).to(a.dtype))
    assert one("products").error > 1  # float64 is measured
    narrow_only = {torch.float32: lambda a, b: kept(a.bfloat16(), b.bfloat16()).float(), torch.float64: kept}
    monkeypatch.setattr(torch.Tensor, "__matmul__", lambda a, b: narrow_only[a.dtype](a, b))
    found = one("products")
    assert found.holds
    assert "not used for certificates" in found.remark
    monkeypatch.setattr(measured, "float32_products_are_float32", lambda device: True)
    assert not one("products").holds


def test_a_nan_measurement_confirms_no_assumption():
    assert not measured.Measurement(ASSUMPTIONS[0], math.nan).holds


def test_the_slack_of_bounds_is_a_thousand_times_the_errors_of_their_functions():
    assert bounds.SLACK - 1 >= 1000 * assumptions.BOUNDS * 2.0**-53


def test_the_page_lists_the_assumptions(root):
    """The first table of the page has a row with the limit of every assumption."""
    page = (root / "docs" / "derivations" / "assumptions.md").read_text()
    _, table = page.split("\n| assumption | ", 1)
    rows = table.split("\n\n", 1)[0].splitlines()[2:]
    assert [row.split(" | ")[0].removeprefix("| ") for row in rows] == [assumption.name for assumption in ASSUMPTIONS]
    for row, actual in zip(rows, ASSUMPTIONS, strict=True):
        assert [cell.replace("\\|", "|") for cell in row.split(" | ")[1:3]] == [actual.statement, f"{actual.limit:g}"]
