"""The figures of Hypothesis 4.1, Conjecture 4.3 and Theorem 4.7."""

from __future__ import annotations

from separatrix.report.drawings.kronecker import hypothesis_4_1_and_conjecture_4_3_and_theorem_4_7
from tests.contracts.drawing_contract import DrawingContract, drawn


class TestHypothesis41AndConjecture43AndTheorem47(DrawingContract):
    module = hypothesis_4_1_and_conjecture_4_3_and_theorem_4_7
    shown = (
        ("chain_sizes", "kronecker/hypothesis-4.1"),
        ("chain_sizes", "kronecker/conjecture-4.3"),
        ("chain_sizes", "kronecker/theorem-4.7"),
    )


def test_the_chain_grows_from_problem_to_problem() -> None:
    columns = drawn("chain_sizes", "kronecker/theorem-4.7").columns
    for one in zip(
        *(columns[name] for name in ("cnf", "orthogonal_vectors", "direct_maxip", "direct_work")), strict=True
    ):
        assert list(one) == sorted(one)
    assert all(a < b for a, b in zip(columns["direct_maxip"], columns["protocol_maxip"], strict=True))
