"""The configuration that is saved with the weights, and which weights a layer refuses."""

from __future__ import annotations

import copy
import io
import json
import pickle

import pytest
import torch
from safetensors.torch import load, save
from torch import nn

import separatrix as sx
from separatrix.nn import BoundedTensorAttention, TensorAttention


def make(embed_dim: int = 8, num_heads: int = 2, order: int = 3, seed: int = 0, **options: object) -> TensorAttention:
    generator = torch.Generator().manual_seed(seed)
    return TensorAttention(embed_dim, num_heads, order, generator=generator, **options)


LAYERS = [
    {},
    {"order": 2, "scale": 0.1},
    {"order": 4, "windows": 3, "bias": False},
    {"windows": [2, None], "batch_first": False},
    {"kdim": 5, "vdim": 3, "method": "exact"},
    {"bound": 1 / 3},
    {"bound": 1.5, "tolerance": 1e-3, "num_kv_heads": 1},
    {"embed_dim": 12, "num_heads": 6, "num_kv_heads": 2},
]


@pytest.mark.parametrize("options", LAYERS, ids=str)
def test_a_layer_is_made_again_from_its_config(options):
    layer = make(**options)
    config = json.loads(json.dumps(layer.config()))
    again = TensorAttention.from_config(config, generator=torch.Generator().manual_seed(0))
    assert type(again) is type(layer)
    assert again.config() == layer.config()
    assert again.extra_repr() == layer.extra_repr()
    x = torch.randn(2, 5, layer.embed_dim, generator=torch.Generator().manual_seed(1))
    key = torch.randn(2, 5, layer.kdim, generator=torch.Generator().manual_seed(2))
    value = torch.randn(2, 5, layer.vdim, generator=torch.Generator().manual_seed(3))
    assert torch.equal(again(x, key, value, is_causal=True), layer(x, key, value, is_causal=True))
    wide = TensorAttention.from_config(config, dtype=torch.float64, device="meta")
    assert {(p.dtype, p.device.type) for p in wide.parameters()} == {(torch.float64, "meta")}


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ([8, 2], "a mapping from names to values, got list"),
        ({"embed_dim": 8}, "an entry 'num_heads'"),
        ({"embed_dim": 8, "num_heads": 2, "heads": 2}, "got 'heads'"),
        ({"embed_dim": 8, "num_heads": 2, "device": "cpu"}, "got 'device'"),
        ({"embed_dim": 8, "num_heads": 3}, "embed_dim: expected a multiple of num_heads = 3"),
    ],
    ids=str,
)
def test_invalid_configurations(config, said):
    with pytest.raises(sx.ArgumentError, match=said):
        TensorAttention.from_config(config)


def test_a_bounded_layer_is_made_by_its_own_class_too():
    config = make(bound=1.0).config()
    assert type(BoundedTensorAttention.from_config(config)) is BoundedTensorAttention
    with pytest.raises(sx.ArgumentError, match="bound"):
        BoundedTensorAttention.from_config(make().config())


@pytest.mark.parametrize("options", LAYERS, ids=str)
def test_weights_are_saved_with_their_configuration(options):
    layer, other = make(seed=1, **options), make(seed=2, **options)
    saved = layer.state_dict()
    parsed = json.loads(bytes(saved["_extra_state"].tolist()))
    assert parsed["order"] == layer.order
    assert parsed["bound"] == options.get("bound")
    assert parsed["tolerance"] == options.get("tolerance")
    file = io.BytesIO()
    torch.save(saved, file)
    file.seek(0)
    for weights in (load(save(saved)), torch.load(file, weights_only=True), pickle.loads(pickle.dumps(saved))):
        other = make(seed=2, **options)
        other.load_state_dict(weights)
        for actual, two in zip(layer.parameters(), other.parameters(), strict=True):
            assert torch.equal(actual, two)


@pytest.mark.parametrize(
    ("saved", "here", "said"),
    [
        ({"bound": 1.0}, {"bound": 2.0}, "with bound = 2.0, as in this layer, got weights with bound = 1.0"),
        ({"bound": 1.0}, {}, "scale = 0.25, as in this layer, got weights with scale = None"),
        ({"scale": 0.5}, {}, "scale = 0.25, as in this layer, got weights with scale = 0.5"),
        ({"scale": 0.5}, {"scale": -0.5}, "scale = -0.5, as in this layer, got weights with scale = 0.5"),
        ({"order": 2}, {}, "order = 3, as in this layer, got weights with order = 2"),
        (
            {"num_heads": 4, "scale": 0.3},
            {"scale": 0.3},
            "num_heads = 2, as in this layer, got weights with num_heads = 4",
        ),
    ],
    ids=str,
)
@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("nested", [True, False])
def test_weights_of_another_configuration_are_refused_and_change_nothing(saved, here, said, strict, nested):
    given, layer = make(seed=1, **saved), make(seed=2, **here)
    before = copy.deepcopy(layer)
    if nested:
        given, layer = nn.Sequential(given), nn.Sequential(layer)
    with pytest.raises(sx.ArgumentError, match=said):
        layer.load_state_dict(given.state_dict(), strict=strict)
    for actual, two in zip(layer.parameters(), before.parameters(), strict=True):
        assert torch.equal(actual, two)


def test_settings_that_may_differ():
    """A tolerance only changes the accuracy of the same function, and the default scale may be given explicitly."""
    exact, near = make(bound=1.0, seed=1), make(bound=1.0, tolerance=1e-3, seed=2)
    near.load_state_dict(exact.state_dict())
    exact.load_state_dict(near.state_dict())
    assert near.tolerance == 1e-3
    assert exact.tolerance is None
    make().load_state_dict(make(scale=0.25, windows=2).state_dict())
    make(dtype=torch.float64).load_state_dict(make().state_dict())


def test_weights_saved_by_earlier_versions():
    layer, other = make(seed=1), make(seed=2)
    model, weights = nn.Sequential(other), nn.Sequential(layer).state_dict()
    del weights["0._extra_state"]
    with (
        pytest.warns(UserWarning, match=r"saved by an earlier version.*had order = 3, .*strict=False"),
        pytest.raises(RuntimeError, match=r'Missing key.*"0\._extra_state"'),
    ):
        nn.Sequential(make(seed=3)).load_state_dict(weights)
    with pytest.warns(UserWarning, match="'0._extra_state'"):
        assert model.load_state_dict(weights, strict=False).missing_keys == ["0._extra_state"]
    x = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(4))
    assert torch.equal(model(x), layer(x))


SAVED_WEIGHTS = {
    "q_proj.weight": (8, 8),
    "q_proj.bias": (8,),
    "k_proj.0.weight": (4, 8),
    "k_proj.0.bias": (4,),
    "k_proj.1.weight": (4, 8),
    "k_proj.1.bias": (4,),
    "v_proj.0.weight": (4, 8),
    "v_proj.0.bias": (4,),
    "v_proj.1.weight": (4, 8),
    "v_proj.1.bias": (4,),
    "out_proj.weight": (8, 8),
    "out_proj.bias": (8,),
}
"""The names and shapes of the weights in a state dict of a layer with one head of keys, of version 0.1."""


@pytest.mark.parametrize(
    ("options", "temperature", "extra_state"),
    [
        ({}, {}, '"scale": 0.25, "rotary": null, "bound": null, "tolerance": null'),
        ({"rotary": 10.0}, {}, '"scale": 0.25, "rotary": 10.0, "bound": null, "tolerance": null'),
        ({"bound": 1.5}, {"temperature": (2,)}, '"scale": null, "rotary": null, "bound": 1.5, "tolerance": null'),
        (
            {"bound": 1.5, "tolerance": 1e-3},
            {"temperature": (2,)},
            '"scale": null, "rotary": null, "bound": 1.5, "tolerance": 0.001',
        ),
    ],
    ids=str,
)
def test_state_dicts_have_the_entries_that_they_always_had(options, temperature, extra_state):
    layer, shapes = make(num_kv_heads=1, **options), temperature | SAVED_WEIGHTS
    configuration = ('{"order": 3, "num_heads": 2, ' + extra_state + "}").encode()
    saved = layer.state_dict()
    assert {name: tuple(x.shape) for name, x in saved.items() if name != "_extra_state"} == shapes
    assert [*saved] == [*temperature, "_extra_state", *SAVED_WEIGHTS]
    assert bytes(saved["_extra_state"].tolist()) == configuration
    generator = torch.Generator().manual_seed(5)
    weights = {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}
    extra = torch.tensor(list(configuration), dtype=torch.uint8)
    layer.load_state_dict({**weights, "_extra_state": extra})
    for name, parameter in layer.named_parameters():
        assert torch.equal(parameter, weights[name])


@pytest.mark.parametrize("options", [{}, {"bound": 1.5}, {"bound": 1.5, "tolerance": 1e-3}], ids=str)
def test_layers_pickled_by_earlier_versions(options):
    """Version 0.1 had a separate class for a bound, whose numbers and plans were attributes of the layer."""
    layer = make(**options)
    attributes = {name: value for name, value in vars(layer).items() if name != "_score_bound"}
    attributes |= {"bound": layer.bound, "tolerance": layer.tolerance}
    kind = TensorAttention
    if options:
        kind, attributes["_plans"] = BoundedTensorAttention, {}

    class Pickled:
        def __reduce__(self):
            return kind.__new__, (kind,), attributes

    assert BoundedTensorAttention.__module__ == "separatrix.nn.bounded"
    restored = pickle.loads(pickle.dumps(Pickled()))
    assert type(restored) is kind
    assert restored.config() == layer.config()
    assert restored.plan == layer.plan
    x = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(4))
    for again in (restored, copy.deepcopy(restored), pickle.loads(pickle.dumps(restored))):
        assert torch.equal(again(x), layer(x))


def test_weights_of_other_modules_are_ignored():
    model = nn.ModuleDict({"attention": make(), "head": nn.Linear(8, 1)})
    model.load_state_dict({"head.weight": torch.ones(1, 8)}, strict=False)
    assert model["head"].weight.sum() == 8


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_a_state_dict_that_was_cast_as_a_whole(dtype):
    saved = {name: value.to(dtype) for name, value in make(bound=1.0).state_dict().items()}
    make(bound=1.0, dtype=dtype).load_state_dict(saved)
    with pytest.raises(sx.ArgumentError, match="bound"):
        make(bound=2.0, dtype=dtype).load_state_dict(saved)


@pytest.mark.parametrize(
    "bad",
    [
        torch.zeros(3),
        torch.full((3,), 0.5),
        torch.full((2,), torch.nan),
        torch.zeros(3, dtype=torch.uint8),
        "order 3",
        None,
    ],
    ids=str,
)
def test_damaged_extra_state(bad):
    with pytest.raises(sx.ArgumentError, match=r"state_dict\['_extra_state'\]"):
        make().load_state_dict({**make().state_dict(), "_extra_state": bad})


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # dynamo's own
@pytest.mark.parametrize("options", [{}, {"bound": 1.0, "tolerance": 1e-3}], ids=str)
def test_copies_pickles_and_compiled_layers_keep_it(options):
    layer = make(**options)
    x = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(4))
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer)), torch.compile(layer, backend="aot_eager")):
        torch.testing.assert_close(other(x), layer(x))
        saved = {name.removeprefix("_orig_mod."): value for name, value in other.state_dict().items()}
        assert torch.equal(saved["_extra_state"], layer.state_dict()["_extra_state"])
        make(seed=3, **options).load_state_dict(saved)
    called = torch.func.functional_call(layer, dict(layer.named_parameters()), (x,))
    assert torch.equal(called, layer(x))


def test_a_partial_state_dict_needs_no_configuration():
    """Adapters, for example, are saved without the weights that they adapt."""
    layer = TensorAttention(8, 2)
    part = {"q_proj.bias": torch.ones(8)}
    assert "_extra_state" in layer.load_state_dict(part, strict=False).missing_keys
    assert torch.equal(layer.q_proj.bias, torch.ones(8))
