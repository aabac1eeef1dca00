"""The layer whose scores cannot exceed their bound."""

from __future__ import annotations

import copy
import math
import pickle

import pytest
import torch
from safetensors.torch import load_file, save_file

import separatrix as sx
from separatrix.attention.checker import check
from separatrix.nn import BoundedTensorAttention, TensorAttention, normalised
from tests.draws import seeded


def layer(order=3, bound=1.0, tolerance=1e-3, dtype=torch.float64, **more):
    options = {"bound": bound, "tolerance": tolerance, "dtype": dtype, **more}
    return TensorAttention(8, 2, order, generator=seeded(), **options)


@pytest.mark.parametrize("order", [2, 3, 4, 5])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_scores_cannot_exceed_the_bound(order, dtype):
    """Extreme and parallel vectors, for which Hoelder's inequality is sharp; scores are summed in float64."""
    generator = seeded(order)
    made = [torch.randn(200, 8, dtype=torch.float64, generator=generator) for _ in range(order)]
    made[0][::2] = made[1][::2].sign() * made[1][::2].abs().pow(order - 1)
    made = [x * 10.0 ** torch.randint(-30, 30, (200, 1), generator=generator) for x in made]
    made = [normalised(x.to(dtype), order) for x in made]
    assert all(torch.isfinite(x).all() for x in made)
    total = torch.ones(200, 8, dtype=torch.float64)
    for x in made:
        total = total * x.double().abs()
    eps = torch.finfo(dtype).eps
    assert total.sum(-1).max() <= (1 + 2 * eps) ** order
    norms = torch.linalg.vector_norm(made[-1].double(), order, dim=-1)
    assert (norms - 1).abs().max() <= 2 * eps + 1e-6 * (dtype == torch.bfloat16)


def test_a_zero_vector_stays_zero_and_has_finite_gradients():
    x = torch.tensor([[0.0, 0.0], [1.0, -2.0]], dtype=torch.float64, requires_grad=True)
    y = normalised(x, 3)
    assert torch.equal(y[0], torch.zeros(2, dtype=torch.float64))
    y.sum().backward()
    assert torch.isfinite(x.grad).all()
    assert torch.autograd.gradcheck(
        lambda z: normalised(z, 3), torch.randn(4, 3, dtype=torch.float64, generator=seeded(), requires_grad=True)
    )


@pytest.fixture
def _near_linear(monkeypatch):
    """Use near-linear attention even for a few tokens, for which exact attention is cheaper."""
    monkeypatch.setattr("separatrix.attention.near_linear.bounded_attention.exact_dtype", lambda *given: None)


PADDING = torch.zeros(5, 11, dtype=torch.bool)
PADDING[1, 7:] = PADDING[2, :4] = PADDING[3, 3:9] = PADDING[4] = True


@pytest.mark.usefixtures("_near_linear")
@pytest.mark.parametrize("order", [2, 3, 4])
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("padded", [False, True])
def test_near_linear_is_exact_within_the_tolerance(order, is_causal, padded):
    """Outputs are right for padding on the right, left or in the middle; padding everywhere gives the output bias."""
    near, exact = layer(order), layer(order, tolerance=None)
    exact.load_state_dict(near.state_dict())
    x = torch.randn(5, 11, 8, dtype=torch.float64, generator=seeded(1))
    mask = PADDING if padded else torch.zeros(5, 11, dtype=torch.bool)
    heads = {}

    def keep(name):
        return lambda module, inputs, output: heads.__setitem__(name, inputs[0])

    near.out_proj.register_forward_hook(keep("near"))
    exact.out_proj.register_forward_hook(keep("exact"))
    options = {"is_causal": is_causal, "key_padding_mask": mask if padded else None}
    found = near(x, **options)
    exact(x, **options)
    assert not padded or torch.equal(found[4], near.out_proj.bias.expand(11, 8))
    values = [project(x)[~mask] for project in near.v_proj]
    largest = torch.stack([v.abs().max() for v in values]).prod()
    difference = (heads["near"] - heads["exact"]).abs().max()
    assert 0 < difference <= 1e-3 * largest


def test_the_temperature_is_learned_and_capped():
    made = layer(bound=2.0)
    assert torch.allclose(torch.sigmoid(made.temperature), torch.full((2,), 0.5, dtype=torch.float64))
    x = torch.randn(2, 9, 8, dtype=torch.float64, generator=seeded(2))
    made(x).square().sum().backward()
    assert made.temperature.grad.abs().min() > 0
    with torch.no_grad():
        made.temperature += 100.0
    made.zero_grad()
    assert torch.isfinite(made(x)).all()


@pytest.mark.parametrize("is_causal", [False, True])
def test_gradients(is_causal):
    made = layer(order=3, tolerance=1e-2)
    x = torch.randn(1, 5, 8, dtype=torch.float64, generator=seeded(3), requires_grad=True)
    names, parameters = zip(*made.named_parameters(), strict=True)

    def call(x, *parameters):
        return torch.func.functional_call(
            made, dict(zip(names, parameters, strict=True)), (x,), {"is_causal": is_causal}
        )

    assert torch.autograd.gradcheck(call, (x, *parameters), fast_mode=True)


@pytest.mark.usefixtures("_near_linear")
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # dynamo's own
@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("is_causal", [False, True])
def test_gradients_with_padding_are_those_of_exact_attention(order, is_causal):
    """Exact attention against a polynomial of error 1e-10, eager and compiled; hidden tokens have no gradient."""
    near, exact = layer(order, tolerance=1e-10), layer(order, tolerance=None)
    exact.load_state_dict(near.state_dict(), strict=True)
    key = torch.randn(5, 11, 8, dtype=torch.float64, generator=seeded(2))
    query, weights = (torch.randn(5, 11, 8, dtype=torch.float64, generator=seeded(seed)) for seed in (3, 4))
    options = {"key_padding_mask": PADDING, "is_causal": is_causal}
    torch._dynamo.reset()
    found = []
    for made, run in (
        (exact, exact),
        (near, near),
        (near, torch.compile(near, backend="aot_eager", fullgraph=True)),
    ):
        made.zero_grad()
        q, k = (x.clone().requires_grad_() for x in (query, key))
        out = run(q, k, **options)
        (out * weights).sum().backward()
        assert not k.grad[PADDING].any()
        assert k.grad[~PADDING].any()
        found.append([out, q.grad, k.grad, *(p.grad for p in made.parameters())])
    for near_ones in found[1:]:
        torch.testing.assert_close(near_ones, found[0], rtol=0, atol=1e-8)


@pytest.mark.usefixtures("_near_linear")
@pytest.mark.parametrize("batch", [None, 3])
def test_decoding_is_the_causal_call(batch):
    made = layer(order=3, dtype=torch.float64)
    x = torch.randn(*(() if batch is None else (batch,)), 9, 8, dtype=torch.float64, generator=seeded(4))
    whole = made(x, is_causal=True)
    state = made.state(batch)
    steps = [made.decode(x[..., :4, :], state)] + [made.decode(x[..., i : i + 1, :], state) for i in range(4, 9)]
    torch.testing.assert_close(torch.cat(steps, -2), whole, atol=1e-12, rtol=0)
    assert state.plan == made.plan
    assert state.certificate.total < float("inf")


def test_saved_and_loaded(tmp_path):
    made = layer()
    with torch.no_grad():
        made.temperature.copy_(torch.tensor([0.3, -0.7]))
    save_file(made.state_dict(), tmp_path / "layer.safetensors")
    other = layer()
    other.load_state_dict(load_file(tmp_path / "layer.safetensors"))
    x = torch.randn(2, 5, 8, dtype=torch.float64, generator=seeded(5))
    assert torch.equal(made(x), other(x))
    assert "bound=1.0, tolerance=0.001" in repr(made)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"bound": -1.0}, "bound"),
        ({"tolerance": 0.0}, "tolerance"),
        ({"bound": None}, "tolerance: expected None for a layer without a bound"),
        ({"scale": 1.0}, "scale: expected None"),
        ({"windows": 4}, "windows: expected None"),
        ({"bound": 40.0}, "lower the bound"),
    ],
)
def test_invalid_layers_are_named(options, named):
    with pytest.raises(sx.SeparatrixError, match=named):
        layer(**options)
    with pytest.raises(sx.ArgumentError, match="a layer with a bound and a tolerance"):
        TensorAttention(8, 2, generator=seeded()).state()


def test_it_learns():
    """The target is the sum of a product of two tokens' marks: a few steps halve the loss."""
    made = layer(order=3, bound=2.0, tolerance=1e-2, dtype=torch.float32)
    x = torch.randn(16, 12, 8, generator=seeded(6))
    target = (x.mean(1, keepdim=True) ** 2).expand_as(x)
    optimiser = torch.optim.Adam(made.parameters(), lr=1e-2)
    losses = []
    for _ in range(60):
        optimiser.zero_grad()
        loss = (made(x) - target).square().mean()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("method", ["auto", "polynomial"])
@pytest.mark.parametrize(
    ("dtype", "factors", "tolerance"),
    [
        (torch.float64, (1e-322, 1e301), 1e-6),
        (torch.float64, (1e301, 1e-322), 1e-6),
        (torch.float64, (1e-200, 1e-100), 1e-6),
        (torch.float64, (1e200, 1e150), 1e-6),
        (torch.float32, (2.0**100, 2.0**100), 1e-3),
        (torch.float32, (2.0**100, 2.0**-100), 1e-3),
        (torch.float32, (2.0**-140, 2.0**100), 1e-3),
        (torch.float16, (1e3, 1e3), 0.05),
    ],
)
def test_values_of_any_size_keep_the_tolerance_or_are_refused(dtype, factors, tolerance, method, is_causal):
    generator = torch.Generator().manual_seed(0)
    layer = TensorAttention(8, 2, bound=1.0, tolerance=tolerance, dtype=dtype, method=method, generator=generator)
    x, refusal = torch.randn(20, 8, generator=generator, dtype=torch.float64).to(dtype), None
    with torch.no_grad():
        query, keys, values = layer.project(x, x, x)
        values = [value * factor for value, factor in zip(values, factors, strict=True)]
        assert all(torch.isfinite(value).all() for value in values)
        try:
            found = layer._attend(query, keys, values, is_causal=is_causal, query_offset=0)
        except sx.SeparatrixError as error:
            refusal = str(error)
    if refusal is not None:
        assert refusal.startswith("values: ")
        return
    magnitude = math.prod(value.double().abs().max().item() for value in values)
    allowed = torch.tensor(tolerance * magnitude, dtype=torch.float64) + torch.finfo(dtype).tiny
    assert check(found, allowed, query, keys, values, scale=1.0, is_causal=is_causal, queries=1000).held


class Subclass(TensorAttention):
    """A layer that a user derives from ours."""


class BoundedSubclass(BoundedTensorAttention):
    """A layer that a user derives from ours with a bound."""


@pytest.mark.parametrize("make", [TensorAttention, BoundedTensorAttention, Subclass, BoundedSubclass])
@pytest.mark.parametrize("tolerance", [None, 1e-3])
def test_layers_of_any_class_may_have_a_bound(make, tolerance):
    expected = layer(tolerance=tolerance)
    made = make(8, 2, 3, bound=1.0, tolerance=tolerance, dtype=torch.float64, generator=seeded())
    x = torch.randn(2, 9, 8, dtype=torch.float64, generator=seeded(1))
    for same in (made, copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert type(same) is make
        assert isinstance(same, BoundedTensorAttention)
        assert isinstance(same, BoundedSubclass) == (make is BoundedSubclass)
        assert torch.equal(same(x), expected(x))
        assert same.plan == expected.plan


def test_layers_without_a_bound_are_not_bounded_layers():
    assert issubclass(BoundedTensorAttention, TensorAttention)
    for other in (TensorAttention(8, 2), Subclass(8, 2), torch.nn.Linear(2, 2), None):
        assert not isinstance(other, BoundedTensorAttention)
    for options in ({}, {"bound": None}):
        with pytest.raises(sx.ArgumentError, match="bound: expected a positive finite number, got None"):
            BoundedTensorAttention(8, 2, **options)
