"""Errors planted in the kernels of exact attention in Triton: the checks of the other tests see each of them."""

from __future__ import annotations

import pytest
import torch

from tests.attention.exact.gpu.test_programs import agree, checked, small_blocks, test_heads_that_share_keys  # noqa: F401
from tests.contracts.interpreter import PROGRAMS, interpreted, needs_triton  # noqa: F401
from tests.contracts.planted import Planted, seen_by

pytestmark = [needs_triton, pytest.mark.usefixtures("interpreted"), pytest.mark.timeout(1200)]

PACKAGE = next(name for name in PROGRAMS if "exact" in name)


def windows():
    agree(*checked("order 4, a window on one prefix", True, torch.float64), 1e-13)


def sets():
    agree(*checked("order 5, windows", True, torch.float64), 1e-13)


def causal():
    agree(*checked("order 5, causal", False, torch.float64), 1e-13)


def inner():
    agree(*checked("a window, and causality", True, torch.float64), 1e-13)


def shared():
    test_heads_that_share_keys([2, 1, 7], {}, True)


CHECKS = (windows, sets, causal, inner, shared)
TABLE = "tl.load(table + 3 * m), tl.load(table + 3 * m + 1), tl.load(table + 3 * m + 2)"
PLANTED = {
    "the last key of a window": Planted(
        "tiles", "tl.minimum(window, last + offset + 1)", "tl.minimum(window - 1, last + offset + 1)", windows
    ),
    "one key beyond a window": Planted("tiles", "(distance < window)", "(distance <= window)", windows),
    "the first step of a window": Planted("tiles", "at = begin + step % count", "at = step % count", windows),
    "the window of another set": Planted("tiles", TABLE, TABLE.replace("m + 2", "0 + 2"), windows),
    "the length of another set": Planted("tiles", TABLE, TABLE.replace("m + 1", "0 + 1"), windows),
    "a set without a window": Planted("tiles", "(window == 0) | ", "", windows),
    "no mask on prefix keys": Planted(
        "tiles",
        "shown(mask, masked_as, start + place, prefixes, (place >= 0) & (place < length), MASKED)",
        "(place >= 0) & (place < length)",
        windows,
    ),
    "the mask of another set": Planted("tiles", "masked_as, start + place", "masked_as, place", windows),
    "the keys of another set": Planted(
        "tiles", "rows_of(prefix, own, start + place", "rows_of(prefix, own, place", causal
    ),
    "all sets at the same step": Planted("tiles", "step = step // count", "step = step", sets),
    "a query before itself": Planted(
        "tiles", "        seen = distance >= 0\n", "        seen = distance > 0\n", causal
    ),
    "steps beyond a query": Planted(
        "tiles", "visible(first, last, offset, window, length, CAUSAL, False)", "(0, last + offset)", causal
    ),
    "a prefix value is lost": Planted("attend", "MASKED, d_v, D_V, 0", "MASKED, d_v, D_V, 1", causal),
    "a prefix key is lost": Planted("query_gradient", "found += row_found", "found += row_found * 2", causal),
    "another step's values": Planted(
        "prefix_gradient", "row_values, attends, step, prefix_values", "row_values, attends, 0, prefix_values", causal
    ),
    "what the first prefix may attend": Planted(
        "prefix_gradient", " & sees(here, prefix, window, CAUSAL, PREFIX_WINDOW)", "", windows
    ),
    "no mask on the first prefix": Planted(
        "prefix_gradient",
        "shown(prefix_mask, masked_as, prefix_row, prefixes, exists, MASKED)",
        "exists",
        windows,
    ),
    "no mask on inner keys": Planted(
        "inner_gradient", "shown(inner_mask, masked_as, keys, inners, exists, MASKED)", "exists", inner
    ),
    "the last key of the inner window": Planted(
        "tiles", "first + offset - window + 1, 0)", "first + offset - window + 2, 0)", inner
    ),
    "the mask of another head": Planted("inner_gradient", "head // mask_shared", "own", shared),
    "the share of a head": Planted("prefix_gradient", " * weight[:, None]", "", shared),
    "the heads that share keys": Planted("inner_gradient", "own * shared + member", "own * shared", shared),
}


programs, test_the_checks_pass_without_one, test_a_planted_error_is_seen = seen_by(PACKAGE, CHECKS, PLANTED)
