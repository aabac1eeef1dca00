"""The shipped block sizes, run in Triton's interpreter on sequences of several blocks, against the definition.

Causality, windows and masks end inside blocks, and every loop of every kernel makes several steps.
"""

from __future__ import annotations

import math
from itertools import product

import pytest
import torch

from separatrix.attention import reference
from separatrix.attention.call import Call, check_call
from separatrix.attention.dispatch.gpu import vendor
from separatrix.attention.exact import triton
from separatrix.attention.exact.triton import configurations, launch
from separatrix.attention.exact.triton.configurations import KERNELS, SHIPPED, WIDTHS, kind_of
from tests.attention.arithmetic.test_precision import precision_of
from tests.attention.exact.triton.test_programs import agree, drawn
from tests.contracts.interpreter import interpreted, needs_triton  # noqa: F401

pytestmark = [needs_triton, pytest.mark.usefixtures("interpreted"), pytest.mark.timeout(3600)]

LENGTH = 300
CHUNK = 60
TYPES = {
    "bfloat16": (torch.bfloat16, "ieee", 3e-2),
    "float16": (torch.float16, "ieee", 5e-3),
    "float32": (torch.float32, "ieee", 5e-6),
    "tf32": (torch.float32, "tf32", 5e-6),
    "float64": (torch.float64, "ieee", 1e-12),
}
"""For each kind of product the dtype, the requested precision, and the allowed error."""
CASES = {
    "causal": ((LENGTH, [4, LENGTH]), {"is_causal": True, "query_offset": 1}, False),
    "causal, later queries": ((LENGTH, [4, LENGTH]), {"is_causal": True, "query_offset": 37}, True),
    "windows": ((LENGTH, [LENGTH, LENGTH]), {"windows": [2, 139]}, False),
    "windows, masked": ((LENGTH, [LENGTH, LENGTH]), {"windows": [2, 139]}, True),
    "all": ((LENGTH, [4, LENGTH]), {}, False),
    "all, masked": ((LENGTH, [4, LENGTH]), {}, True),
    "order 4": ((LENGTH, [2, 3, LENGTH]), {"is_causal": True, "windows": [None, 2, 139], "query_offset": 1}, False),
}
ALL = [
    (of, kind, width, case)
    for of, kind, width, case in product(sorted({key[0] for key in SHIPPED}), TYPES, WIDTHS, CASES)
    if (of, KERNELS[0], kind_of(TYPES[kind][0], TYPES[kind][1]), 4 if case == "order 4" else 3) in SHIPPED
]
"""The block sizes of both vendors, and those of architectures that have their own for the order."""
SOME = [
    ("cuda", "float32", 16, "causal, later queries"),
    ("sm_80", "bfloat16", 128, "windows"),
    ("sm_90", "bfloat16", 64, "windows"),
]
"""The cases of every test run; the soak runs all cases."""


def by_definition(leaves, sets, masks, options):
    """Output and log-sum-exp by the definition, for a few queries at a time and the keys that they may attend."""
    query, keys, values = leaves[0], leaves[1 : 1 + sets], leaves[1 + sets :]
    windows, offset = options.get("windows", [None] * sets), options.get("query_offset", 0)
    longest = math.inf if None in windows else max(windows)
    outputs, sums = [], []
    for first in range(0, query.shape[1], CHUNK):
        low = int(max(0, first + offset - longest + 1))
        given = {**options, "query_offset": first + offset - low}
        if masks:
            given["key_masks"] = [mask[:, low:] for mask in masks]
        high = first + offset + CHUNK if longest < math.inf else None
        if masks and high is not None:
            given["key_masks"] = [mask[:, low:high] for mask in masks]
        out, lse = reference.tensor_attention(
            query[:, first : first + CHUNK], [k[:, low:high] for k in keys], [v[:, low:high] for v in values], **given
        )
        outputs.append(out)
        sums.append(lse)
    return torch.cat(outputs, 1), torch.cat(sums, 1)


def check(of, kind, width, case, monkeypatch):
    """Compare outputs and gradients of the kernels, with the blocks of an architecture, with those of the definition.

    An architecture without separate blocks has those of its vendor.
    """
    (queries, lengths), options, masked = CASES[case]
    dtype, precision, error = TYPES[kind]
    use_blocks(of, monkeypatch)
    query, keys, values, generator = drawn(1, queries, lengths, width - 3, width, dtype=dtype)
    masks = [torch.rand(1, length, generator=generator) < 0.7 for length in lengths] if masked else []
    for mask in masks:
        mask[:, 0] = True
    leaves = [x.double().requires_grad_() for x in (query, *keys, *values)]
    out, lse = by_definition(leaves, len(lengths), masks, options)
    grad_out = torch.rand(out.shape, dtype=out.dtype, generator=generator).to(dtype)
    gradients = torch.autograd.grad((out * grad_out).sum(), leaves)
    call = check_call(query, keys, values, **options, **({"key_masks": masks} if masks else {}))
    with precision_of(torch.backends.cuda.matmul, precision):
        found_out, found_lse = triton.forward(call)
        by_query, by_keys, by_values = triton.backward(
            call, found_out, found_lse, grad_out, torch.zeros_like(found_lse)
        )
    found = (found_out, found_lse, by_query, *by_keys, *by_values)
    agree(found, (out.detach(), lse.detach(), *gradients), error)


SHIPPED_AT_FIRST = dict(SHIPPED)


def use_blocks(of, monkeypatch):
    """Use the blocks of an architecture, or those of its vendor if the architecture has none.

    The interpreter looks up the blocks of the vendor of this PyTorch build, and has small blocks for float64.
    """
    owners, tables = ("hip" if of == "hip" else "cuda", of), {"SHIPPED": SHIPPED_AT_FIRST, "SHIPPED_PACKED": PACKED}
    for name, table in tables.items():
        blocks = {}
        for owner in owners:
            blocks |= {(vendor(), *key[1:]): block for key, block in table.items() if key[0] == owner}
        monkeypatch.setattr(configurations, name, blocks)
    monkeypatch.setattr(configurations, "FUSED_ON", (vendor(),))


PACKED = dict(configurations.SHIPPED_PACKED)
GROUPS = [
    (of, kind, width, shared, splits)
    for of in ("sm_90", "sm_80")
    for kind in ("bfloat16", "float32")
    for width in WIDTHS[2:]
    for shared, splits in ((64, 1), (128, 1), (8, 1), (64, 2))
]


def check_packed(of, kind, width, shared, splits, monkeypatch):
    """Query heads that share a head of keys, at the last three positions of a sequence: outputs and gradients."""
    use_blocks(of, monkeypatch)
    monkeypatch.setattr(launch, "splits_of", lambda call, programs: splits)
    dtype, _, error = TYPES[kind]
    options = {"windows": [2, 139], "query_offset": LENGTH - 3}
    query, keys, values, generator = drawn(1, 3, [LENGTH, LENGTH], width - 3, width, 1, shared, dtype)
    leaves = [x.double().requires_grad_() for x in (query, *keys, *values)]
    spread = [x.expand(shared, -1, -1) for x in leaves[1:]]
    out, lse = by_definition([leaves[0], *spread], 2, [], options)
    grad_out = torch.rand(out.shape, dtype=out.dtype, generator=generator).to(dtype)
    gradients = torch.autograd.grad((out * grad_out).sum(), leaves)
    plain = check_call(query, *([x.detach().to(dtype) for x in sets] for sets in (spread[:2], spread[2:])), **options)
    call = Call(query, tuple(keys), tuple(values), (), plain.positions, plain.scale)
    assert launch.is_packed(call)
    found_out, found_lse = triton.forward(call)
    by_query, by_keys, by_values = triton.backward(call, found_out, found_lse, grad_out, torch.zeros_like(found_lse))
    found = (found_out, found_lse, by_query, *by_keys, *by_values)
    agree(found, (out.detach(), lse.detach(), *gradients), error)


@pytest.mark.parametrize(("of", "kind", "width", "shared", "splits"), [("sm_90", "bfloat16", 64, 64, 2)])
def test_packed_blocks_that_ship(of, kind, width, shared, splits, monkeypatch):
    check_packed(of, kind, width, shared, splits, monkeypatch)


@pytest.mark.soak
@pytest.mark.parametrize(("of", "kind", "width", "shared", "splits"), GROUPS)
def test_all_packed_blocks_that_ship(of, kind, width, shared, splits, monkeypatch):
    check_packed(of, kind, width, shared, splits, monkeypatch)


@pytest.mark.parametrize(("of", "kind", "width", "case"), SOME)
def test_blocks_that_ship(of, kind, width, case, monkeypatch):
    check(of, kind, width, case, monkeypatch)


@pytest.mark.soak
@pytest.mark.parametrize(("of", "kind", "width", "case"), ALL)
def test_all_blocks_that_ship(of, kind, width, case, monkeypatch):
    check(of, kind, width, case, monkeypatch)
