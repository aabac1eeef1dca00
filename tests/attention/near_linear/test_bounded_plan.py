"""Tolerances of states and layers include the rounding of the output: they are kept in every dtype, or refused."""

from __future__ import annotations

import mpmath
import pytest
import torch

import separatrix as sx
from separatrix.attention.near_linear import bounded_plan
from separatrix.attention.near_linear.bounded_plan import plan_bounded
from separatrix.nn import TensorAttention

HALF = (torch.bfloat16, torch.float16)
UNIT = {dtype: torch.finfo(dtype).eps / 2 for dtype in (*HALF, torch.float32, torch.float64)}


def exactly(query, keys, values, scale):
    """The definition by mpmath in 40 digits: query (L, d), keys (S, d) and values (S, d_v), tuple by tuple."""
    with mpmath.workdps(40):
        tuples = [([mpmath.mpf(scale)] * query.shape[1], [mpmath.mpf(1)] * values[0].shape[1])]
        for key, value in zip(keys, values, strict=True):
            rows = list(zip(key.tolist(), value.tolist(), strict=True))
            tuples = [
                ([a * b for a, b in zip(k, row, strict=True)], [a * b for a, b in zip(v, column, strict=True)])
                for k, v in tuples
                for row, column in rows
            ]
        found = []
        for q in query.tolist():
            weights = [mpmath.exp(mpmath.fdot(q, k)) for k, _ in tuples]
            total = mpmath.fsum(weights)
            columns = zip(*(v for _, v in tuples), strict=True)
            found.append([mpmath.fdot(weights, column) / total for column in columns])
        return found


def largest_error(output, truth):
    with mpmath.workdps(40):
        pairs = (
            pair for row, exact in zip(output.tolist(), truth, strict=True) for pair in zip(row, exact, strict=True)
        )
        return float(max(abs(mpmath.mpf(a) - b) for a, b in pairs))


@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [(torch.bfloat16, 1e-5), (torch.bfloat16, 3.9e-3), (torch.float16, 1e-5), (torch.float32, 1e-8)],
)
def test_a_tolerance_that_the_type_cannot_keep_is_refused(dtype, tolerance):
    """The state, the layer and the plan raise an error that names the achievable tolerance."""
    message = (
        rf"^tolerance: expected more than 0?\.?[0-9.e-]+ of the values' magnitude, .* in {dtype} .*, got {tolerance:g}"
    )
    with pytest.raises(sx.ArgumentError, match=message):
        sx.TensorAttentionState(2, 2, 1, bound=1.0, tolerance=tolerance, dtype=dtype)
    with pytest.raises(sx.ArgumentError, match=message):
        TensorAttention(8, 2, bound=1.0, tolerance=tolerance, dtype=dtype)
    with pytest.raises(sx.ArgumentError, match=message):
        plan_bounded(3, 4, 1.0, tolerance, dtype)


def test_the_default_type_of_a_layer_counts():
    torch.set_default_dtype(torch.bfloat16)
    try:
        with pytest.raises(sx.ArgumentError, match=r"tolerance: .* torch.bfloat16"):
            TensorAttention(8, 2, bound=1.0, tolerance=1e-3)
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("dtype", UNIT)
@pytest.mark.parametrize("times", [1.1, 2.0, 30.0])
@pytest.mark.parametrize("order", [2, 3, 5])
def test_a_planned_tolerance_has_room_for_all_errors(dtype, times, order):
    """The tolerance minus the rounding of the output is divided between truncation and the rounding of float64."""
    if dtype == torch.float64:
        times *= 1e6  # float64 sums are rounded too, and a bound counts thousands of roundings
    plan = plan_bounded(order, 2, 1.0, times * UNIT[dtype], dtype)
    truncation, rounding = plan.relative_error(plan.roundings)
    assert truncation + rounding + UNIT[dtype] * (1 + truncation + rounding) <= plan.tolerance
    assert plan.certificate(plan.roundings, torch.tensor([1.0, 1e3])).total <= 1e3 * plan.tolerance


@pytest.mark.parametrize("dtype", [*HALF, torch.float32])
@pytest.mark.parametrize("order", [2, 3, 4])
def test_states_keep_tolerances_next_to_the_rounding_of_their_type(dtype, order):
    """Values that differ by one unit of the dtype: their averages are halfway between two of its numbers."""
    tolerance, eps = 1.3 * UNIT[dtype], torch.finfo(dtype).eps
    generator = torch.Generator().manual_seed(order)
    state = sx.TensorAttentionState(order, 2, 3, bound=1.0, tolerance=tolerance, dtype=dtype)

    def drawn(length, width):
        return 2 * torch.rand(length, width, generator=generator, dtype=torch.float64) - 1

    query, keys = drawn(4, 2).to(dtype), [drawn(3, 2).to(dtype) for _ in range(order - 1)]
    values = [(1 + eps * torch.randint(0, 2, (3, 3), generator=generator)).to(dtype) for _ in range(order - 1)]
    state.append(keys, values)
    error = largest_error(state.attend(query), exactly(query, keys, values, state.scale))
    magnitude = 1.0
    for value in values:
        magnitude *= float(value.double().abs().max())
    assert 0.2 * UNIT[dtype] < error <= state.certificate.total <= tolerance * magnitude


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.bfloat16, 5e-3), (torch.float16, 6e-4), (torch.float32, 8e-8)])
@pytest.mark.parametrize("is_causal", [False, True])
def test_layers_keep_tolerances_next_to_the_rounding_of_their_type(dtype, tolerance, is_causal):
    """Each head against mpmath, on the queries, keys and values that the layer has computed."""
    layer = TensorAttention(
        4, 2, bound=1.0, tolerance=tolerance, generator=torch.Generator().manual_seed(0), dtype=dtype
    )
    x = torch.randn(1, 5, 4, generator=torch.Generator().manual_seed(1)).to(dtype)
    heads = []
    layer.out_proj.register_forward_hook(lambda module, inputs, output: heads.append(inputs[0]))
    with torch.no_grad():
        layer(x, is_causal=is_causal)
        q, keys, values = layer.project(x, x, x)
    output = heads[0].reshape(1, 5, 2, 2).transpose(1, 2)
    certificate = layer.certificate(x, is_causal=is_causal)
    for head in range(2):
        magnitude = float(torch.stack([value[0, head].double().abs().max() for value in values]).prod())
        rows = range(5) if is_causal else [4]
        for i in rows:
            given = [[y[0, head, : i + 1] for y in sets] for sets in (keys, values)]
            asked = q[0, head, i : i + 1] if is_causal else q[0, head]
            found = output[0, head, i : i + 1] if is_causal else output[0, head]
            error = largest_error(found, exactly(asked, *given, layer.bound))
            assert error <= float(certificate.per_query[0, head, i]) <= tolerance * magnitude * (1 + 1e-9) + 1e-7


def test_the_certificate_of_a_layer():
    layer = TensorAttention(
        8, 2, bound=1.0, tolerance=1e-3, generator=torch.Generator().manual_seed(0), dtype=torch.float64
    )
    whatever = layer.certificate()
    assert whatever.total <= 1e-3
    assert whatever.per_query.shape == ()
    x = torch.randn(3, 7, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    here = layer.certificate(x)
    assert here.per_query.shape == (3, 2, 7)
    assert here.total == float(here.per_query.max()) == here.truncation + here.rounding
    assert layer.certificate(x[0]).per_query.shape == (2, 7)
    # The gradient is proportional to the values of both sets, whose biases are zero.
    assert layer.certificate(x, x, 10 * x).total == pytest.approx(100 * here.total)
    values = [project(x).detach().abs().max() for project in layer.v_proj]
    assert 0 < here.total <= 1e-3 * float(values[0] * values[1])
    # Hidden values do not count, and may be NaN.
    mask = torch.zeros(3, 7, dtype=torch.bool)
    mask[1, 5:] = True
    spoilt = x.clone()
    spoilt[1, 5:] = torch.nan
    hidden = layer.certificate(x, x, spoilt, key_padding_mask=mask)
    assert hidden.total <= here.total
    with pytest.raises(sx.ArgumentError, match=r"values\[0\]: expected finite entries"):
        layer.certificate(spoilt)


def test_a_layer_first_in_length():
    layer = TensorAttention(8, 2, bound=1.0, tolerance=1e-3, batch_first=False)
    assert layer.certificate(torch.zeros(7, 3, 8)).per_query.shape == (3, 2, 7)


def test_calls_without_a_certificate():
    with pytest.raises(sx.ArgumentError, match="certificate: expected a layer with a bound and a tolerance"):
        TensorAttention(8, 2, bound=1.0).certificate()
    layer = TensorAttention(8, 2, bound=1.0, tolerance=1e-3)
    with pytest.raises(sx.ArgumentError, match="key: expected None without a query"):
        layer.certificate(key=torch.zeros(1, 3, 8))
    with pytest.raises(sx.ArgumentError, match="query: expected a last dimension of 8"):
        layer.certificate(torch.zeros(1, 3, 7))


def test_nothing_is_promised_of_values_beyond_the_range():
    layer = TensorAttention(8, 2, bound=1.0, tolerance=1e-3, generator=torch.Generator().manual_seed(0))
    x = torch.randn(1, 3, 8, generator=torch.Generator().manual_seed(1))
    assert layer.certificate(x, x, 1e20 * x).total == torch.inf  # outputs of 1e40 in float32
    wide = layer.double()
    x = x.double()
    assert wide.certificate(x, x, 1e20 * x).total < 1e38
    assert wide.certificate(x, x, 1e-200 * x).total == torch.inf  # products of values underflow


@pytest.fixture
def _near_linear(monkeypatch):
    """Use near-linear attention even for a few tokens, for which exact attention is cheaper."""
    monkeypatch.setattr("separatrix.attention.near_linear.bounded_attention.exact_dtype", lambda *given: None)


@pytest.mark.usefixtures("_near_linear")
@pytest.mark.parametrize("cast", [torch.bfloat16, torch.float16, torch.float64])
def test_a_cast_layer_is_planned_again(cast):
    made = TensorAttention(8, 2, bound=1.0, tolerance=1e-2, generator=torch.Generator().manual_seed(0))
    planned = made.plan
    assert (planned.dtype, made.state().dtype) == (torch.float32, torch.float32)
    layer = made.to(cast)
    assert layer.plan == TensorAttention(8, 2, bound=1.0, tolerance=1e-2, dtype=cast).plan != planned
    assert layer.plan.radius == layer.state(3).plan.radius != planned.radius
    assert layer.state(3).plan == layer.plan
    x = torch.randn(1, 6, 8, generator=torch.Generator().manual_seed(1)).to(cast)
    state = layer.state(1)
    steps = torch.cat([layer.decode(x[:, i : i + 1], state) for i in range(6)], 1)
    assert steps.dtype == cast
    assert (steps - layer(x, is_causal=True)).abs().max() <= 4 * torch.finfo(cast).eps


def test_a_cast_to_a_type_that_cannot_keep_the_tolerance_is_refused():
    """Assigning parameters of that dtype without a cast has the same effect: every call raises the error until the
    dtype changes.
    """
    refused = pytest.raises(sx.ArgumentError, match=r"^tolerance: expected more than 0.00396 .* torch.bfloat16")
    layer = TensorAttention(8, 2, bound=1.0, tolerance=1e-3)
    with refused:
        layer.bfloat16()
    assigned = TensorAttention(8, 2, bound=1.0, tolerance=1e-3)
    assigned.load_state_dict({name: x.bfloat16() for name, x in assigned.state_dict().items()}, assign=True)
    x = torch.zeros(1, 3, 8, dtype=torch.bfloat16)
    calls = [lambda made: made(x), lambda made: made.state(), lambda made: made.plan, lambda made: made.certificate()]
    for made in (layer, assigned):
        for call in calls:
            with refused:
                call(made)
        assert made.float()(x.float()).shape == (1, 3, 8)


@pytest.mark.usefixtures("_near_linear")
def test_more_tokens_than_the_digits_of_float64_allow_are_refused(monkeypatch):
    """A layer's call raises the error from the lengths alone; a state raises it from the tokens appended so far."""
    layer = TensorAttention(2, 1, 2, bound=1.0, tolerance=1e-9, dtype=torch.float64)
    x = torch.zeros(1, 3, 2, dtype=torch.float64)
    layer(x)
    monkeypatch.setattr("separatrix.attention.arithmetic.rounding.Summation.gamma", lambda *a: 1e-10)
    with pytest.raises(sx.SeparatrixError, match=r"tolerance: with \[3\] tokens the error bound is"):
        layer(x)


@pytest.mark.parametrize("radius", [4.0, 9.0, 15.0, 29.0])
@pytest.mark.parametrize("tolerance", [1e-3, 1e-9, 1e-14])
@pytest.mark.parametrize("d", [1, 2, 6])
def test_few_polynomials_are_made_for_a_bounded_plan(d, radius, tolerance, monkeypatch):
    """The plan has the lowest degree of all, but polynomials that cannot keep the tolerance are not constructed."""
    made, minimax = [], bounded_plan.minimax

    def counted(*given):
        polynomial = minimax(*given)
        made.extend([] if polynomial is None else [polynomial])
        return polynomial

    def planned():
        try:
            return bounded_plan.plan_bounded.__wrapped__(3, d, radius, tolerance, torch.float64)
        except sx.SeparatrixError as refusal:
            return str(refusal)

    monkeypatch.setattr(bounded_plan, "minimax", counted)
    found = planned()
    assert len(made) <= 3
    monkeypatch.setattr(bounded_plan, "minimax", lambda degree, radius, _: minimax(degree, radius))
    assert planned() == found


@pytest.mark.parametrize(("radius", "tolerance"), [(0.3, 1e-2), (1.0, 1e-2), (1.0, 1e-3), (2.0, 0.3), (4.0, 1e-2)])
def test_the_bound_on_the_error_is_attained(radius, tolerance):
    """Tokens with opposite values at the polynomial's largest positive and negative errors reach the bound.

    Their numbers are chosen so that the total weights are equal, up to one in a hundred.
    """
    state = sx.TensorAttentionState(2, 1, 1, bound=1.0, scale=radius, tolerance=tolerance, dtype=torch.float64)
    s = torch.linspace(-radius, radius, 20001, dtype=torch.float64)
    powers = s.unsqueeze(-1) ** torch.arange(state.plan.degree + 1)
    ratios = (powers @ torch.tensor(state.plan.polynomial.coefficients, dtype=torch.float64)) * torch.exp(-s)
    scores = torch.stack([s[ratios.argmax()], s[ratios.argmin()]])
    counts = (100 * torch.exp(scores.max() - scores)).round().to(torch.int64)
    keys = (scores / radius).repeat_interleave(counts).unsqueeze(-1)
    values = torch.tensor([1.0, -1.0], dtype=torch.float64).repeat_interleave(counts).unsqueeze(-1)
    state.append(keys, values)
    query = torch.ones(1, 1, dtype=torch.float64)
    error = largest_error(state.attend(query), exactly(query, [keys], [values], radius))
    assert 0.98 * state.certificate.total < error <= state.certificate.total <= tolerance


def test_heads_of_16_and_32_are_in_reach_of_bounded_layers():
    plans = [TensorAttention(2 * d, 2, 3, bound=1.0, tolerance=1e-2).plan for d in (16, 32)]
    assert [plan.rank for plan in plans] == [969, 6545]


def test_outputs_beyond_their_type_are_refused_by_a_state():
    state = sx.TensorAttentionState(3, 1, 1, bound=1.0, tolerance=1e-2, dtype=torch.float16)
    key = torch.zeros(2, 1, dtype=torch.float16)
    value = torch.tensor([[300.0], [-200.0]], dtype=torch.float16)
    state.append([key, key], [value, value])  # 9e4 among the products, 2.5e3 on average
    assert state.attend(key).flatten().tolist() == [2500.0, 2500.0]
    state.append([key, key], [value.abs() + 300, value.abs() + 300])
    with pytest.raises(sx.SeparatrixError, match=r"values: outputs reach .*, beyond 6.55e\+04, the largest .*float16"):
        state.attend(key)
