"""Products of bfloat16 in the kernels: what is rounded, for which queries, and the error of the rest.

A library that was built with SEPARATRIX_LOWERED has kernels with emulated instructions, which every processor runs.
"""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional as F

import separatrix as sx
from separatrix.attention import reference
from separatrix.attention.call import check_call
from separatrix.attention.exact import native as native_backend
from separatrix.native import native, runnable

LIBRARY = native().library
NAMES = [name for name in runnable(LIBRARY) if name.endswith(("_bf16", "_amx"))] if LIBRARY else []
UNIT = torch.finfo(torch.bfloat16).eps / 2

pytestmark = pytest.mark.skipif(not NAMES, reason="The processor has no products of bfloat16.")


@pytest.fixture(autouse=True, params=NAMES)
def _architecture(request):
    chosen = LIBRARY.separatrix_chosen()
    assert LIBRARY.separatrix_choose(request.param.encode()) == 0
    yield
    assert LIBRARY.separatrix_choose(chosen) == 0


def drawn(lengths, d, d_v=None, query_length=20, size=1.0, heads=2):
    """A query, keys and values in bfloat16, (heads, length, columns) each."""
    generator = torch.Generator().manual_seed(sum(lengths) + d)

    def some(length, columns):
        return (size * torch.randn(heads, length, columns, generator=generator)).bfloat16()

    query, keys = some(query_length, d), [some(n, d) for n in lengths]
    return query, keys, [some(n, d_v or d) / size for n in lengths]


def rounded(x):
    return x.to(torch.bfloat16).double()


LETTERS = "uvwxyz"


def literal(query, keys, values, scale, inner, is_narrow, mask):
    """Output and log-sum-exp by the definition in float64, with the kernels' roundings to bfloat16.

    No maximum is subtracted.
    """
    query, keys, values = query.double(), [x.double() for x in keys], [x.double() for x in values]
    letters = LETTERS[: len(keys)]
    prefix = [m for m in range(len(keys)) if m != inner]
    terms = ",".join(f"h{letters[m]}l" for m in prefix)
    outer = "".join(letters[m] for m in prefix)
    left = torch.einsum(f"hql,{terms}->hq{outer}l", scale / math.log(2) * query, *(keys[m] for m in prefix))
    left = rounded(left) if is_narrow else left
    S = torch.einsum(f"hq{outer}l,h{letters[inner]}l->hq{letters}", left, keys[inner])
    E = rounded(torch.exp2(S)) * mask
    total = E.flatten(2).sum(-1)
    terms = ",".join(f"h{letter}c" for letter in letters)
    return torch.einsum(f"hq{letters},{terms}->hqc", E, *values) / total.unsqueeze(-1), total.log()


def visible(query, keys, options):
    """Which keys of each set a query may attend, (L_q, L_m) each, as 0 and 1."""
    i = torch.arange(query.shape[1]) + options.get("query_offset", 0)
    masks = []
    for key, window in zip(keys, options.get("windows", [None] * len(keys)), strict=True):
        behind = i.unsqueeze(1) - torch.arange(key.shape[1])
        seen = torch.ones_like(behind, dtype=torch.bool)
        if options.get("is_causal") or window is not None:
            seen &= behind >= 0
        if window is not None:
            seen &= behind < window
        masks.append(seen.double())
    return masks


def allowed(masks):
    """Which tuples a query may attend, (1, L_q, L_1, ...), as 0 and 1."""
    letters = LETTERS[: len(masks)]
    return torch.einsum(",".join(f"q{letter}" for letter in letters) + f"->q{letters}", *masks).unsqueeze(0)


def score_sizes(query, keys, scale, masks):
    """A bound on the scores of each query, and their mean square if terms had random signs; (H, L_q) each."""
    bound, square = (scale * query.double()).abs(), (scale * query.double()) ** 2
    for key, mask in zip(keys, masks, strict=True):
        bound = bound * (mask.unsqueeze(-1) * key.double().abs().unsqueeze(1)).amax(2)
        square = square * torch.einsum("qa,hal->hql", mask / mask.sum(-1, keepdim=True), key.double() ** 2)
    return bound.sum(-1), square.sum(-1)


CASES = {
    "two sets": ((70, 90), 16, {}),
    "odd numbers": ((65, 77), 7, {}),
    "one column": ((3, 131), 1, {}),
    "causal": ((80, 80), 33, {"is_causal": True, "query_offset": 51}),
    "windows": ((80, 80), 24, {"windows": [13, 38], "query_offset": 56}),
    "short windows": ((40, 40), 9, {"windows": [5, 1], "query_offset": 17}),
    "three sets": ((9, 11, 37), 12, {}),
    "several chunks": ((5, 700), 40, {}),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("size", [0.1, 1.0])
def test_the_kernels_round_only_the_documented_products(case, size):
    """Products of query and keys may be rounded if typical scores are below 1, and not if they are larger."""
    lengths, d, options = CASES[case]
    query, keys, values = drawn(lengths, d, d_v=d + 3)
    scale = size / math.sqrt(d)
    call = check_call(query, keys, values, scale=scale, **options)
    assert native_backend.summation(call, torch.bfloat16).operand_unit == UNIT
    out, lse = native_backend.forward(call)
    exact, exact_lse = reference.tensor_attention(
        query.double(), [x.double() for x in keys], [x.double() for x in values], scale=scale, **options
    )
    masks = visible(query, keys, options)
    reach = [int(mask.sum(-1).max()) for mask in masks]
    inner = max(range(len(keys)), key=lambda m: (reach[m], m))
    bound, square = score_sizes(query, keys, scale, masks)
    # Other queries have a maximum subtracted before their weights are rounded.
    as_they_are = bound / math.log(2) * 1.02 + math.log2(math.prod(reach)) + 2 < 60
    assert as_they_are.double().mean() > 0.2
    assert size != 1.0 or 0 < (square <= 1).double().mean() < 1
    either = [literal(query, keys, values, scale, inner, is_narrow, allowed(masks)) for is_narrow in (True, False)]
    expected = torch.where((square <= 1).unsqueeze(-1), either[0][0], either[1][0])
    expected_lse = torch.where(square <= 1, either[0][1], either[1][1])
    other_lse = torch.where(square > 1, either[0][1], either[1][1])
    assert (out.double() != rounded(expected))[as_they_are].double().mean() < 0.02
    error, of_exact, of_other = ((lse.double() - x).abs()[as_they_are] for x in (expected_lse, exact_lse, other_lse))
    assert error.median() < 1e-6 * (1 + exact_lse.abs().max())
    assert error.median() < 0.2 * of_exact.median()
    if math.prod(reach) > 100:  # a query of few tuples has weights that both computations round to the same number
        assert error.median() < 0.2 * of_other.median()
    bounds = sx.exact_error_bound(query, keys, values, scale=scale, return_lse=True, **options)
    assert ((out.double() - exact).abs().amax(-1) <= bounds[0]).all()
    assert ((lse.double() - exact_lse).abs() <= bounds[1]).all()


def test_large_scores_are_computed_in_float32():
    """If one tuple has most of the weight, an error of 2^-8 of the scores could select another tuple."""
    query, keys, values = drawn((70, 80), 16, size=4.0)
    out = sx.tensor_attention(query, keys, values, scale=1.0).double()
    wide = [query.double(), [x.double() for x in keys], [x.double() for x in values]]
    exact = reference.tensor_attention(*wide, scale=1.0)[0]
    assert (out - exact).norm() <= 2 * UNIT * exact.norm()


@pytest.mark.parametrize("std", [0.1, 1.0])
def test_errors_are_no_larger_than_twice_those_of_fused_attention(std):
    """Errors of order 3 are at most twice those of PyTorch's attention with as many keys and as large scores."""
    d, n = 32, 80
    query, keys, values = drawn((n, n), d, query_length=40)
    scale = std / math.sqrt(d)

    def relative(found, exact):
        return float((found.double() - exact).norm() / exact.norm())

    exact = reference.tensor_attention(
        query.double(), [x.double() for x in keys], [x.double() for x in values], scale=scale
    )[0]
    ours = relative(sx.tensor_attention(query, keys, values, scale=scale), exact)
    other, (key,), (value,) = drawn((n * n,), d, query_length=40)
    weights = torch.softmax(scale * other.double() @ key.double().mT, -1)
    fused = F.scaled_dot_product_attention(*(x.unsqueeze(0) for x in (other, key, value)), scale=scale)[0]
    assert ours <= 2 * relative(fused, weights @ value.double())


def test_hidden_keys_do_not_decide_how_weights_are_rounded():
    """Keys hidden by causality are so large that queries that can attend them compute scores in float32."""
    query, keys, values = drawn((80, 80), 16, query_length=80)
    before = sx.tensor_attention(query, keys, values, is_causal=True)
    later = [torch.cat([x[:, :60], 64 * x[:, 60:]], 1) for x in keys]
    after = sx.tensor_attention(query, later, values, is_causal=True)
    assert torch.equal(before[:, :60], after[:, :60])
    assert not torch.equal(before[:, 60:], after[:, 60:])


def test_relevant_numbers_are_not_flushed():
    """Values near the smallest positive numbers are multiplied in float32, where subnormal numbers are kept."""
    query, keys, values = drawn((70, 80), 8)
    tiny = [values[0] * 2.0**100, values[1] * 2.0**-130]
    assert bool((tiny[1] != 0).any())
    out = sx.tensor_attention(query, keys, tiny).double()
    exact = reference.tensor_attention(query.double(), [x.double() for x in keys], [x.double() for x in tiny])[0]
    bound = sx.exact_error_bound(query, keys, tiny)
    assert ((out - exact).abs().amax(-1) <= bound).all()
    assert (out - exact).norm() <= UNIT * exact.norm()


@pytest.mark.parametrize("which", ["query", "keys", "values"])
def test_nan_is_propagated(which):
    query, keys, values = drawn((70, 80), 8)
    place = {"query": query, "keys": keys[1], "values": values[0]}[which]
    place[1, 3, 2] = math.nan
    out = native_backend.forward(check_call(query, keys, values))[0]
    assert bool(out[0].isfinite().all())
    shows = {"query": out[1, 3], "keys": out[1], "values": out[1, :, 2]}[which]
    assert bool(shows.isnan().all())


def test_threads_give_the_same_bits():
    query, keys, values = drawn((90, 100), 16, heads=5)
    threads = torch.get_num_threads()
    results = []
    for count in (1, 3):
        torch.set_num_threads(count)
        results.append(sx.tensor_attention(query, keys, values, is_causal=True, query_offset=60, return_lse=True))
    torch.set_num_threads(threads)
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


def test_a_tolerance_is_kept_in_float32():
    """A certified call is computed in float32: its output and its gradient are rounded to bfloat16 once."""
    query, keys, values = drawn((70, 80), 8)
    out = sx.tensor_attention(query, keys, values, tolerance=0.1, method="exact")
    wide = sx.tensor_attention(query.float(), [x.float() for x in keys], [x.float() for x in values])
    assert torch.equal(out, wide.bfloat16())
