"""The figures of Theorem 4.5."""

from __future__ import annotations

from fractions import Fraction

from tests.claims.cells import ran
from tests.report.drawings.drawn import drawn


def test_false_proofs_lie_on_their_bound() -> None:
    drawing = drawn("protocol_soundness", "kronecker/theorem-4.5")
    traces = {trace.name: trace for trace in drawing.figure.data}
    for r in (2, 3, 4):
        points = traces[f"r = {r}, best false proof"]
        expected = {
            one.parameters["length"]: Fraction(one.result["worst"])
            for one in ran("kronecker/theorem-4.5")
            if one.result["r"] == r
        }
        assert dict(zip(points.x, points.y, strict=True)) == {
            at: float(value) for at, value in sorted(expected.items())
        }
        assert all(y <= min(1, 3 * (r - 1) / x) + 1e-12 for x, y in zip(points.x, points.y, strict=True))
        typical = traces[f"r = {r}, mean over sets"]
        assert all(mean <= worst + 1e-12 for mean, worst in zip(typical.y, points.y, strict=True))
