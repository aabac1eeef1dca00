"""The matching head: its form, its numbers, and every decision."""

from __future__ import annotations

import itertools
import math
import re
from pathlib import Path

import mpmath
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from separatrix import hardness
from separatrix.attention import reference
from separatrix.errors import ArgumentError
from separatrix.hardness import match_construction as construction
from separatrix.hardness.match_instances import adversarial_instances, planted_instances, uniform_instances
from separatrix.hardness.match_margin import Sharpness, frequencies, largest_modulus, margin, resolution, sharpness
from separatrix.hardness.matching import match_by_definition, match_labels

DTYPES = [torch.float32, torch.float64]


def all_instances(modulus: int, n: int) -> torch.Tensor:
    return torch.cartesian_prod(*[torch.arange(modulus)] * n).reshape(-1, n)


def check_decisions(x: torch.Tensor, modulus: int, order: int, count: int, dtype: torch.dtype) -> torch.Tensor:
    out = construction.match_outputs(x, modulus, order, frequencies=count, dtype=dtype)
    assert out.dtype == dtype
    labels = match_labels(x, modulus, order)
    assert torch.equal(out > 0.5, labels)
    if labels.any():
        assert float(out[labels].min()) >= 16 / 21 - 0.05
    if not labels.all():
        assert float(out[~labels].max()) <= 1 / 5 + 0.05
    return labels


@pytest.mark.parametrize("order", [2, 3, 4, 5, 6])
def test_the_cosine_of_a_sum_is_a_form_of_k_coordinates(order: int) -> None:
    a = [mpmath.mpf(7 * m + 3) / 5 for m in range(order)]
    with mpmath.workdps(50):
        terms = [(-1) ** p * mpmath.fprod(mpmath.cos(x + mpmath.pi * p / order) for x in a) for p in range(order)]
        total = mpmath.mpf(2) ** (order - 1) / order * mpmath.fsum(terms)
        assert abs(total - mpmath.cos(mpmath.fsum(a))) < mpmath.mpf(10) ** -45


def test_two_coordinates_are_too_few_for_three_angles() -> None:
    """If cos(a + b + c) were a form of 2 coordinates, the quotient of its slices would have real eigenvalues."""
    at_cosine, at_sine = torch.tensor([[1.0, 0.0], [0.0, -1.0]]), torch.tensor([[0.0, -1.0], [-1.0, 0.0]])
    b, c = (torch.tensor([math.cos(x), math.sin(x)]) for x in (0.3, 1.1))
    for a in (0.7, 2.0):
        form = math.cos(a) * b @ at_cosine @ c + math.sin(a) * b @ at_sine @ c
        assert float(form) == pytest.approx(math.cos(a + 0.3 + 1.1), abs=1e-6)
    values = torch.linalg.eigvals(torch.linalg.solve(at_cosine, at_sine))
    assert sorted(values.imag.tolist()) == [-1.0, 1.0]


@pytest.mark.parametrize("order", [2, 3, 4, 5])
def test_the_terms_of_a_score_add_up_to_no_more_than_sigma(order: int) -> None:
    """sigma is reached where all angles are equal, at orders 2 to 5 for some angle on a grid, and never exceeded."""
    generator = torch.Generator().manual_seed(0)
    equal = torch.linspace(0, math.pi, 20_001, dtype=torch.float64).expand(order, -1)
    free = 7 * torch.rand(order, 50_000, generator=generator, dtype=torch.float64)
    a = torch.cat([equal, free], 1)
    phases = math.pi * torch.arange(order, dtype=torch.float64) / order
    total = 2 ** (order - 1) / order * (a.unsqueeze(-1) + phases).cos().abs().prod(0).sum(-1)
    even = [order, order] if order % 2 == 0 else [order - 1, order + 1]
    sigma = math.sqrt(math.prod(math.comb(p, p // 2) for p in even)) / 2
    assert float(total.max()) <= sigma * (1 + 1e-12)
    assert float(total.max()) > sigma * (0.999 if order < 5 else 0.99)


@pytest.mark.parametrize("modulus", [2, 3, 4, 7, 50, 97, 1000])
def test_the_margin_of_one_frequency_is_exact(modulus: int) -> None:
    least = min(1 - math.cos(2 * math.pi * s / modulus) for s in range(1, modulus))
    assert margin(modulus) == pytest.approx(least, rel=1e-9)
    assert margin(modulus) <= 2 * math.pi**2 / modulus**2


def test_the_margin_tends_to_its_limit() -> None:
    assert margin(10**6) * 10**12 == pytest.approx(2 * math.pi**2, rel=1e-10)


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("modulus", [130, 255, 256, 1009, 4096, 10_000])
def test_no_sum_is_nearer_than_the_margin(modulus: int, count: int) -> None:
    s = torch.arange(1, modulus)
    multiples = s.unsqueeze(1) * torch.tensor(frequencies(modulus, count)) % modulus
    score = construction.unit_circle(multiples, modulus)[0].mean(1)
    assert len(frequencies(modulus, count)) == count
    assert float(score.max()) <= 1 - margin(modulus, count) * (1 - 1e-9)
    assert float(score.max()) >= 1 - 12 * margin(modulus, count)


@pytest.mark.parametrize("denominator", [1, 3, 8, 360, 12_345, 6 * 25_000_000])
def test_cosines_and_sines_to_four_units(denominator: int) -> None:
    step = max(1, denominator // 97)
    p = torch.arange(0, denominator, step)
    c, s = construction.unit_circle(p, denominator)
    with mpmath.workdps(40):
        for numerator, found_c, found_s in zip(p.tolist(), c.tolist(), s.tolist(), strict=True):
            angle = 2 * mpmath.mpf(numerator) / denominator
            for computed, true in ((found_c, mpmath.cospi(angle)), (found_s, mpmath.sinpi(angle))):
                assert abs(computed - true) <= 4 * mpmath.mpf(2) ** -53 * abs(true)


@pytest.mark.parametrize(("modulus", "n"), [(2, 1), (2, 4), (3, 4), (4, 4), (5, 4), (6, 3), (9, 3), (17, 2), (40, 1)])
@pytest.mark.parametrize("order", [2, 3, 4])
def test_every_small_instance_is_decided(modulus: int, n: int, order: int) -> None:
    x = all_instances(modulus, n)
    for dtype in DTYPES:
        labels = check_decisions(x, modulus, order, 1, dtype)
    assert torch.equal(labels, torch.stack([match_by_definition(row, modulus, order) for row in x]))


@pytest.mark.parametrize(("modulus", "n", "count"), [(6, 3, 2), (9, 3, 3), (16, 2, 5)])
def test_every_small_instance_is_decided_with_more_frequencies(modulus: int, n: int, count: int) -> None:
    for order, dtype in itertools.product((2, 3), DTYPES):
        check_decisions(all_instances(modulus, n), modulus, order, count, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["uniform", "planted", "adversarial"])
def test_a_hundred_tokens_at_the_largest_modulus(dtype: torch.dtype, kind: str) -> None:
    for order in (2, 3):
        for count in (1, 2):
            modulus = largest_modulus(order, count, dtype)
            generator = torch.Generator().manual_seed(order)
            if kind == "uniform":
                x = uniform_instances(2, 100, modulus, generator=generator)
            elif kind == "planted":
                x = planted_instances(2, 100, modulus, order, generator=generator)[0]
            else:
                x = adversarial_instances(100, modulus, order)
            labels = check_decisions(x, modulus, order, count, dtype)
            assert kind == "uniform" or 0 < int(labels.sum()) < labels.numel()


@pytest.mark.parametrize("modulus", [1000, 1999, 2000])
def test_moduli_to_two_thousand_hold_in_float32(modulus: int) -> None:
    x = torch.cat(
        [
            adversarial_instances(150, modulus, 3),
            planted_instances(4, 150, modulus, 3, generator=torch.Generator().manual_seed(0))[0],
        ]
    )
    check_decisions(x, modulus, 3, 1, torch.float32)


def test_order_four() -> None:
    x = torch.cat(
        [uniform_instances(2, 24, 5000, generator=torch.Generator().manual_seed(0)), adversarial_instances(24, 5000, 4)]
    )
    labels = check_decisions(x, 5000, 4, 1, torch.float64)
    assert 0 < int(labels[:2].sum()) < 48


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_any_instance_is_decided(data: st.DataObject) -> None:
    order = data.draw(st.integers(2, 4))
    count = data.draw(st.integers(1, 3))
    dtype = data.draw(st.sampled_from(DTYPES))
    modulus = data.draw(st.integers(4, largest_modulus(order, count, dtype)))
    near = st.integers(-3, 3).map(lambda v: (v + data.draw(st.sampled_from([0, modulus // 2, modulus // 3]))) % modulus)
    tokens = data.draw(st.lists(st.one_of(st.integers(0, modulus - 1), near), min_size=1, max_size=6))
    check_decisions(torch.tensor(tokens), modulus, order, count, dtype)


@pytest.mark.parametrize(("order", "count"), [(2, 1), (3, 1), (3, 3), (4, 2)])
def test_features_are_bounded_by_B_and_score_the_sum(order: int, count: int) -> None:
    modulus, n = 60, 5
    x = uniform_instances(1, n, modulus, generator=torch.Generator().manual_seed(0))[0]
    sharp = sharpness(n, modulus, order, count)
    query, keys, values = construction.match_features(x, modulus, order, count, sharp)
    assert query.shape == (n, order * count + 1)
    assert [key.shape for key in keys] == [(n + 1, order * count + 1)] * (order - 1)
    zero = construction.match_features(torch.zeros(1, dtype=torch.int64), modulus, order, count, sharp)[1][0]
    assert float(zero.abs().max()) == pytest.approx(sharp.entry_bound, rel=1e-12)
    assert max(float(part.abs().max()) for part in (query, *keys)) <= sharp.entry_bound * (1 + 1e-12)
    scores = reference.tensor_scores(query, keys, 1.0).reshape(n, *[n + 1] * (order - 1))
    for at in itertools.product(range(n), *[range(n + 1)] * (order - 1)):
        blanks = sum(j == n for j in at[1:])
        total = int(x[at[0]]) + sum(int(x[j]) for j in at[1:] if j < n)
        C = sum(math.cos(2 * math.pi * f * total / modulus) for f in frequencies(modulus, count)) / count
        wanted = sharp.inverse_temperature * C if blanks == 0 else sharp.blank if blanks == order - 1 else 0.0
        assert float(scores[at]) == pytest.approx(wanted, abs=1e-10 * sharp.inverse_temperature)
    weights = torch.stack([value[..., 0] for value in values])
    assert weights.tolist() == [[1.0] * n + [0.0]] * (order - 1)


@pytest.mark.parametrize(("order", "count"), [(2, 1), (3, 1), (3, 2), (4, 3)])
def test_the_layer_with_the_weights_written_in_is_the_head(order: int, count: int) -> None:
    modulus, n = 35, 7
    x = uniform_instances(6, n, modulus, generator=torch.Generator().manual_seed(2))
    sharp = sharpness(n, modulus, order, count)
    layer = construction.match_layer(order, modulus, count, sharp)
    tokens = construction.embed_tokens(x, modulus, order, count)
    with torch.no_grad():
        out = layer(tokens[:, :n], tokens)
    head = construction.match_outputs(x, modulus, order, frequencies=count)
    assert torch.allclose(out[..., 0], head, rtol=0, atol=1e-9)
    assert not out[..., 1:].any()
    state = torch.get_rng_state()
    construction.match_layer(order, modulus, count, sharp)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize(("order", "modulus"), [(2, 51), (3, 50), (3, 100), (4, 51)])
def test_a_higher_temperature_would_fail(order: int, modulus: int) -> None:
    """At 0.97 (k-1) ln n / mu an instance without a match can have a larger output than one with a match.

    The first instance has only near misses, n^(k-1) tuples of weight exp(-beta mu); the second has one match, and the
    other tuples have negligible weight.
    """
    n = 40 if order < 4 else 16
    beta = 0.97 * (order - 1) * math.log(n) / margin(modulus)
    near, lone = adversarial_instances(n, modulus, order)[[2, 1]]
    assert match_labels(lone, modulus, order)[0]
    assert not match_labels(near, modulus, order)[0]
    sharp = Sharpness(beta, beta - 1.0, 0.0)
    outputs = []
    for x in (near, lone):
        query, keys, values = construction.match_features(x, modulus, order, 1, sharp)
        outputs.append(float(reference.tensor_attention(query[:1], keys, values, scale=1.0)[0][0, 0]))
    assert outputs[0] > outputs[1]


def test_the_rounding_of_scores_is_within_its_bound() -> None:
    """Float32 scores against float64 at the largest modulus: the bound is rho (ln N + L), tuples and blank together."""
    for order, count in ((2, 1), (3, 1), (3, 2), (4, 1)):
        modulus = largest_modulus(order, count, torch.float32)
        sharp = sharpness(50, modulus, order, count, torch.float32)
        x = uniform_instances(1, 20 if order == 4 else 50, modulus, generator=torch.Generator().manual_seed(0))[0]
        fine, rough = (
            reference.tensor_scores(*construction.match_features(x, modulus, order, count, sharp, dtype=dtype)[:2], 1.0)
            for dtype in (torch.float64, torch.float32)
        )
        bound = (
            sharp.inverse_temperature
            * min(1.0, margin(modulus, count))
            / resolution(modulus, order, count, torch.float32)
        )
        worst = float((fine - rough.double()).abs().max())
        assert 0.02 * bound < worst <= bound


def test_the_table_of_the_derivation(root: Path) -> None:
    text = (root / "docs" / "derivations" / "triple-detection.md").read_text()
    rows = re.findall(r"^\| (\d) \| (\d) \| (\d+) \| ([\d ]+) \| (.+) \|$", text, re.MULTILINE)
    assert len(rows) == 7
    for order, count, width, single, double in rows:
        k, F = int(order), int(count)
        assert int(width) == k * F + 1
        assert int(single.replace(" ", "")) == largest_modulus(k, F, torch.float32)
        modulus = 2**31 if double == "$2^{31}$" else int(double.replace(" ", ""))
        assert modulus == largest_modulus(k, F, torch.float64)


def test_sharpness_in_exact_arithmetic_and_in_floats() -> None:
    n, modulus = 30, 100
    exact = sharpness(n, modulus, 3, dtype=None)
    assert exact.inverse_temperature == pytest.approx(math.log(16 * (31**2 - 1)) / margin(modulus))
    assert exact.inverse_temperature - exact.blank == pytest.approx(math.log(4))
    assert exact.entry_bound == pytest.approx((4 / 3 * exact.inverse_temperature) ** (1 / 3))
    double, single = (sharpness(n, modulus, 3, dtype=dtype) for dtype in (torch.float64, torch.float32))
    assert exact.inverse_temperature < double.inverse_temperature < single.inverse_temperature
    assert double.inverse_temperature == pytest.approx(exact.inverse_temperature, rel=1e-8)


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 4), (2, 3, 4)])
def test_shapes(shape: tuple[int, ...]) -> None:
    x = torch.ones(shape, dtype=torch.int32)
    labels = hardness.match3_by_attention(x, 3)
    assert labels.shape == shape
    assert labels.dtype == torch.bool
    assert labels.all()


def test_residues_are_reduced_exactly() -> None:
    x = torch.tensor([2**62 + 1, -5, 7])
    assert torch.equal(hardness.match2_by_attention(x, 9), hardness.match2_by_attention(x % 9, 9))


def test_products_of_lower_precision_are_refused() -> None:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        with pytest.raises(
            ArgumentError, match=r"dtype: expected torch.float64, or torch.set_float32_matmul_precision"
        ):
            hardness.match3_by_attention(torch.tensor([1]), 5, dtype=torch.float32)
        assert not hardness.match3_by_attention(torch.tensor([1]), 5).any()
    finally:
        torch.set_float32_matmul_precision(before)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda x: hardness.match3_by_attention(x, 2347, dtype=torch.float32),
            r"modulus: expected at most 2346 at order 3 with frequencies=1 and torch.float32 "
            r"\(frequencies=2 would do\), got 2347",
        ),
        (lambda x: hardness.match3_by_attention(x, 10**9), r"at most 25035138 at order 3 .*frequencies=2 would do"),
        (lambda x: hardness.match3_by_attention(x, 2**31 + 1), r"modulus: expected an integer from 2 to 2147483648"),
        (lambda x: hardness.match3_by_attention(x, 1), r"modulus: expected an integer from 2"),
        (lambda x: hardness.match3_by_attention(x, 9, frequencies=0), r"frequencies: expected an integer from 1 to 4"),
        (lambda x: hardness.match3_by_attention(x, 9, frequencies=5), r"frequencies: expected an integer from 1 to 4"),
        (lambda x: hardness.match3_by_attention(x, 9, dtype=torch.float16), r"dtype: expected torch.float32 or"),
        (lambda x: hardness.match3_by_attention(x.float(), 9), r"x: expected a tensor of integers"),
        (lambda x: hardness.match_by_attention(x, 9, 1), r"order: expected an integer >= 2"),
        (lambda x: hardness.match_by_attention(x, 9, 60), r"order: expected an order whose scores"),
        (lambda x: largest_modulus(60, 1, torch.float32), r"order: expected an order whose scores"),
        (
            lambda x: hardness.match3_by_attention(torch.ones(1000, dtype=torch.int64), 9, dtype=torch.float32),
            r"x: expected at most 914 tokens at order 3 in torch.float32, got 1000 tokens",
        ),
    ],
)
def test_bad_input(call, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        call(torch.tensor([1, 2, 3]))
