"""Score forms against their literal definitions, in every algorithm."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import separatrix as sx
from separatrix import forms
from tests.contracts.literal_forms import SCORES, literal_attention, spread
from tests.draws import draw

MAPS = {"product": forms.product, "pairwise": forms.pairwise, "determinant": forms.determinant}


def inputs(order: int, d: int = 12, lengths: tuple[int, ...] = (5, 4, 6), batch: tuple[int, ...] = (2,)):
    keys = [draw(*batch, length, d, seed=1 + m) for m, length in enumerate(lengths[: order - 1])]
    values = [draw(*batch, length, 3, seed=9 + m) for m, length in enumerate(lengths[: order - 1])]
    return draw(*batch, 7, d), keys, values


@pytest.mark.parametrize("order", [2, 3, 4])
@pytest.mark.parametrize("name", MAPS)
def test_the_product_of_mapped_factors_is_the_form(name, order):
    query, keys, _ = inputs(order)
    mapped = MAPS[name](query, keys)
    expected = SCORES[name](spread(query, keys))
    torch.testing.assert_close(SCORES["product"](spread(*mapped)), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("name", "dimensions"), [("pairwise", [12, 36, 72]), ("determinant", [12, 24, 72])])
def test_mapped_dimensions(name, dimensions):
    mapped = [MAPS[name](*inputs(order)[:2]) for order in (2, 3, 4)]
    assert [query.shape[-1] for query, _ in mapped] == dimensions
    assert [key.shape[-1] for _, keys in mapped for key in keys] == [dimensions[at] for at in (0, 1, 1, 2, 2, 2)]


def test_the_determinant_of_a_block_by_hand():
    """det of the rows (1, 2, 3), (0, 1, 4), (5, 6, 0) is 1 (0 - 24) - 2 (0 - 20) + 3 (0 - 5) = 1."""
    rows = torch.tensor([[[1.0, 2, 3]], [[0.0, 1, 4]], [[5.0, 6, 0]]])
    query, keys = forms.determinant(rows[0], [rows[1], rows[2]])
    assert (query * keys[0] * keys[1]).sum().item() == 1
    swapped, keys = forms.determinant(rows[1], [rows[0], rows[2]])
    assert (swapped * keys[0] * keys[1]).sum().item() == -1


@pytest.mark.parametrize("name", ["pairwise", "determinant"])
@pytest.mark.parametrize("options", [{}, {"is_causal": True, "query_offset": 1}, {"windows": [3, None]}])
def test_attention_of_a_form(name, options):
    query, keys, values = inputs(3, d=6)
    out, lse = sx.tensor_attention(*MAPS[name](query, keys), values, scale=1 / 6, return_lse=True, **options)
    expected, expected_lse = literal_attention(SCORES[name], query, keys, values, **options)
    torch.testing.assert_close(out, expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(lse, expected_lse, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", MAPS)
def test_gradients(name):
    query, keys, values = inputs(3, d=3, lengths=(3, 2), batch=())
    leaves = [x.requires_grad_() for x in (query[:2].clone(), *keys, *values)]

    def attend(q, k1, k2, v1, v2):
        return sx.tensor_attention(*MAPS[name](q, [k1, k2]), [v1, v2], scale=0.5, return_lse=True)

    assert torch.autograd.gradcheck(attend, leaves)


@pytest.mark.parametrize("name", ["pairwise", "determinant"])
def test_certificates_hold_for_the_form(name):
    query, *keys = (0.4 * torch.tanh(draw(2000, 3, seed=seed)) for seed in range(3))
    values = [torch.tanh(draw(2000, 3, seed=seed)) for seed in (3, 4)]
    result = sx.certified_attention(*MAPS[name](query, keys), values, tolerance=1e-4, scale=1 / 3)
    assert result.plan.method == "polynomial"
    expected, lse = literal_attention(SCORES[name], query[:4], keys, values)
    assert (result.output[:4] - expected).abs().max() <= result.certificate.total <= 1e-4
    assert (result.lse[:4] - lse).abs().max() <= result.certificate.lse


def test_a_stream_of_a_form():
    """A state takes mapped keys like any others; its dimension is the mapped one."""
    query, *keys = (torch.tanh(draw(9, 3, seed=seed)) for seed in range(3))
    values = [draw(9, 2, seed=seed) for seed in (3, 4)]
    state = sx.TensorAttentionState(3, 6, 2, bound=1.0, tolerance=1e-6, scale=1 / 3, dtype=torch.float64)
    for start in (0, 4):
        part = slice(start, start + 4 + start)
        _, mapped = forms.determinant(query[:1], [key[part] for key in keys])
        state.append(mapped, [value[part] for value in values])
    mapped, _ = forms.determinant(query, [key[:1] for key in keys])
    expected, _ = literal_attention(SCORES["determinant"], query, keys, values)
    largest = max(value.abs().max() for value in values) ** 2
    assert (state.attend(mapped) - expected).abs().max() <= 1e-6 * largest


def test_weights_of_a_form():
    query, keys, _ = inputs(3, d=6, batch=())
    tops = sx.top_tuples(*forms.determinant(query, keys), k=1, scale=1.0)
    scores = SCORES["determinant"](spread(query, keys)).flatten(1)
    expected = torch.stack(torch.unravel_index(scores.argmax(1), (5, 4)), -1)
    assert torch.equal(tops.indices.squeeze(1), expected)


@pytest.mark.parametrize("order", [2, 3, 4])
def test_a_separable_bias(order):
    query, keys, values = inputs(order, d=4)
    f, *g = (draw(2, x.shape[-2], 3, seed=50 + at) for at, x in enumerate([query, *keys]))
    mapped = forms.with_bias(query, keys, f, g, scale=0.3)
    out, lse = sx.tensor_attention(*mapped, values, scale=0.3, return_lse=True)
    bias = SCORES["product"](spread(f, g))
    expected, expected_lse = literal_attention(SCORES["product"], query, keys, values, scale=0.3, bias=bias)
    torch.testing.assert_close(out, expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(lse, expected_lse, rtol=0, atol=1e-12)


def test_gradients_of_a_separable_bias():
    query, keys, values = inputs(3, d=2, lengths=(3, 2), batch=())
    factors = [draw(x.shape[-2], 2, seed=70 + at).requires_grad_() for at, x in enumerate([query, *keys])]

    def attend(f, g, h):
        return sx.tensor_attention(*forms.with_bias(query, keys, f, [g, h], scale=0.5), values, scale=0.5)

    assert torch.autograd.gradcheck(attend, factors)


def alibi_bias(query: Tensor, keys: list[Tensor], slopes: list[float | Tensor], offset: int) -> Tensor:
    """The bias - sum_m slope_m (i + offset - j_m) of all tuples."""
    total = 0.0
    here = torch.arange(query.shape[-2], dtype=torch.float64) + offset
    for m, (key, slope) in enumerate(zip(keys, slopes, strict=True)):
        distance = here[:, None] - torch.arange(key.shape[-2])
        distance = distance.reshape(-1, *(key.shape[-2] if other == m else 1 for other in range(len(keys))))
        slope = slope[(..., *[None] * (1 + len(keys)))] if isinstance(slope, Tensor) else slope
        total = total - slope * distance
    return total


@pytest.mark.parametrize("order", [2, 3, 4])
@pytest.mark.parametrize("slopes", ["number", "heads", "sets"])
def test_alibi(order, slopes):
    query, keys, values = inputs(order, d=3, lengths=(7, 7, 7), batch=(2, 4))
    given = {"number": 0.4, "heads": forms.alibi_slopes(4), "sets": [0.5, forms.alibi_slopes(4), 0.0][: order - 1]}
    slope = given[slopes]
    mapped = forms.alibi(query, keys, slope, scale=0.3)
    out, lse = sx.tensor_attention(*mapped, values, scale=0.3, is_causal=True, return_lse=True)
    for_sets = slope if isinstance(slope, list) else [slope] * (order - 1)
    bias = alibi_bias(query, keys, for_sets, 0)
    options = {"scale": 0.3, "is_causal": True, "bias": bias}
    expected, expected_lse = literal_attention(SCORES["product"], query, keys, values, **options)
    torch.testing.assert_close(out, expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(lse, expected_lse, rtol=0, atol=1e-12)


def test_alibi_with_an_offset_grouped_heads_and_another_form():
    query, keys, values = inputs(3, d=3, lengths=(9, 9), batch=(4,))
    keys, values = ([x[:2] for x in sets] for sets in (keys, values))
    options = {"scale": 0.3, "is_causal": True, "query_offset": 2, "enable_gqa": True}
    mapped = forms.alibi(*forms.determinant(query, keys), forms.alibi_slopes(4), scale=0.3, query_offset=2)
    out = sx.tensor_attention(*mapped, values, **options)
    bias = alibi_bias(query, keys, [forms.alibi_slopes(4)] * 2, 2)
    expected, _ = literal_attention(SCORES["determinant"], query, keys, values, bias=bias, **options)
    torch.testing.assert_close(out, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("dtype", "error"), [(torch.bfloat16, 2**-8), (torch.float16, 2**-11), (torch.float32, 1e-4)])
def test_alibi_distinguishes_far_positions_in_every_type(dtype, error):
    """bfloat16 represents integers up to 256 only; queries from position 3000 on still distinguish adjacent keys."""
    query, keys = torch.zeros(2, 2, dtype=dtype), [torch.zeros(3002, 2, dtype=dtype)] * 2
    values = [draw(3002, 4, seed=seed, dtype=dtype) for seed in (1, 2)]
    mapped = forms.alibi(query, keys, 0.5, scale=2.0**-6, query_offset=3000)
    options = {"scale": 2.0**-6, "is_causal": True, "query_offset": 3000}
    out, lse = sx.tensor_attention(*mapped, values, **options, windows=[64, 64], return_lse=True)
    distances = torch.arange(64, dtype=torch.float64)
    weights = (-0.5 * distances).exp()
    for i in range(2):
        seen = [value.double()[3000 + i - 63 : 3001 + i].flip(0) for value in values]
        expected = torch.stack([(weights[:, None] * x).sum(0) / weights.sum() for x in seen]).prod(0)
        assert (out[i].double() - expected).abs().max() <= error
        assert lse[i].item() == pytest.approx(2 * weights.sum().log().item(), abs=0.03)


@pytest.mark.parametrize("order", [2, 3, 4])
@pytest.mark.parametrize("name", MAPS)
def test_rotary_scores_depend_on_distances_alone(name, order):
    query, keys, _ = inputs(order, d=12)
    still, moved, shifted = (
        SCORES[name](spread(*forms.rotary(query, keys, form=name, query_start=start, key_start=key_start)))
        for start, key_start in ((0, 0), (321, 321), (0, 1))
    )
    torch.testing.assert_close(still, moved, rtol=0, atol=1e-10)
    assert (still - shifted).abs().max() > 0.1


@pytest.mark.parametrize("order", [3, 4, 5])
def test_rotary_for_the_determinant_rotates_the_planes_of_blocks(order):
    x = draw(4, 2 * order)
    rotated = sx.nn.rotary(x, 1, order, start=5, base=100.0, form="determinant")
    planes = order // 2
    for i in range(4):
        for block in range(2):
            for plane in range(order // 2):
                angle = torch.tensor((5 + i) * 100.0 ** (-(block * planes + plane) / (2 * planes)), dtype=torch.float64)
                at = block * order + 2 * plane
                number = torch.complex(x[i, at], x[i, at + 1]) * torch.polar(torch.ones_like(angle), angle)
                found = torch.complex(rotated[i, at], rotated[i, at + 1])
                assert (found - number).abs() <= 1e-12
            if order % 2:
                assert rotated[i, block * order + order - 1] == x[i, block * order + order - 1]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda q, k: forms.determinant(q, [k, k]), "query: expected a last dimension that is a multiple of 3"),
        (lambda q, k: forms.pairwise(q, []), "keys: expected a tensor"),
        (lambda q, k: forms.pairwise(q, [k, k.float()]), r"keys\[1\]: expected the query's dtype"),
        (lambda q, k: forms.pairwise(q, [k, k[..., :3]]), r"keys\[1\]: expected shape \(..., length, 4\)"),
        (lambda q, k: forms.with_bias(q, k, q, k, scale=0.0), "scale: expected a finite number other than 0"),
        (lambda q, k: forms.with_bias(q, [k, k], q, [k], scale=1.0), "key_factors: expected 2, one for each"),
        (lambda q, k: forms.with_bias(q, k, q, k[..., :2], scale=1.0), r"key_factors\[0\]: expected shape"),
        (
            lambda q, k: forms.alibi(q, [k, k], [1.0], scale=1.0),
            "slopes: expected one for all key sets, or a list of 2",
        ),
        (lambda q, k: forms.alibi(q, k, float("nan"), scale=1.0), r"slopes\[0\]: expected a finite number"),
        (lambda q, k: forms.alibi(q, k, torch.ones(3), scale=1.0), r"slopes\[0\]: expected a number or a tensor that"),
        (lambda q, k: forms.alibi(q.half(), k.half(), 1.0, scale=1.0, query_offset=70000), "positions up to 65504"),
        (lambda q, k: forms.rotary(q, [k, k], form="wedge"), "form: expected 'product', 'pairwise' or 'determinant'"),
        (lambda q, k: forms.rotary(q, [k, k], form="determinant"), "x: expected .* a multiple of 3"),
        (lambda q, k: forms.rotary(q[..., :3], k[..., :3], base=0.0), "base: expected a positive finite number"),
    ],
)
def test_bad_arguments(call, message):
    with pytest.raises(sx.ArgumentError, match=message):
        call(draw(2, 5, 4), draw(2, 6, 4))
