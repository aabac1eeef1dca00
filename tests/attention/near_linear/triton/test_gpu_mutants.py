"""Errors planted in the Triton kernels of near-linear attention: the other tests' checks detect each of them."""

from __future__ import annotations

import pytest
import torch

from separatrix.attention.near_linear.approximation.monomials import total_degree
from separatrix.attention.near_linear.triton import backend as triton
from separatrix.attention.near_linear.triton import launch
from tests.attention.near_linear.test_native_scan import Case
from tests.attention.near_linear.triton.test_gpu_products import check_derivatives
from tests.attention.near_linear.triton.test_gpu_scan import check_scan
from tests.attention.streaming.test_few_tokens_gpu import check_stream
from tests.contracts.interpreter import PROGRAMS, interpreted, needs_triton  # noqa: F401
from tests.contracts.planted import Planted, seen_by

pytestmark = [needs_triton, pytest.mark.usefixtures("interpreted"), pytest.mark.timeout(1200)]

PACKAGE = next(name for name in PROGRAMS if "near_linear" in name)


def by_tiles():
    check_derivatives(total_degree(2, 2), 1, 6, 2, torch.float32)


def one_by_one():
    check_derivatives(total_degree(2, 2), 1, 6, 2, torch.float64)


def causal():
    check_scan(Case(6, (6, 6), total_degree(1, 2), 1, before=True, moment=1, heads=1))


def stream():
    check_stream(3, 1, 1, (2,), (2, 1))


CHECKS = (by_tiles, one_by_one, causal, stream)


PLANTED = {
    "a factor is lost, by tiles": Planted("monomials", "in range(degree):", "in range(degree - 1):", by_tiles),
    "a factor is lost": Planted("monomials", "in range(degree):", "in range(degree - 1):", one_by_one),
    "the table is read one row off": Planted(
        "monomials", "+ rows * degree", "+ (rows - (rows > 4)) * degree", by_tiles
    ),
    "the mask at the tail of a part": Planted("add_state", "(tokens < last)", "(tokens < n)", by_tiles),
    "the last tile of tokens": Planted(
        "add_state", "range(first, last, TOKENS)", "range(first, last - 4, TOKENS)", by_tiles
    ),
    "the last token of a part": Planted("add_state", "range(first, last):", "range(first, last - 1):", one_by_one),
    "the first tile of monomials": Planted(
        "against_state", "range(0, rank, ROWS)", "range(ROWS, rank, ROWS)", by_tiles
    ),
    "the last monomial": Planted("against_state", "range(rank)", "range(rank - 1)", one_by_one),
    "a parent, by tiles": Planted("coordinate_gradient", "pairs + total + here, mask", "pairs + here, mask", by_tiles),
    "a parent": Planted(
        "coordinate_gradient", "tl.load(pairs + total + here)\n", "tl.load(pairs + here)\n", one_by_one
    ),
    "an exponent": Planted("coordinate_gradient", "degree, TOKENS) * times\n", "degree, TOKENS)\n", one_by_one),
    "the pairs of the next coordinate": Planted(
        "coordinate_gradient", "begins + coordinate + 1)", "begins + d)", one_by_one
    ),
    "a piece is among those before it": Planted(
        "carry",
        "tl.store(at, so_far, mask=inside)\n        so_far += own",
        "so_far += own\n        tl.store(at, so_far, mask=inside)",
        causal,
    ),
    "the query's coordinates for the keys'": Planted("running", "of_set + heads, row", "head, row", causal),
    "the states before a piece": Planted("running", "earlier[None, :] + tl.cumsum", "tl.cumsum", causal),
    "the moment's coefficients": Planted("scan", "where(column < columns,", "where(column <= columns,", causal),
    "the last monomial of the scan": Planted("scan", "range(rank)", "range(rank - 1)", causal),
    "the factor itself among the others": Planted("scan_back", "m + 1 == factor", "m == factor", causal),
    "later tokens": Planted("scan_back", ", reverse=True", "", causal),
    "what comes from later pieces": Planted("scan_back", "after[None, :] + tl.cumsum", "tl.cumsum", causal),
    "the column of ones": Planted("append_tokens", "columns - 1, other=1.0", "columns - 1, other=0.0", stream),
    "what was there before": Planted("append_tokens", "tl.load(at, mask=inside, other=0.0) + sums", "sums", stream),
    "the second state": Planted("ask_states", "tl.static_range(1, SETS)", "tl.static_range(2, SETS)", stream),
    "the last query": Planted("ask_states", "in range(n):", "in range(n - 1):", stream),
}


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Blocks of 4 monomials and 4 tokens, so that the smallest calls have several."""
    shipped = launch.block_of

    def block(kernel, dtype, columns, of=None):
        return shipped(kernel, dtype, columns, of)._replace(rows=4, tokens=4)

    for module in (launch, triton):
        monkeypatch.setattr(module, "block_of", block)
    monkeypatch.setattr(triton, "SHORTEST", 3)
    monkeypatch.setattr(triton, "scan_tokens", lambda *sizes: 8)


programs, test_the_checks_pass_without_one, test_a_planted_error_is_detected = seen_by(PACKAGE, CHECKS, PLANTED)
