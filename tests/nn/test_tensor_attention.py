"""The layer: against PyTorch's own at order 2, against the definition at higher orders, and as a module."""

from __future__ import annotations

import copy
import inspect

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn.functional import one_hot, pad

from separatrix.attention import reference
from separatrix.nn import BoundedTensorAttention, TensorAttention
from tests.draws import seeded


def make(*args: object, seed: int = 0, biased: bool = True, **kwargs: object) -> TensorAttention:
    """A float64 layer whose biases are not their zero initial values."""
    layer = TensorAttention(*args, **{"dtype": torch.float64, "generator": seeded(seed), **kwargs})
    generator = seeded(seed + 1)
    with torch.no_grad():
        for name, parameter in layer.named_parameters():
            if biased and name.endswith("bias"):
                parameter.normal_(generator=generator)
    return layer


def draw(*shapes: tuple[int, ...], seed: int = 9) -> list[Tensor]:
    generator = seeded(seed)
    return [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]


def pytorch_twin(layer: TensorAttention) -> nn.MultiheadAttention:
    bias = layer.q_proj.bias is not None
    twin = nn.MultiheadAttention(
        layer.embed_dim,
        layer.num_heads,
        bias=bias,
        kdim=layer.kdim,
        vdim=layer.vdim,
        batch_first=layer.batch_first,
        dtype=torch.float64,
    )
    projections = (layer.q_proj, layer.k_proj[0], layer.v_proj[0])
    with torch.no_grad():
        if twin.in_proj_weight is not None:
            twin.in_proj_weight.copy_(torch.cat([p.weight for p in projections]))
        else:
            for weight, p in zip(
                (twin.q_proj_weight, twin.k_proj_weight, twin.v_proj_weight), projections, strict=True
            ):
                weight.copy_(p.weight)
        if bias:
            twin.in_proj_bias.copy_(torch.cat([p.bias for p in projections]))
        twin.out_proj.load_state_dict(layer.out_proj.state_dict())
    return twin


@pytest.mark.parametrize("options", [{}, {"kdim": 5, "vdim": 7}, {"bias": False}, {"batch_first": False}], ids=str)
@pytest.mark.parametrize("batched", [True, False])
@pytest.mark.parametrize("padded", [True, False])
def test_order_2_is_pytorchs_layer(options, batched, padded):
    layer = make(12, 3, order=2, scale=4**-0.5, **options)
    twin = pytorch_twin(layer)
    x, key, value = draw((2, 6, 12), (2, 9, layer.kdim), (2, 9, layer.vdim))
    mask = torch.tensor([[False] * 5 + [True] * 4, [True] + [False] * 8]) if padded else None
    if not batched:
        x, key, value, mask = x[0], key[0], value[0], mask[0] if padded else None
    elif not layer.batch_first:
        x, key, value = (t.transpose(0, 1) for t in (x, key, value))
    ours = layer(x, key, value, key_padding_mask=mask)
    theirs, _ = twin(x, key, value, key_padding_mask=mask, need_weights=False)
    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)
    weight = twin.in_proj_weight if twin.in_proj_weight is not None else twin.q_proj_weight
    (slope,) = torch.autograd.grad(theirs.square().sum(), weight)
    (our_slope,) = torch.autograd.grad(ours.square().sum(), layer.q_proj.weight)
    torch.testing.assert_close(our_slope, slope[:12], rtol=1e-9, atol=1e-9)


def test_order_2_causal_is_pytorchs_layer_with_its_mask():
    layer = make(12, 3, order=2, scale=4**-0.5)
    (x,) = draw((2, 6, 12))
    mask = torch.ones(6, 6, dtype=torch.bool).triu(1)
    theirs, _ = pytorch_twin(layer)(x, x, x, attn_mask=mask, need_weights=False)
    torch.testing.assert_close(layer(x, is_causal=True), theirs, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("order", [2, 3, 4])
@pytest.mark.parametrize(
    ("options", "call"),
    [
        ({}, {}),
        ({"scale": 0.3, "bias": False}, {}),
        ({"windows": 3}, {"is_causal": True}),
        ({"kdim": 5, "vdim": 3}, {"is_causal": True, "query_offset": 2}),
    ],
    ids=str,
)
def test_every_order_is_the_definition(order, options, call):
    layer = make(8, 2, order=order, **options)
    length = 7 if "query_offset" in call else 5
    x, key, value = draw((2, 5, 8), (2, length, layer.kdim), (2, length, layer.vdim))
    mask = torch.zeros(2, length, dtype=torch.bool)
    mask[1, 2] = True

    def heads(t: Tensor) -> Tensor:
        return t.unflatten(-1, (2, 4)).transpose(1, 2)

    per_head, _ = reference.tensor_attention(
        heads(layer.q_proj(x)),
        [heads(p(key)) for p in layer.k_proj],
        [heads(p(value)) for p in layer.v_proj],
        scale=options.get("scale", 1 / 4),
        windows=[options["windows"]] * (order - 1) if "windows" in options else None,
        key_masks=[~mask[:, None]] * (order - 1),
        **call,
    )
    exact = layer.out_proj(per_head.transpose(1, 2).flatten(2))
    torch.testing.assert_close(layer(x, key, value, key_padding_mask=mask, **call), exact, rtol=1e-10, atol=1e-10)


def test_defaults_of_omitted_arguments():
    layer = make(8, 2)
    x, y = draw((2, 5, 8), (2, 6, 8))
    assert torch.equal(layer(x), layer(x, x, x))
    assert torch.equal(layer(x, y), layer(x, y, y))
    assert not torch.allclose(layer(x, y), layer(x, y, y.flip(0)))
    per_set = make(8, 2, windows=[2, None])
    assert per_set.windows == (2, None)
    assert not torch.allclose(per_set(x, is_causal=True), layer(x, is_causal=True))


def test_padding_is_slicing_and_a_query_with_only_padding_gets_the_bias():
    layer = make(8, 2)
    x, key = draw((2, 5, 8), (2, 6, 8))
    mask = torch.zeros(2, 6, dtype=torch.bool)
    mask[:, 4:] = True
    torch.testing.assert_close(layer(x, key, key_padding_mask=mask), layer(x, key[:, :4]), rtol=1e-12, atol=1e-12)
    mask[1] = True
    out = layer(x, key.requires_grad_(), key_padding_mask=mask)
    torch.testing.assert_close(out[1], layer.out_proj.bias.expand(5, 8))
    out.sum().backward()
    assert key.grad[0, :4].any()
    assert not key.grad[1].any()


def test_shapes():
    first, last = make(8, 2), make(8, 2, batch_first=False)
    x, key = draw((3, 5, 8), (3, 6, 8))
    torch.testing.assert_close(last(x.transpose(0, 1), key.transpose(0, 1)), first(x, key).transpose(0, 1))
    torch.testing.assert_close(first(x[1], key[1]), first(x, key)[1])
    assert torch.equal(last(x[1], key[1]), first(x[1], key[1]))
    assert first(x[:0]).shape == (0, 5, 8)
    assert first(x[:, :0], key).shape == (3, 0, 8)
    torch.testing.assert_close(first(x, key[:, :0]), first.out_proj.bias.expand(3, 5, 8))


def test_the_names_of_the_weights():
    shapes = {name: tuple(weight.shape) for name, weight in make(8, 2, order=4, kdim=5, vdim=3).state_dict().items()}
    assert shapes.pop("_extra_state")[0] > 0
    assert shapes == {
        "q_proj.weight": (8, 8),
        "q_proj.bias": (8,),
        "k_proj.0.weight": (8, 5),
        "k_proj.0.bias": (8,),
        "k_proj.1.weight": (8, 5),
        "k_proj.1.bias": (8,),
        "k_proj.2.weight": (8, 5),
        "k_proj.2.bias": (8,),
        "v_proj.0.weight": (8, 3),
        "v_proj.0.bias": (8,),
        "v_proj.1.weight": (8, 3),
        "v_proj.1.bias": (8,),
        "v_proj.2.weight": (8, 3),
        "v_proj.2.bias": (8,),
        "out_proj.weight": (8, 8),
        "out_proj.bias": (8,),
    }
    assert list(make(8, 2, order=2, bias=False).state_dict()) == [
        "_extra_state",
        "q_proj.weight",
        "k_proj.0.weight",
        "v_proj.0.weight",
        "out_proj.weight",
    ]


def test_weights_save_and_load_with_safetensors(tmp_path):
    layer, other = make(8, 2, seed=1), make(8, 2, seed=2)
    (x,) = draw((2, 5, 8))
    assert not torch.allclose(layer(x), other(x))
    save_file(layer.state_dict(), tmp_path / "layer.safetensors")
    other.load_state_dict(load_file(tmp_path / "layer.safetensors"))
    assert torch.equal(layer(x), other(x))


def test_the_first_weights():
    layer = TensorAttention(256, 4, generator=seeded())
    for name, parameter in layer.named_parameters():
        if name.endswith("bias"):
            assert not parameter.any()
        else:
            bound = (6 / 512) ** 0.5
            assert 0.99 * bound < parameter.abs().max() <= bound
    again, other = TensorAttention(256, 4, generator=seeded()), TensorAttention(256, 4, generator=seeded(1))
    assert torch.equal(layer.k_proj[1].weight, again.k_proj[1].weight)
    assert not torch.equal(layer.k_proj[1].weight, other.k_proj[1].weight)


@pytest.mark.parametrize("order", [2, 3, 4])
def test_the_first_scores_have_the_stated_spread(order):
    layer = TensorAttention(256, 4, order=order, generator=seeded())
    (x,) = draw((2000, 256))
    x = x.float()
    with torch.no_grad():
        factors = [p(x).reshape(2000, 4, 64) for p in (layer.q_proj, *layer.k_proj)]
    # Factors of different tokens, so that they are independent given the weights.
    product = torch.stack([f.roll(m, 0) for m, f in enumerate(factors)]).prod(0)
    assert (product.sum(-1) / 64).std() == pytest.approx(64**-0.5, rel=0.1)


def test_the_generator():
    state = torch.get_rng_state()
    TensorAttention(8, 2, generator=seeded())
    assert torch.equal(torch.get_rng_state(), state)
    with torch.random.fork_rng():
        torch.manual_seed(5)
        layer = TensorAttention(8, 2)
        torch.manual_seed(5)
        two = TensorAttention(8, 2)
        three = TensorAttention(8, 2)
    assert torch.equal(layer.q_proj.weight, two.q_proj.weight)
    assert not torch.equal(two.q_proj.weight, three.q_proj.weight)


def test_the_life_of_a_module():
    layer = make(8, 2)
    (x,) = draw((2, 5, 8))
    out = layer(x)
    copied = copy.deepcopy(layer)
    assert torch.equal(copied(x), out)
    with torch.no_grad():
        copied.q_proj.weight.add_(1)
    assert torch.equal(layer(x), out)
    single = copied.float()
    assert single(x.float()).dtype == torch.float32
    torch.testing.assert_close(copy.deepcopy(layer).float()(x.float()), out.float(), rtol=1e-4, atol=1e-5)
    half = copy.deepcopy(layer).bfloat16()(x.bfloat16())
    torch.testing.assert_close(half.double(), out, rtol=0.1, atol=0.1)
    assert layer.train(False)(x).equal(out)
    assert TensorAttention(8, 2, dtype=torch.float16, generator=seeded()).q_proj.weight.dtype == torch.float16
    meta = TensorAttention(8, 2, device="meta")
    assert {p.device.type for p in meta.parameters()} == {"meta"}
    landed = meta.to_empty(device="cpu")
    landed.reset_parameters(seeded())
    assert torch.equal(landed.q_proj.weight, TensorAttention(8, 2, generator=seeded()).q_proj.weight)
    with torch.device("meta"):
        assert TensorAttention(8, 2).q_proj.weight.device.type == "meta"


def test_autocast():
    layer = TensorAttention(8, 2, generator=seeded())
    x = draw((2, 5, 8))[0].float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = layer(x)
        assert (
            layer(x.bfloat16()).shape == out.shape
        )  # an activation that another layer has already converted to bfloat16
    assert out.dtype == torch.bfloat16
    torch.testing.assert_close(out.float(), layer(x), rtol=0.05, atol=0.02)


def test_its_repr():
    assert TensorAttention(8, 2, generator=seeded()).extra_repr() == "embed_dim=8, num_heads=2, order=3"
    unusual = make(8, 2, 4, kdim=5, vdim=6, batch_first=False, scale=0.5, windows=3, method="exact")
    assert unusual.extra_repr() == (
        "embed_dim=8, num_heads=2, order=4, kdim=5, vdim=6, batch_first=False, scale=0.5, windows=(3, 3, 3), "
        "method='exact'"
    )


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # dynamo's own
def test_compiled():
    """A layer of order 2 with a padding mask compiles to one graph; `test_transforms` tests order 3."""
    layer = make(8, 2, order=2)
    (x,) = draw((2, 5, 8))
    mask = torch.zeros(2, 5, dtype=torch.bool)
    mask[1, 3:] = True
    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
    slopes = []
    for run in (layer, compiled):
        layer.zero_grad()
        out = run(x, key_padding_mask=mask, is_causal=True)
        out.square().sum().backward()
        slopes.append([out, *(p.grad.clone() for p in layer.parameters())])
    torch.testing.assert_close(*slopes, rtol=1e-11, atol=1e-11)


def products_of_two(batch: int, length: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Each token has its position, two pointers and a Gaussian number; the target is the product of the two numbers."""
    place = torch.eye(length).expand(batch, length, length)
    first, second = (torch.randint(length, (batch, length), generator=generator) for _ in range(2))
    number = torch.randn(batch, length, generator=generator)
    x = torch.cat([place, one_hot(first, length), one_hot(second, length), number[..., None]], -1)
    return pad(x, (0, 3)), number.gather(1, first) * number.gather(1, second)


def test_it_learns_products_of_pairs_which_order_2_cannot():
    def loss_after_training(order: int) -> float:
        generator = seeded()
        layer = TensorAttention(16, 2, order=order, generator=generator)
        adam = torch.optim.Adam(layer.parameters(), lr=0.05)
        for _ in range(300):
            x, wanted = products_of_two(64, 4, generator)
            loss = (layer(x)[..., 0] - wanted).square().mean()
            adam.zero_grad()
            loss.backward()
            adam.step()
        x, wanted = products_of_two(512, 4, generator)
        with torch.no_grad():
            return (layer(x)[..., 0] - wanted).square().mean().item()

    # The variance of the target is about 1.4: one pair in four is a square.
    assert loss_after_training(order=3) < 0.01
    assert loss_after_training(order=2) > 0.5


def test_introspection_shows_its_arguments():
    """The signature is shown by `help`, notebooks and the documents, for both names of the layer."""
    for layer in (TensorAttention, BoundedTensorAttention):
        shown = inspect.signature(layer).parameters
        assert [*shown][:3] == ["embed_dim", "num_heads", "order"]
        assert shown["bound"].kind is inspect.Parameter.KEYWORD_ONLY
