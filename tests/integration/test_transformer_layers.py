"""`nn.MultiheadTensorAttention` in PyTorch's own transformer layers.

At order 2, with PyTorch's scale and weights, whole encoders and decoders must give PyTorch's results.
"""

from __future__ import annotations

import copy
import inspect

import pytest
import torch
from torch import Tensor, nn

from separatrix import ArgumentError
from separatrix.nn import MultiheadTensorAttention, TensorAttention
from tests.pairwise import pairwise

WIDTH, HEADS = 8, 2
both_layouts = pytest.mark.parametrize("batch_first", [True, False])
CAUSAL = nn.Transformer.generate_square_subsequent_mask(5, dtype=torch.float64)


def draw(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def twin(theirs: nn.MultiheadAttention) -> MultiheadTensorAttention:
    """Our layer of order 2 with the weights and the scale of a PyTorch layer."""
    ours = MultiheadTensorAttention(
        theirs.embed_dim,
        theirs.num_heads,
        batch_first=theirs.batch_first,
        dtype=torch.float64,
        order=2,
        scale=theirs.head_dim**-0.5,
    )
    projections = (ours.attention.q_proj, ours.attention.k_proj[0], ours.attention.v_proj[0])
    with torch.no_grad():
        for linear, weight, bias in zip(
            projections, theirs.in_proj_weight.chunk(3), theirs.in_proj_bias.chunk(3), strict=True
        ):
            linear.weight.copy_(weight)
            linear.bias.copy_(bias)
    ours.attention.out_proj.load_state_dict(theirs.out_proj.state_dict())
    return ours


def with_twins(model: nn.Module) -> nn.Module:
    """A copy of a model with our layers in place of PyTorch's."""
    model = copy.deepcopy(model)
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, nn.MultiheadAttention):
                setattr(module, name, twin(child))
    return model


def randomised(model: nn.Module, seed: int = 0) -> nn.Module:
    """The model with all parameters random, including biases."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(0.3 * torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype))
    return model


def laid_out(x: Tensor, batch_first: bool) -> Tensor:
    return x if batch_first else x.transpose(0, 1)


def test_the_signatures_are_pytorchs():
    """Parameters have the same names, order and defaults as PyTorch's, and the constructor's own options follow."""

    def described(function):
        parameters = inspect.signature(function).parameters.values()
        return [(p.name, p.default, p.kind) for p in parameters if p.kind != p.VAR_KEYWORD]

    for method in ("__init__", "forward"):
        ours, theirs = (getattr(cls, method) for cls in (MultiheadTensorAttention, nn.MultiheadAttention))
        assert described(ours) == described(theirs)


@pytest.mark.parametrize(
    ("batch_first", "training", "norm_first", "masks"),
    pairwise(
        [True, False],
        [True, False],
        [True, False],
        ["none", "padding", "float padding", "causal", "bool causal", "causal, hint", "both"],
    ),
)
def test_an_encoder_layer_equals_pytorchs(batch_first, training, norm_first, masks):
    theirs = nn.TransformerEncoderLayer(
        WIDTH, HEADS, 16, 0.0, batch_first=batch_first, norm_first=norm_first, dtype=torch.float64
    )
    theirs = randomised(theirs).train(training)
    ours = with_twins(theirs)
    padding = torch.zeros(3, 5, dtype=torch.bool)
    padding[0, 3:], padding[1, 1] = True, True
    as_floats = torch.zeros(3, 5, dtype=torch.float64).masked_fill(padding, -torch.inf)
    given = {
        "none": {},
        "padding": {"src_key_padding_mask": padding},
        "float padding": {"src_key_padding_mask": as_floats},
        "causal": {"src_mask": CAUSAL},
        "bool causal": {"src_mask": CAUSAL.isinf()},
        "causal, hint": {"src_mask": CAUSAL, "is_causal": True},
        "both": {"src_mask": CAUSAL, "src_key_padding_mask": as_floats, "is_causal": True},
    }[masks]
    x = laid_out(draw(1, 3, 5, WIDTH), batch_first)
    for grad in (True, False):  # without gradients PyTorch would use its fused kernel in evaluation
        with torch.set_grad_enabled(grad):
            torch.testing.assert_close(ours(x, **given), theirs(x, **given), rtol=0, atol=1e-12)


@both_layouts
@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True:UserWarning")
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")
def test_an_encoder_with_padding_and_a_mask(batch_first):
    """Outputs are right even if the encoder was built from PyTorch's layers, and would convert padding to nested
    tensors.
    """
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 16, 0.0, batch_first=batch_first, dtype=torch.float64)
    theirs = randomised(nn.TransformerEncoder(layer, 2)).eval()
    ours = with_twins(theirs)
    made_of_ours = nn.TransformerEncoder(with_twins(layer), 2).eval()
    made_of_ours.load_state_dict(ours.state_dict())
    x = laid_out(draw(1, 3, 5, WIDTH), batch_first)
    padding = torch.arange(5) >= torch.tensor([[5], [3], [4]])
    for options in ({"src_key_padding_mask": padding}, {"mask": CAUSAL, "is_causal": True}, {"mask": CAUSAL}, {}):
        for grad in (True, False):
            with torch.set_grad_enabled(grad):
                expected = theirs(x, **options)
                for model in (ours, made_of_ours):
                    found = model(x, **options)
                    if "src_key_padding_mask" in options:  # PyTorch's fast path writes zeros at padding
                        shown = ~laid_out(padding.unsqueeze(-1), batch_first)
                        found, expected = found * shown, expected * shown
                    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


@both_layouts
def test_a_decoder_and_its_gradients(batch_first):
    layer = nn.TransformerDecoderLayer(WIDTH, HEADS, 16, 0.0, batch_first=batch_first, dtype=torch.float64)
    theirs = randomised(nn.TransformerDecoder(layer, 2))
    ours = with_twins(theirs)
    x, memory = (laid_out(draw(seed, 3, length, WIDTH), batch_first) for seed, length in ((1, 5), (2, 7)))
    padding = torch.zeros(3, 7, dtype=torch.bool)
    padding[2, 4:] = True
    results = []
    for model in (ours, theirs):
        leaf = x.clone().requires_grad_()
        out = model(leaf, memory, tgt_mask=CAUSAL, tgt_is_causal=True, memory_key_padding_mask=padding)
        results.append([out, *torch.autograd.grad(out.sin().sum(), leaf)])
    torch.testing.assert_close(*results, rtol=0, atol=1e-11)


@both_layouts
@pytest.mark.parametrize("training", [True, False])
def test_order_3_in_an_encoder_layer(batch_first, training):
    """The encoder layer has the results of our layer called directly, example by example, in PyTorch's layout."""
    encoder_layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 16, 0.0, batch_first=batch_first, dtype=torch.float64)
    encoder_layer.self_attn = MultiheadTensorAttention(WIDTH, HEADS, batch_first=batch_first, dtype=torch.float64)
    randomised(encoder_layer).train(training)
    attention = encoder_layer.self_attn.attention
    assert attention.order == 3
    x = draw(1, 3, 5, WIDTH)
    with torch.no_grad():
        found = laid_out(encoder_layer(laid_out(x, batch_first), src_mask=CAUSAL, is_causal=True), batch_first)
        for example, out in zip(x, found, strict=True):
            y = encoder_layer.norm1(example + attention(example, is_causal=True))
            expected = encoder_layer.norm2(y + encoder_layer._ff_block(y))
            torch.testing.assert_close(out, expected, rtol=0, atol=1e-12)


def prefix_mask(prefix: int, length: int = 5) -> Tensor:
    mask = nn.Transformer.generate_square_subsequent_mask(length, dtype=torch.float64)
    mask[:prefix, :prefix] = 0
    return mask


@pytest.mark.parametrize("options", [{}, {"windows": 2}, {"distinct": True}, {"order": [2, 3]}], ids=str)
def test_a_mask_with_a_prefix(options):
    """The first tokens attend each other in both directions, as with the argument `prefix` of the layer."""
    encoder_layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 16, 0.0, batch_first=True, dtype=torch.float64)
    layer = MultiheadTensorAttention(WIDTH, HEADS, batch_first=True, dtype=torch.float64, **options)
    encoder_layer.self_attn, x = layer, draw(1, 3, 5, WIDTH)
    causal = encoder_layer(x, src_mask=CAUSAL)
    for prefix in (1, 2, 4):
        y = encoder_layer.norm1(x + layer.attention(x, is_causal=True, prefix=prefix))
        expected = encoder_layer.norm2(y + encoder_layer._ff_block(y))
        for mask in (prefix_mask(prefix), prefix_mask(prefix).isinf()):
            torch.testing.assert_close(encoder_layer(x, src_mask=mask), expected, rtol=0, atol=1e-12)
        assert torch.allclose(expected, causal) == (prefix == 1)
    with pytest.raises(ArgumentError, match="attn_mask: expected None or the causal mask"):
        encoder_layer(x, src_mask=prefix_mask(3), is_causal=True)
    torch._dynamo.reset()
    with pytest.raises(Exception, match="attn_mask: expected is_causal=True with a mask"):
        torch.compile(encoder_layer, backend="eager")(x, src_mask=prefix_mask(3))


def test_compiled_with_the_hint():
    encoder_layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 16, 0.0, batch_first=True, dtype=torch.float64)
    encoder_layer.self_attn = MultiheadTensorAttention(WIDTH, HEADS, batch_first=True, dtype=torch.float64)
    x = draw(1, 3, 5, WIDTH)
    torch._dynamo.reset()
    compiled = torch.compile(encoder_layer, backend="aot_eager", fullgraph=True)
    expected = encoder_layer(x, src_mask=CAUSAL, is_causal=True)
    torch.testing.assert_close(compiled(x, src_mask=CAUSAL, is_causal=True), expected, rtol=0, atol=1e-12)
    with pytest.raises(RuntimeError, match="attn_mask: expected"):
        compiled(x, src_mask=torch.zeros(5, 5, dtype=torch.float64), is_causal=True)


def test_the_pair_without_weights():
    layer = MultiheadTensorAttention(WIDTH, HEADS, 0.0, True, False, False, None, None, True)
    x = torch.ones(3, 5, WIDTH)
    out, weights = layer(x, x, x)
    assert out.shape == x.shape
    assert weights is None


@pytest.mark.parametrize(
    ("argument", "given"),
    [
        ("attn_mask", {"attn_mask": torch.zeros(5, 5)}),
        ("attn_mask", {"attn_mask": CAUSAL.float().T, "is_causal": True}),
        ("attn_mask", {"attn_mask": CAUSAL.float() + 0.5}),
        ("attn_mask", {"attn_mask": CAUSAL.isinf().tril()}),
        ("attn_mask", {"attn_mask": prefix_mask(3), "is_causal": True}),
        ("attn_mask", {"attn_mask": prefix_mask(3).masked_fill(prefix_mask(1).isinf().triu(4), 0.0)}),
        ("attn_mask", {"attn_mask": torch.zeros(6, 5, 5)}),
        ("attn_mask", {"attn_mask": torch.zeros(5, 5, dtype=torch.int64)}),
        ("attn_mask", {"attn_mask": "causal"}),
        ("key_padding_mask", {"key_padding_mask": torch.full((3, 5), 0.5)}),
        ("is_causal", {"is_causal": "yes"}),
    ],
    ids=str,
)
def test_masks_that_are_refused(argument, given):
    layer = MultiheadTensorAttention(WIDTH, HEADS, batch_first=True)
    x = torch.ones(3, 5, WIDTH)
    with pytest.raises(ArgumentError) as caught:
        layer(x, x, x, **given)
    assert caught.value.argument == argument


def test_dropout_is_refused():
    with pytest.raises(ArgumentError, match="dropout: expected 0"):
        MultiheadTensorAttention(WIDTH, HEADS, 0.1)


@pytest.mark.parametrize("training", [True, False])
def test_the_plain_layer_is_refused_in_an_encoder_layer(training):
    """`nn.TensorAttention` does not return a pair, so that PyTorch would take the first example of the batch as the
    output.
    """
    encoder_layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 16, batch_first=True).train(training)
    encoder_layer.self_attn = TensorAttention(WIDTH, HEADS)
    with pytest.raises(ArgumentError, match="MultiheadTensorAttention") as caught:
        encoder_layer(torch.ones(3, 5, WIDTH))
    assert caught.value.argument == "need_weights"
