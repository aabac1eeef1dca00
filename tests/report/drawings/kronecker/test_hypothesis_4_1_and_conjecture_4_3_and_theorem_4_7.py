"""The figures of Hypothesis 4.1, Conjecture 4.3 and Theorem 4.7."""

from __future__ import annotations

from tests.report.drawings.drawn import drawn


def test_the_chain_grows_from_problem_to_problem() -> None:
    columns = drawn("chain_sizes", "kronecker/theorem-4.7").columns
    for row in zip(
        *(columns[name] for name in ("cnf", "orthogonal_vectors", "direct_maxip", "direct_work")), strict=True
    ):
        assert list(row) == sorted(row)
    assert all(a < b for a, b in zip(columns["direct_maxip"], columns["protocol_maxip"], strict=True))
