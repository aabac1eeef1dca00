"""The bound on the error of exact attention holds wherever a result is returned."""

from __future__ import annotations

import math
import random
from collections import Counter

import mpmath
import pytest
import torch

import separatrix as sx
from separatrix.attention import reference
from tests.attention.exact import rational
from tests.contracts.attention_contract import draw
from tests.contracts.engines import engine  # noqa: F401
from tests.pairwise import pairwise

EXPONENTS = {torch.float64: 1000, torch.float32: 120, torch.bfloat16: 120, torch.float16: 14}
"""Magnitudes are drawn between 2^-n and 2^n for this n."""


def wild(chance: random.Random, dtype: torch.dtype, most: float, *shape: int) -> torch.Tensor:
    """Numbers of one magnitude, of one magnitude per column, or of all magnitudes; or a single constant, which may be
    0.
    """
    generator = torch.Generator().manual_seed(chance.randrange(2**31))
    x = torch.randn(shape, dtype=torch.float64, generator=generator)
    kind = chance.choice(["ordinary", "one size", "one size", "columns", "entries", "constant"])
    sizes = {"one size": (1, 1), "columns": (1, shape[-1]), "entries": shape, "constant": (1, 1)}.get(kind)
    if kind == "constant":
        x = torch.full(shape, chance.choice([-1.0, 0.0, 1.0]), dtype=torch.float64)
    if sizes is not None:
        x = x * torch.exp2(most * (2 * torch.rand(sizes, dtype=torch.float64, generator=generator) - 1))
    end = torch.finfo(dtype).max
    return x.clamp(-end, end).to(dtype)


def draw_call(seed: int):
    """A call of one head, or of two that share their keys, usually with a scale that makes the scores moderate."""
    chance = random.Random(seed)
    dtype, order, d = chance.choice([*EXPONENTS]), chance.choice([2, 2, 3, 4, 5]), chance.randint(1, 3)
    d_v = chance.choice([d, chance.randint(1, 2)])
    is_causal, offset, query_length = chance.random() < 0.3, chance.choice([0, 0, 1, -1]), chance.randint(1, 3)
    longest = {2: chance.choice([5, 20]), 3: 4}.get(order, 3)
    lengths = [chance.randint(1, longest) for _ in range(order - 1)]
    if is_causal and offset == 0:
        lengths = [query_length] * (order - 1)
    most = EXPONENTS[dtype] / chance.choice([1, order])
    query = torch.stack([wild(chance, dtype, most, query_length, d) for _ in range(chance.choice([1, 1, 2]))])
    keys = [wild(chance, dtype, most, length, d).unsqueeze(0) for length in lengths]
    values = [wild(chance, dtype, most, length, d_v).unsqueeze(0) for length in lengths]
    masks = [torch.tensor([chance.random() < 0.7 for _ in range(length)]) for length in lengths]
    windows = [chance.choice([None, 1, 2]) for _ in lengths]
    sizes = [float(x.double().abs().max()) for x in (query, *keys)]
    exponent = chance.uniform(-5, 8) - sum(math.log2(size) for size in sizes if size)
    scale = chance.choice([-1.0, 1.0]) * 2.0 ** (
        exponent if abs(exponent) < 1000 and chance.random() < 0.8 else chance.uniform(-200, 200)
    )
    options = {"is_causal": is_causal, "query_offset": offset, "scale": scale, "enable_gqa": True}
    if chance.random() < 0.2:
        options["key_masks"] = masks
    if chance.random() < 0.2:
        options["windows"] = windows
    return query, keys, values, options


def check(seed: int) -> str:
    """The outcome of a call: "refused" or "answered"; an answer must be within its bounds."""
    query, keys, values, options = draw_call(seed)
    return_lse = seed % 2 == 1
    try:
        output = sx.tensor_attention(query, keys, values, return_lse=return_lse, **options)
    except sx.SeparatrixError as error:
        return "refused" if str(error).startswith(("query (", "keys[", "values", "scale (")) else f"{seed}: {error}"
    bound = sx.exact_error_bound(query, keys, values, return_lse=return_lse, **options)
    (out, lse), (out_bound, lse_bound) = (output, bound) if return_lse else ((output, None), (bound, None))
    del options["enable_gqa"]
    for head in range(len(query)):
        sets = ([x[0] for x in keys], [x[0] for x in values])
        expected, expected_lse = rational.attention(query[head], *sets, **options)
        with mpmath.workdps(50):
            for i, row in enumerate(expected):
                error = max(abs(mpmath.mpf(x) - y) for x, y in zip(out[head, i].tolist(), row, strict=True))
                assert error <= out_bound[head, i].item(), seed
                if lse is not None and expected_lse[i] == mpmath.mpf("-inf"):
                    assert lse[head, i].item() == -math.inf, seed
                elif lse is not None:
                    assert abs(mpmath.mpf(lse[head, i].item()) - expected_lse[i]) <= lse_bound[head, i].item(), seed
    return "answered"


def test_wildly_scaled_calls_are_right_or_refused():
    """Of 400 draws, which are the same in every run, most are answered, for each dtype and order."""
    came = Counter()
    for seed in range(400):
        query, keys, *_ = draw_call(seed)
        came[query.dtype, len(keys) + 1, check(seed)] += 1
    assert {what for *_, what in came} == {"answered", "refused"}
    for dtype in EXPONENTS:
        for order in (2, 3, 4, 5):
            answered, refused = (came[dtype, order, what] for what in ("answered", "refused"))
            assert answered >= 10
            assert answered > refused


@pytest.mark.soak
@pytest.mark.timeout(5400)
def test_many_wildly_scaled_calls_are_right_or_refused():
    came = Counter(check(seed) for seed in range(1000, 51_000))
    assert set(came) == {"answered", "refused"}
    assert came["answered"] > 35_000


@pytest.mark.parametrize(
    ("dtype", "length", "size", "options"),
    pairwise(
        [torch.float32, torch.bfloat16, torch.float16],
        [33, 600],
        [0.3, 5.0, 60.0],
        [{}, {"is_causal": True}, {"return_lse": True}],
    ),
)
def test_pairs_of_many_keys(dtype, length, size, options):
    """The fused kernel, several of its blocks, and our kernels, against float64, whose error is negligible here.

    The last head's keys have equal scores except one that is far larger: float16 loses the weights of the others.
    """
    query, key, value = draw(0, 3, 3, length, 8)
    query, key = size * query, 2 * key
    query[2], key[2], value[2] = 1.0, -2.0, 1.0
    key[2, 5] = 0.0
    value[2, 5] = 0.9
    query, key, value = (x.to(dtype) for x in (query, key, value))
    causal = options.get("is_causal", False)
    output = sx.tensor_attention(query, key, value, scale=1.0, **options)
    bound = sx.exact_error_bound(query, key, value, scale=1.0, **options)
    expected = reference.tensor_attention(query.double(), [key.double()], [value.double()], scale=1.0, is_causal=causal)
    pairs = zip(output, bound, expected, strict=True) if options.get("return_lse") else [(output, bound, expected[0])]
    for x, most, y in pairs:
        error = (x.double() - y).abs()
        error = error.amax(-1) if error.dim() == 3 else error
        assert (error <= most).all()


@pytest.mark.parametrize("order", [2, 3])
def test_large_scores_with_small_differences(order):
    """Scores of some 10^4 have three digits after the point in float32, and differ by about 1."""
    for seed in range(10):
        query, *keys = (30 * (1 + 1e-4 * draw(seed + m, 3, 4)).float() for m in range(order))
        values = [draw(20 + seed + m, 3, 2).float() for m in range(order - 1)]
        scale = 10.0 / 30 ** (order - 2)
        out, _ = sx.tensor_attention(query, keys, values, scale=scale, return_lse=True)
        bound, _ = sx.exact_error_bound(query, keys, values, scale=scale, return_lse=True)
        expected, _ = rational.attention(query, keys, values, scale=scale)
        truth = torch.tensor([[float(x) for x in row] for row in expected], dtype=torch.float64)
        assert ((out.double() - truth).abs().amax(-1) <= bound).all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_types_round_the_weights_of_pairs(dtype):
    """Hundreds of weights just above 1/2 are all rounded down in the numerator but not in the denominator."""
    worst = 0.0
    for part in range(1, 64):
        weight = 0.5 * (1 + part / 64 * torch.finfo(dtype).eps / 2)
        query, value = torch.ones(1, 1, 1, 1, dtype=dtype), torch.full((1, 1, 600, 1), 1.5, dtype=dtype)
        key = torch.ones_like(value)
        key[..., 0, :] = 0.0
        output = sx.tensor_attention(query, key, value, scale=math.log(weight))
        bound = sx.exact_error_bound(query, key, value, scale=math.log(weight))
        worst = max(worst, abs(output.item() - 1.5) / bound.item())
    assert worst <= 1


def test_float16_loses_tiny_weights_of_pairs():
    """In the numerator float16 rounds 65536 weights below 2^-25 to 0, which are 1/500 of the total weight."""
    query, value = torch.ones(1, 1, 1, 1, dtype=torch.float16), torch.ones(1, 1, 2**16, 1, dtype=torch.float16)
    key = torch.full_like(value, -17.34375)
    key[..., 0, :] = 0.0
    output = sx.tensor_attention(query, key, value, scale=1.0)
    assert abs(output.item() - 1) <= sx.exact_error_bound(query, key, value, scale=1.0).item()


def test_the_bound_is_tight_enough_to_be_useful():
    """The bound for ordinary numbers is a few digits, and smaller where all scores are equal."""
    query, key1, key2, value1, value2 = draw(0, 5, 2, 60, 16).float()
    bound = sx.exact_error_bound(query, [key1, key2], [value1, value2])
    assert bound.max() < 1e-3
    double = sx.exact_error_bound(*(x.double() for x in (query, key1, value1)))
    assert double.max() < 1e-12
    assert sx.exact_error_bound(query.bfloat16(), key1.bfloat16(), value1.bfloat16()).max() < 2e-2


def test_the_bound_is_at_most_the_range_of_the_values():
    query, key, value = draw(0, 3, 4, 3).float()
    bound = sx.exact_error_bound(1e8 * query, 1e8 * key, value)
    assert bound.max() < 1.1 * (value.amax(0) - value.amin(0)).max()


def test_shapes():
    query, keys, values = draw(0, 3, 4, 5, 2), [draw(1, 3, 2, 6, 2)] * 2, [draw(2, 3, 2, 6, 3)] * 2
    out, lse = sx.exact_error_bound(query, keys, values, enable_gqa=True, return_lse=True)
    assert out.shape == lse.shape == (3, 4, 5)
    assert out.dtype == lse.dtype == torch.float64
    assert sx.exact_error_bound(query[..., :0, :], keys, values, enable_gqa=True).shape == (3, 4, 0)
    nothing = sx.exact_error_bound(
        query, [key[..., :0, :] for key in keys], [x[..., :0, :] for x in values], enable_gqa=True
    )
    assert torch.equal(nothing, torch.zeros(3, 4, 5, dtype=torch.float64))


def test_masked_values_do_not_count():
    query, key, value = draw(0, 3, 1, 4, 2)
    mask = torch.tensor([True, False, True, True])
    plain = sx.exact_error_bound(query, key, value, key_masks=mask)
    value[0, 1], key[0, 1] = 1e9, math.nan
    assert torch.equal(plain, sx.exact_error_bound(query, key, value, key_masks=mask))


@pytest.mark.parametrize(("m", "name"), [(0, "query"), (1, r"keys\[0\]"), (2, r"values\[0\]")])
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_no_bound_without_finite_numbers(m, name, bad):
    tensors = [*draw(0, 3, 1, 4, 2)]
    tensors[m][0, 1, 1] = bad
    with pytest.raises(sx.ArgumentError, match=f"^{name}: expected finite entries .* got NaN or infinity"):
        sx.exact_error_bound(*tensors)


def test_no_bound_for_products_of_lower_precision():
    query, key, value = draw(0, 3, 1, 4, 2)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        assert torch.isfinite(sx.exact_error_bound(query, key, value)).all()
        with pytest.raises(sx.SeparatrixError, match=r"^torch.set_float32_matmul_precision: .* or pass float64"):
            sx.exact_error_bound(query.float(), key.float(), value.float())
    finally:
        torch.set_float32_matmul_precision(before)


def test_no_bound_for_fused_kernels_elsewhere():
    tensors = [torch.empty(1, 2, 4, 3, device="meta") for _ in range(3)]
    with pytest.raises(
        sx.SeparatrixError, match=r"^query: on a device of type meta order 2 is computed by a fused kernel"
    ):
        sx.exact_error_bound(*tensors)
