"""Errors planted in the Triton kernels of exact attention: the other tests' checks detect each of them."""

from __future__ import annotations

import pytest
import torch

from tests.attention.exact.triton.test_fused_gradients import (
    fused_gradients_agree,
    fused_here,  # noqa: F401
)
from tests.attention.exact.triton.test_fused_gradients import (
    test_low_scores_do_not_overflow_where_a_query_may_not_attend as low_scores,
)
from tests.attention.exact.triton.test_packed_heads import (
    packed_agree,
    packed_gradients_agree,
)
from tests.attention.exact.triton.test_packed_heads import (
    test_a_prefix_key_of_one_split_outweighs_the_others as outweighs,
)
from tests.attention.exact.triton.test_programs import (
    agree,
    checked,
    small_blocks,  # noqa: F401
    test_heads_that_share_keys,
    transposed_agree,
)
from tests.attention.exact.triton.test_sequences import packed_agree as sequences
from tests.attention.exact.triton.test_size import bounds_agree, rows_agree
from tests.attention.exact.triton.test_size import test_bfloat16_out_of_range_is_nan as check_limits
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


def whole():
    agree(*checked("windows, whole blocks", False, torch.float64), 1e-13)
    agree(*checked("causal, whole blocks", False, torch.float64), 1e-13)


def within():
    agree(*checked("windows, queries within all prefixes", False, torch.float64), 1e-13)


def whole_of_order_4():
    agree(*checked("order 4, whole blocks", False, torch.float64), 1e-13)


def shared():
    test_heads_that_share_keys([2, 1, 7], {}, True)


def fused():
    fused_gradients_agree("earlier queries", masked=True)


def beyond():
    fused_gradients_agree("queries beyond the last prefix key", masked=False)


def packed():
    packed_agree("windows", 3, "keys")


def alone():
    packed_agree("windows", 16, "keys")


def split():
    packed_agree("all", 3, splits=3)


def packed_gradients():
    packed_gradients_agree("whole blocks of keys", 32)


def ranges():
    bounds_agree(torch.float32, order=4, shared=2, masked=True)


def limits():
    check_limits(3, -99, True, True)
    check_limits(1, -55, False, True)


def rows():
    rows_agree(torch.float32, 3)


CHECKS = (
    ranges,
    limits,
    rows,
    windows,
    sets,
    causal,
    inner,
    whole,
    within,
    whole_of_order_4,
    shared,
    transposed_agree,
    fused,
    beyond,
    low_scores,
    packed,
    alone,
    split,
    outweighs,
    packed_gradients,
    sequences,
)
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
    "whole blocks before the window of the last query": Planted(
        "tiles", "low = last + offset - window + 1", "low = first + offset - window + 1", whole
    ),
    "whole blocks beyond the first query": Planted(
        "tiles", "high = tl.minimum(length, first + offset + 1)", "high = tl.minimum(length, last + offset + 1)", whole
    ),
    "whole blocks of queries before a key": Planted(
        "tiles", "low = place + KEYS - 1 - offset", "low = place - offset", whole
    ),
    "whole blocks of queries beyond a window": Planted(
        "tiles", "high = tl.minimum(stop, place - offset + window)", "high = stop", within
    ),
    "the distance of a key within all prefixes": Planted("tiles", "at = step\n", "at = step + 1\n", within),
    "the rows of a tensor that is not contiguous": Planted(
        "copy_sets", "row % length * row_strides[m]", "row % length * column_strides[m]", transposed_agree
    ),
    "the heads of a mask": Planted("copy_sets", "head * (head_strides[m] >> 2)", "head * 0", transposed_agree),
    "sums of a query that may not attend": Planted(
        "attend", "row_sums = tl.where(may[:, None], row_sums, 0.0)", "row_sums = row_sums", whole
    ),
    "a gradient of a query that may not attend": Planted(
        "query_gradient", "row_found = tl.where(may[:, None], row_found, 0.0)", "row_found = row_found", whole
    ),
    "a prefix gradient of a query that may not attend": Planted(
        "prefix_gradient", "row_keys = tl.where(may[:, None], row_keys, 0.0)", "row_keys = row_keys", whole_of_order_4
    ),
    "an inner gradient of a query that may not attend": Planted(
        "inner_gradient", 'tl.where(may, shift, float("inf"))', "shift", whole
    ),
    "the mask of another head": Planted("inner_gradient", "head // mask_shared", "own", shared),
    "the share of a head": Planted("prefix_gradient", " * weight[:, None]", "", shared),
    "partial sums that were not written": Planted("query_prefix_gradient", " & (rows > first)", "", beyond),
    "partial sums of the last step alone": Planted("query_prefix_gradient", "(step > 0) &", "(step < 0) &", fused),
    "the share of a head in partial sums": Planted("query_prefix_gradient", " * weight[:, None]", "", fused),
    "no mask on prefix keys of partial sums": Planted(
        "query_prefix_gradient", "shown(prefix_mask, masked_as, place, prefixes, exists, MASKED)", "exists", fused
    ),
    "the first distance of a block": Planted("query_prefix_gradient", "here - begin - step", "here - step", beyond),
    "partial sums of a query that may not attend": Planted(
        "query_prefix_gradient", "row_keys = tl.where(may[:, None], row_keys, 0.0)", "row_keys = row_keys", low_scores
    ),
    "partial sums of blocks that do not attend": Planted(
        "add_partials", "exists & (rows >= lowest) & (rows <= last + offset)", "exists", beyond
    ),
    "partial sums of the last block": Planted("add_partials", "tl.cdiv(end, QUERIES))", "end // QUERIES)", beyond),
    "partial sums of the first head": Planted("add_partials", "own * shared + member", "own * shared", fused),
    "partial sums of another block": Planted("add_partials", "+ block\n", "+ 0\n", beyond),
    "the mask of another set of factors": Planted("largest", "masks[(m - 1) % SETS]", "masks[0]", ranges),
    "the first mask of heads that share keys": Planted("largest", "range(mask_shared)", "range(1)", ranges),
    "the exponents of another head": Planted(
        "largest", "(tl.program_id(0) // blocks).to(tl.int64) * COLUMNS", "head * COLUMNS", ranges
    ),
    "the smallest exponent": Planted(
        "largest", "tl.max(exponent_of(x.to(wide)), 0)", "tl.min(exponent_of(x.to(wide)), 0)", ranges
    ),
    "exponents of subnormal numbers": Planted("tiles", "- 275", "- 274", rows),
    "products that are zero": Planted("check_range", "tl.where(found < NOTHING // 2, NONE, found)", "found", ranges),
    "a factor too many": Planted("check_range", "(COUNT - 1)", "COUNT", ranges),
    "inner keys among the rows": Planted("check_range", "rows -= inner_keys", "rows -= 0", ranges),
    "the lower limit of values": Planted("check_range", "(product >= value_least)", "(product == product)", limits),
    "the limit of the factors of gradients": Planted(
        "check_range", "(least >= factor_least)", "(least == least)", limits
    ),
    "the gradient of the log-sum-exp": Planted("incoming_rows", " - times_power(of_lse, back)", "", rows),
    "an incoming gradient that is not brought near 1": Planted(
        "incoming_rows", "g = times_power(g, back[:, None])", "g = g", rows
    ),
    "a query with nothing to attend": Planted(
        "incoming_rows", 'attends = log != float("-inf")', "attends = log == log", rows
    ),
    "the power of another head": Planted(
        "incoming_rows", "tl.max(exponent, 0) - NOTHING", "tl.min(exponent, 0) - NOTHING", rows
    ),
    "packed rows position by position in memory": Planted(
        "attend", "rows = rows % shared * queries + rows // shared", "rows = rows", packed
    ),
    "the last position of a packed tile": Planted(
        "attend", "(tl.minimum(begin + QUERIES, length) - 1) // shared", "begin // shared", packed
    ),
    "the first position of all packed tiles": Planted(
        "attend", "rows % shared * queries + first\n", "rows % shared * queries\n", alone
    ),
    "the mask of the first packed head": Planted(
        "attend", "group, group * shared // mask_shared", "group, group * 0", alone
    ),
    "every split makes all steps": Planted(
        "attend", "first_step, steps = split * share", "first_step, steps = 0", split
    ),
    "steps after the last split": Planted("attend", "share = tl.cdiv(steps, splits)", "share = steps // splits", split),
    "the sums of the first split": Planted("merge_splits", "split * heads + head", "head", split),
    "the exponent of a split": Planted("merge_splits", "power(own_peak - base)", "power(peak - base)", outweighs),
    "sums of earlier splits are not scaled": Planted("merge_splits", "weighted * fade[:, None]", "weighted", outweighs),
    "the largest of packed gradients": Planted(
        "query_prefix_gradient", "tl.sum(row_keys, 0)", "tl.max(row_keys, 0)", packed_gradients
    ),
    "packed partial sums of the first heads": Planted(
        "add_partials", "(shared // HEADS) + member", "(shared // HEADS)", packed_gradients
    ),
    "packed partial sums of the first key head": Planted(
        "add_partials", "(own * queries + block)", "block", packed_gradients
    ),
    "the first sequence": Planted("of_sequence", "tl.program_id(1)", "(tl.program_id(1) * 0)", sequences),
    "blocks of shared heads": Planted(
        "of_sequence", "tl.load(row + LENGTH) * PER_ROW", "tl.load(row + LENGTH)", sequences
    ),
    "the heads that share keys": Planted("inner_gradient", "own * shared + member", "own * shared", shared),
}


programs, test_the_checks_pass_without_one, test_a_planted_error_is_detected = seen_by(PACKAGE, CHECKS, PLANTED)
