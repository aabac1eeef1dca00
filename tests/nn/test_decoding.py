"""Decoding: for every split of a sequence, the outputs are those of the full causal call."""

from __future__ import annotations

import copy
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load, save
from torch import Tensor

import separatrix as sx
from separatrix.attention.streaming import state as state_module
from separatrix.nn import TensorAttention, TokenCache, decoding
from tests.draws import draw, seeded

ROUNDING = {torch.float64: 1e-11, torch.float32: 2e-5, torch.bfloat16: 0.06, torch.float16: 0.01}
"""The allowed difference of outputs of magnitude 1, for the dtype of the computation."""


def make(order: int = 3, dtype: torch.dtype = torch.float64, seed: int = 0, **options: object) -> TensorAttention:
    layer = TensorAttention(12, 6, order, dtype=dtype, generator=seeded(seed), **options)
    with torch.no_grad():
        for name, parameter in layer.named_parameters():
            if name.endswith("bias"):
                parameter.normal_(generator=seeded(seed + 1))
    return layer


def decoded(layer: TensorAttention, x: Tensor, splits: list[int], cache: object = None) -> Tensor:
    """The outputs of a sequence (..., length, width) that is split at `splits`."""
    cache = layer.cache(x.shape[0] if x.dim() == 3 else None) if cache is None else cache
    stops = [*sorted(splits), x.shape[-2]]
    return torch.cat([layer.decode(x[..., a:b, :], cache) for a, b in zip([0, *stops], stops, strict=False)], -2)


@st.composite
def cases(draws: st.DrawFn) -> tuple[dict, torch.dtype, tuple[int, ...], list[int], bool]:
    order = draws(st.integers(2, 4))
    options: dict = {"order": order, "num_kv_heads": draws(st.sampled_from([1, 2, 3, 6]))}
    kind = draws(st.sampled_from(["exact", "windows", "bounded", "windows and bounded", "tolerance"]))
    if "windows" in kind:
        window = st.none() | st.integers(1, 12)
        options["windows"] = draws(st.integers(1, 12) | st.lists(window, min_size=order - 1, max_size=order - 1))
        if options["windows"] != [None] * (order - 1):
            options["sinks"] = draws(st.sampled_from([0, 0, 1, 2, 5]))
    if kind in ("exact", "windows"):
        options["distinct"] = draws(st.booleans())
    if "bounded" in kind:
        options["bound"] = draws(st.sampled_from([0.5, 3.0]))
    if kind == "tolerance":
        options |= {"bound": draws(st.sampled_from([0.5, 1.0])), "tolerance": 0.01, "method": "polynomial"}
    dtype = draws(st.sampled_from([torch.float64, torch.float32, torch.bfloat16]))
    length = draws(st.integers(0, 14))
    batch = draws(st.sampled_from([(), (1,), (2,)]))
    splits = draws(st.lists(st.integers(0, length), max_size=6))
    return options, dtype, (*batch, length, 12), splits, draws(st.booleans())


@settings(deadline=None, max_examples=150)
@given(cases())
def test_any_split_is_the_full_causal_call(case):
    options, dtype, shape, splits, with_grad = case
    layer, x = make(dtype=dtype, **options), draw(*shape, dtype=dtype)
    with torch.set_grad_enabled(with_grad):
        whole = layer(x, is_causal=True)
        parts = decoded(layer, x, splits)
    assert parts.dtype == whole.dtype
    assert parts.shape == whole.shape
    size = float(whole.detach().abs().max()) if whole.numel() else 1.0
    torch.testing.assert_close(parts, whole, rtol=0, atol=ROUNDING[dtype] * max(size, 1.0))


@pytest.mark.parametrize(
    "options", [{}, {"windows": [3, None], "sinks": 2}, {"bound": 1.0, "tolerance": 1e-3}], ids=str
)
def test_token_by_token_of_many(options):
    """Buffers are enlarged several times."""
    method = "polynomial" if "tolerance" in options else "auto"
    layer, x = make(num_kv_heads=2, method=method, **options), draw(2, 130, 12)
    with torch.no_grad():
        parts, whole = decoded(layer, x, [37, *range(38, 130)]), layer(x, is_causal=True)
    torch.testing.assert_close(parts, whole, rtol=0, atol=1e-11)


def test_within_the_tolerance_where_the_call_is_exact():
    layer, x = make(bound=1.0, tolerance=1e-3, num_kv_heads=3), draw(2, 20, 12)
    exact = make(bound=1.0, num_kv_heads=3)
    values = layer.project(x, x, x)[2]
    largest = torch.stack([v.abs().max() for v in values]).prod() * layer.out_proj.weight.abs().sum(1).max()
    difference = (decoded(layer, x, [8, 9]) - exact(x, is_causal=True)).abs().max()
    assert 0 < difference <= 1e-3 * largest


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"windows": 3, "sinks": 2},
        {"windows": [2, None], "distinct": True},
        {"bound": 1.0, "tolerance": 1e-3, "method": "polynomial"},
    ],
    ids=str,
)
@pytest.mark.parametrize("kv_heads", [2, 6])
def test_gradients_go_back_through_all_calls(options, kv_heads):
    layer, x = make(num_kv_heads=kv_heads, **options), draw(2, 9, 12).requires_grad_()
    wanted = [x, *layer.parameters()]
    slopes = []
    for out in (layer(x, is_causal=True), decoded(layer, x, [1, 5, 6])):
        slopes.append(torch.autograd.grad((out * draw(2, 9, 12, seed=3)).sum(), wanted))
    torch.testing.assert_close(*slopes, rtol=0, atol=1e-10)


def test_detached_tokens_have_no_gradient():
    for options in ({}, {"bound": 1.0, "tolerance": 1e-3}):
        layer, x = make(**options), draw(2, 6, 12).requires_grad_()
        cache = layer.cache(2)
        layer.decode(x[:, :4], cache)
        cache.detach()
        layer.decode(x[:, 4:], cache).sum().backward()
        assert not x.grad[:, :4].any()
        assert x.grad[:, 4:].any()


def test_a_graph_outlives_later_tokens_and_modes_mix():
    layer, x = make(), draw(2, 12, 12)
    whole = layer(x, is_causal=True)
    cache = layer.cache(2)
    first = layer.decode(x[:, :3], cache)
    with torch.no_grad():
        parts = [layer.decode(x[:, 3:5], cache)]
    with torch.inference_mode():
        parts += [layer.decode(x[:, 5:6], cache), layer.decode(x[:, 6:7], cache)]
    with torch.no_grad():
        parts += [layer.decode(x[:, 7:8], cache)]
    cache.trim(6)
    with torch.no_grad():
        parts[2:] = [layer.decode(x[:, 6:], cache)]
    first.sum().backward()
    assert layer.q_proj.weight.grad.abs().sum() > 0
    torch.testing.assert_close(torch.cat([first, *parts], 1), whole, rtol=0, atol=1e-11)


def test_a_window_bounds_the_memory():
    layer = make(windows=(5, 8))
    cache = layer.cache(2)
    sizes = set()
    with torch.no_grad():
        layer.decode(draw(2, 1000, 12), cache)
        for i in range(200):
            layer.decode(draw(2, 1, 12, seed=i), cache)
            sizes.add(cache.nbytes)
    assert cache.held == (4, 7)
    assert cache.tokens == (1200, 1200)
    assert max(sizes) <= 2 * 2 * 2 * 6 * 2 * 8 * 64  # two sets, keys and values, batch, heads, width, bytes, tokens
    growing = make().cache(2)
    with torch.no_grad():
        make().decode(draw(2, 200, 12), growing)
    assert growing.nbytes > max(sizes)


def test_batch_second():
    layer, first = make(batch_first=False), make()
    x = draw(7, 3, 12)
    cache = layer.cache(3)
    parts = torch.cat([layer.decode(x[:4], cache), layer.decode(x[4:], cache)])
    torch.testing.assert_close(parts, first(x.transpose(0, 1), is_causal=True).transpose(0, 1), rtol=0, atol=1e-11)


def test_under_autocast():
    layer, x = make(dtype=torch.float32), draw(2, 9, 12, dtype=torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        parts, whole = decoded(layer, x, [4, 5]), layer(x, is_causal=True)
    assert parts.dtype == whole.dtype == torch.bfloat16
    torch.testing.assert_close(parts, whole, rtol=0.05, atol=0.05)


KINDS = [
    {},
    {"windows": 4},
    {"windows": [None, 3], "sinks": 2},
    {"bound": 1.0, "tolerance": 1e-3, "method": "polynomial"},
]


@pytest.mark.parametrize("options", KINDS, ids=str)
@pytest.mark.parametrize("indices", [[2, 0, 0], torch.tensor([1, 1, 2, 0, 2]), [1], []], ids=str)
def test_reordered_for_a_beam_search(options, indices):
    layer, x = make(num_kv_heads=2, **options), draw(3, 11, 12)
    cache = layer.cache(3)
    with torch.no_grad():
        layer.decode(x[:, :7], cache)
        cache.reorder(indices)
        later = draw(len(indices), 4, 12, seed=5)
        chosen = torch.as_tensor(indices, dtype=torch.int64)
        together = torch.cat([x[chosen, :7], later], 1)
        parts = torch.cat([layer.decode(later[:, :1], cache), layer.decode(later[:, 1:], cache)], 1)
        torch.testing.assert_close(parts, layer(together, is_causal=True)[:, 7:], rtol=0, atol=1e-11)


@pytest.mark.parametrize("options", KINDS, ids=str)
@pytest.mark.parametrize("bad", [[3], [-1], [0.5], "012", torch.tensor([[0]]), torch.tensor([0.0])], ids=str)
def test_bad_indices(options, bad):
    layer = make(**options)
    with pytest.raises(sx.ArgumentError, match="indices: expected integers from 0 to 2"):
        layer.cache(3).reorder(bad)
    if "tolerance" not in options:
        with pytest.raises(sx.ArgumentError, match="with a batch"):
            layer.cache().reorder([0])


@pytest.mark.parametrize("options", KINDS, ids=str)
def test_saved_and_loaded(options):
    layer, x = make(**options), draw(2, 11, 12)
    cache, other = layer.cache(2), layer.cache(2)
    with torch.no_grad():
        layer.decode(x[:, :8], cache)
        layer.decode(draw(2, 3, 12, seed=1), other)
        other.load_state_dict(load(save(cache.state_dict())))
        assert other.tokens == cache.tokens
        copied = copy.deepcopy(cache)
        outputs = [layer.decode(x[:, 8:], one) for one in (cache, other, copied)]
    assert torch.equal(outputs[0], outputs[1])
    assert torch.equal(outputs[0], outputs[2])
    with pytest.raises(sx.ArgumentError, match="batch_shape"):
        layer.cache(3).load_state_dict(cache.state_dict())


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"length": torch.tensor(-1)}, "length"),
        ({"length": torch.tensor(3)}, r"saved\['keys.0'\]: expected 3 to 3 stored tokens"),
        ({"keys.0": torch.zeros(2, 6, 5, 2)}, "keys.0"),
        ({"values.1": torch.zeros(2, 6, 7, 2, dtype=torch.float64)}, "values.1"),
        ({"values.1": [1.0]}, "expected a tensor, got list"),
        ({"more": torch.zeros(1)}, "the entries"),
        ({"configuration": torch.zeros(3)}, "a tensor of bytes"),
    ],
    ids=str,
)
def test_a_damaged_file_is_refused_and_changes_nothing(changed, named):
    layer, x = make(), draw(2, 8, 12)
    cache = layer.cache(2)
    with torch.no_grad():
        layer.decode(x[:, :5], cache)
        with pytest.raises(sx.ArgumentError, match=named):
            cache.load_state_dict({**cache.state_dict(), **changed})
        torch.testing.assert_close(layer.decode(x[:, 5:], cache), layer(x, is_causal=True)[:, 5:])


@pytest.mark.parametrize("options", KINDS, ids=str)
def test_pickled(options):
    layer, x = make(**options), draw(2, 8, 12)
    cache = layer.cache(2)
    with torch.no_grad():
        layer.decode(x[:, :6], cache)
        again = pickle.loads(pickle.dumps(cache))
        assert torch.equal(layer.decode(x[:, 6:], again), layer.decode(x[:, 6:], cache))


@settings(deadline=None, max_examples=80)
@given(st.data())
def test_trimmed(data):
    """Tokens are removed and others decoded in their place: the result is as if the first had never been decoded."""
    windows = data.draw(st.lists(st.none() | st.integers(1, 6), min_size=2, max_size=2))
    spare, length = data.draw(st.integers(0, 4)), data.draw(st.integers(0, 12))
    sinks = data.draw(st.integers(0, 4)) if any(windows) else 0
    layer, x, y = make(windows=windows, sinks=sinks), draw(2, 12, 12), draw(2, 5, 12, seed=4)
    cache = layer.cache(2, spare=spare)
    left = data.draw(st.integers(0, length))
    splits = [s for s in data.draw(st.lists(st.integers(0, 12))) if s <= length]
    with torch.no_grad():
        decoded(layer, x[:, :length], splits, cache)
        reaches = [window - 1 for window in windows if window is not None and window > 1 and left > 0]
        if any(left - min(left, reach) < length - min(length, reach + spare) for reach in reaches):
            with pytest.raises(sx.ArgumentError, match=r"at least .*: set . with a window of"):
                cache.trim(left)
            assert cache.tokens == (length, length)
        else:
            cache.trim(left)
            together = torch.cat([x[:, :left], y], 1)
            expected = layer(together, is_causal=True)[:, left:]
            torch.testing.assert_close(decoded(layer, y, [1], cache), expected, rtol=0, atol=1e-11)


@pytest.mark.parametrize(
    "options", [{}, {"windows": [3, None], "sinks": 2}, {"distinct": True}, {"rotary": 100.0}], ids=str
)
def test_a_prompt_attended_in_both_directions(options):
    layer, x = make(order=3, num_kv_heads=2, **options), draw(2, 11, 12)
    cache = layer.cache(2)
    with torch.no_grad():
        whole = layer(x, is_causal=True, prefix=5)
        parts = [layer.decode(x[:, :6], cache, prefix=5), layer.decode(x[:, 6:7], cache), layer.decode(x[:, 7:], cache)]
        assert not torch.allclose(whole[:, :4], layer(x, is_causal=True)[:, :4])
    torch.testing.assert_close(torch.cat(parts, 1), whole, rtol=0, atol=1e-11)


def test_a_prefix_must_be_among_the_first_tokens():
    layer, x = make(), draw(2, 5, 12)
    cache = layer.cache(2)
    with pytest.raises(sx.ArgumentError, match=r"prefix: expected 0, or at most the number .* got 6 for 5 after 0"):
        layer.decode(x, cache, prefix=6)
    assert cache.tokens == (0, 0)
    layer.decode(x, cache)
    with pytest.raises(sx.ArgumentError, match=r"prefix: .* got 1 for 5 after 5"):
        layer.decode(x, cache, prefix=1)
    bounded = make(bound=1.0, tolerance=1e-3)
    with pytest.raises(sx.ArgumentError, match="prefix: expected 0 for a layer with a tolerance"):
        bounded.decode(x, bounded.cache(2), prefix=1)
    with pytest.raises(sx.ArgumentError, match="cache: expected a layer with lookahead = 0"):
        make(windows=2, lookahead=1).cache(2)


def test_the_size_of_a_cache_with_windows_and_sinks_does_not_grow():
    layer, x = make(windows=3, sinks=2), draw(2, 400, 12)
    cache = layer.cache(2)
    with torch.no_grad():
        layer.decode(x[:, :200], cache)
        before = cache.nbytes
        for i in range(200, 400):
            layer.decode(x[:, i : i + 1], cache)
    assert cache.nbytes <= before + 64 * 1024


def test_a_summed_state_cannot_remove_tokens():
    layer = make(bound=1.0, tolerance=1e-3)
    cache = layer.cache(2)
    layer.decode(draw(2, 5, 12), cache)
    cache.trim(5)
    with pytest.raises(sx.ArgumentError, match="length: expected all 5 tokens: tokens cannot be removed from sums"):
        cache.trim(4)
    with pytest.raises(sx.ArgumentError, match="spare: expected 0"):
        layer.cache(2, spare=1)
    for bad in (-1, 6, 2.0, None):
        with pytest.raises(sx.ArgumentError, match="length"):
            make().cache(2).trim(bad)


@pytest.mark.parametrize(
    ("x", "cache", "said"),
    [
        (draw(2, 3, 12), None, r"the result of layer.cache\(batch_size\), got NoneType"),
        (draw(3, 12), None, r"the result of layer.cache\(\), got NoneType"),
        (draw(2, 3, 12), torch.zeros(2), "got Tensor"),
        (draw(2, 3, 12), make().cache(3), "a batch of 2, as x has, got a batch of 3"),
        (draw(2, 3, 12), make().cache(), "a batch of 2, as x has, got no batch"),
        (draw(3, 12), make().cache(2), "no batch, as x has, got a batch of 2"),
        (draw(2, 3, 12), make(order=2).cache(2), r"windows = \(None, None\), got windows = \(None,\)"),
        (draw(2, 3, 12), make(windows=2).cache(2), r"windows = \(None, None\), got windows = \(2, 2\)"),
        (draw(2, 3, 12), make(dtype=torch.float32).cache(2), "dtype = torch.float64, got dtype = torch.float32"),
        (draw(2, 3, 12), make(bound=1.0, tolerance=0.1).cache(2), "TokenCache, got type = TensorAttentionState"),
    ],
)
def test_a_cache_that_is_not_the_layers(x, cache, said):
    with pytest.raises(sx.ArgumentError, match=said) as caught:
        make().decode(x, cache)
    assert caught.value.argument == "cache"


def test_a_state_of_another_bound_or_tolerance():
    layer = make(bound=1.0, tolerance=1e-3)
    for options, said in (
        ({"bound": 0.5, "tolerance": 1e-3}, "scale = 1.0, got scale = 0.5"),
        ({"bound": 1.0, "tolerance": 1e-2}, "tolerance = 0.001, got tolerance = 0.01"),
        ({"bound": 1.0}, "TensorAttentionState, got type = TokenCache"),
    ):
        with pytest.raises(sx.ArgumentError, match=said):
            layer.decode(draw(2, 3, 12), make(**options).cache(2))


def test_calls_that_cannot_be_decoded():
    with pytest.raises(sx.ArgumentError, match="kdim = vdim = embed_dim = 12"):
        make(kdim=5).cache(2)
    with pytest.raises(sx.ArgumentError, match="kdim = vdim = embed_dim = 12"):
        make(kdim=5).decode(draw(2, 3, 12), make().cache(2))
    for bad in (-1, 2.0, True):
        with pytest.raises(sx.ArgumentError, match="batch_size: expected an integer >= 0"):
            make().cache(bad)
    with pytest.raises(sx.ArgumentError, match="spare: expected an integer >= 0"):
        make().cache(2, spare=-1)


def test_a_failed_call_adds_nothing():
    layer, x = make(dtype=torch.float32), draw(2, 4, 12, dtype=torch.float32)
    cache = layer.cache(2)
    with torch.no_grad():
        layer.decode(x, cache)
        with pytest.raises(sx.SeparatrixError):
            layer.decode(1e30 * x[:, :2], cache)
        assert cache.tokens == (4, 4)
        y = draw(2, 2, 12, dtype=torch.float32, seed=2)
        torch.testing.assert_close(layer.decode(y, cache), layer(torch.cat([x, y], 1), is_causal=True)[:, 4:])


def test_tokens_that_do_not_fit_a_cache():
    cache = TokenCache((None,), 4, (2,))
    for keys, said in (
        ([torch.zeros(2, 3, 5)], r"keys\[0\]: expected shape \(2, 3, 4\)"),
        ([torch.zeros(2, 3, 4, dtype=torch.float64)], "the cache's torch.float32 on cpu"),
        ([torch.zeros(2, 3, 4)] * 2, "keys: expected 1 sets, got 2"),
    ):
        with pytest.raises(sx.ArgumentError, match=said):
            cache.append(keys, [torch.zeros(2, 3, 4)])


def decoded_with(layer: TensorAttention, x: Tensor, mask: Tensor, splits: list[int], cache: object) -> Tensor:
    """The outputs of a sequence split at `splits`; a part without padding is decoded without a mask."""
    stops = [*sorted(splits), x.shape[-2]]
    parts = []
    for a, b in zip([0, *stops], stops, strict=False):
        given = mask[..., a:b] if mask[..., a:b].any() else None
        parts.append(layer.decode(x[..., a:b, :], cache, key_padding_mask=given))
    return torch.cat(parts, -2)


@st.composite
def padded_cases(draws: st.DrawFn) -> tuple[dict, Tensor, tuple[int, ...], list[int]]:
    order = draws(st.integers(2, 4))
    options: dict = {"order": order, "num_kv_heads": draws(st.sampled_from([1, 2, 6]))}
    kind = draws(st.sampled_from(["exact", "windows", "bounded", "tolerance", "rotary"]))
    if kind == "windows":
        window = st.none() | st.integers(1, 12)
        options["windows"] = draws(st.lists(window, min_size=order - 1, max_size=order - 1))
        if any(options["windows"]):
            options["sinks"] = draws(st.sampled_from([0, 1, 3]))
    if kind in ("exact", "windows"):
        options["distinct"] = draws(st.booleans())
    if kind == "bounded":
        options["bound"] = 3.0
    if kind == "tolerance":
        options |= {"bound": 1.0, "tolerance": 0.01, "method": "polynomial"}
    if kind == "rotary":
        options["rotary"] = 100.0
    batch, length = draws(st.sampled_from([(), (3,)])), draws(st.integers(1, 14))
    rows = []
    for _ in range(3):
        count, side = draws(st.integers(0, length)), draws(st.sampled_from(["left", "right", "anywhere"]))
        row = [i < count if side == "left" else i >= length - count for i in range(length)]
        rows.append(row if side != "anywhere" else draws(st.lists(st.booleans(), min_size=length, max_size=length)))
    mask = torch.tensor(rows) if batch else torch.tensor(rows[0])
    return options, mask, (*batch, length, 12), draws(st.lists(st.integers(0, length), max_size=6))


@settings(deadline=None, max_examples=150)
@given(padded_cases())
def test_any_split_with_padding_is_the_full_call_with_the_same_mask(case):
    """A query that attends only padding gives the output bias, in the full call and in decoding."""
    options, mask, shape, splits = case
    layer, x = make(**options), draw(*shape)
    cache = layer.cache(3 if len(shape) == 3 else None)
    with torch.no_grad():
        whole = layer(x, key_padding_mask=mask, is_causal=True)
        parts = decoded_with(layer, x, mask, splits, cache)
    torch.testing.assert_close(parts, whole, rtol=0, atol=1e-11 * max(float(whole.abs().max()), 1.0))


LEFT = torch.tensor([[True, True, True, False, False, False], [False] * 6, [True, False, False, False, False, False]])


NEAR_LINEAR = {"bound": 1.0, "tolerance": 1e-3, "method": "polynomial"}


@pytest.mark.parametrize("options", [{}, {"windows": [3, 5]}, {"windows": [None, 2]}, NEAR_LINEAR], ids=str)
def test_padding_on_the_left_has_no_effect(options):
    """In a layer without positions each padded prompt has the results of the prompt alone, in the prefill and later."""
    layer, x = make(**options), draw(3, 10, 12)
    cache = layer.cache(3)
    with torch.no_grad():
        prompt = layer.decode(x[:, :6], cache, key_padding_mask=LEFT)
        later = torch.cat([layer.decode(x[:, i : i + 1], cache) for i in range(6, 10)], 1)
        for row, skipped in enumerate(LEFT.sum(1).tolist()):
            alone = layer(x[row, skipped:], is_causal=True)
            found = torch.cat([prompt[row, skipped:], later[row]])
            torch.testing.assert_close(found, alone, rtol=0, atol=1e-11)
        unmasked = layer(x, is_causal=True)
        assert not torch.allclose(prompt[0, 4:], unmasked[0, 4:6], atol=1e-3)


@pytest.mark.parametrize("windows", [None, [3, 5]], ids=str)
def test_padding_is_reordered_trimmed_saved_and_pickled(windows):
    layer, x = make(windows=windows, sinks=3 if windows else 0), draw(3, 10, 12)
    chosen = [2, 0, 0]
    cache = layer.cache(3, spare=2)
    with torch.no_grad():
        layer.decode(x[:, :6], cache, key_padding_mask=LEFT)
        layer.decode(draw(3, 2, 12, seed=1), cache, key_padding_mask=torch.ones(3, 2, dtype=torch.bool))
        cache.trim(6)
        cache.reorder(chosen)
        other = layer.cache(3, spare=2)
        other.load_state_dict(load(save(cache.state_dict())))
        mask = torch.cat([LEFT[chosen], torch.zeros(3, 4, dtype=torch.bool)], 1)
        whole = layer(x[chosen], key_padding_mask=mask, is_causal=True)[:, 6:]
        for one in (pickle.loads(pickle.dumps(cache)), copy.deepcopy(cache), other, cache):
            output = decoded(layer, x[chosen, 6:], [1, 2], one)
            torch.testing.assert_close(output, whole, rtol=0, atol=1e-11)
        other.load_state_dict(layer.cache(3, spare=2).state_dict())  # saved without a mask
        torch.testing.assert_close(decoded(layer, x, [4], other), layer(x, is_causal=True), rtol=0, atol=1e-11)


@pytest.mark.parametrize(
    "bad", [torch.zeros(3, 5, dtype=torch.bool), torch.zeros(3, 6), torch.zeros(4, 6, dtype=torch.bool)], ids=str
)
def test_bad_padding_that_was_saved_is_refused(bad):
    layer = make()
    cache = layer.cache(3)
    layer.decode(draw(3, 6, 12), cache, key_padding_mask=LEFT)
    with pytest.raises(sx.ArgumentError, match=r"saved\['padding'\]: expected torch.bool of shape \(3, 6\), got"):
        cache.load_state_dict({**cache.state_dict(), "padding": bad})


def test_a_mask_that_does_not_fit_is_refused_and_adds_nothing():
    layer, x = make(), draw(3, 6, 12)
    cache = layer.cache(3)
    for bad in (LEFT[:, :5], LEFT[0], LEFT.double(), "left"):
        with pytest.raises(sx.ArgumentError, match="key_padding_mask: expected"):
            layer.decode(x, cache, key_padding_mask=bad)
    assert cache.tokens == (0, 0)


def test_a_layer_with_a_tolerance_leaves_padding_out_of_its_sums():
    """The sums are reordered, saved and pickled, and later tokens attend as in the full call; none can be removed."""
    layer, x, chosen = make(**NEAR_LINEAR), draw(3, 10, 12), [2, 0, 0]
    cache = layer.cache(3)
    with torch.no_grad():
        layer.decode(x[:, :6], cache, key_padding_mask=LEFT)
        cache.reorder(chosen)
        other = layer.cache(3)
        other.load_state_dict(load(save(cache.state_dict())))
        mask = torch.cat([LEFT[chosen], torch.zeros(3, 4, dtype=torch.bool)], 1)
        whole = layer(x[chosen], key_padding_mask=mask, is_causal=True)[:, 6:]
        for one in (pickle.loads(pickle.dumps(cache)), copy.deepcopy(cache), other, cache):
            output = decoded(layer, x[chosen, 6:], [1, 2], one)
            torch.testing.assert_close(output, whole, rtol=0, atol=1e-11)
            assert one.tokens == (10, 10)
        with pytest.raises(sx.ArgumentError, match="tokens cannot be removed from sums"):
            cache.trim(6)
        other.load_state_dict(layer.cache(3).state_dict())  # saved without a mask
        torch.testing.assert_close(decoded(layer, x, [4], other), layer(x, is_causal=True), rtol=0, atol=1e-11)


@pytest.mark.parametrize("options", [{"windows": [3, None]}, NEAR_LINEAR], ids=str)
def test_gradients_through_padding(options):
    layer, x = make(**options), draw(3, 6, 12).requires_grad_()
    cache = layer.cache(3)
    parts = torch.cat([layer.decode(x[:, :4], cache, key_padding_mask=LEFT[:, :4]), layer.decode(x[:, 4:], cache)], 1)
    weights = draw(3, 6, 12, seed=2)
    (gradients,) = torch.autograd.grad((parts * weights).sum(), x)
    (expected,) = torch.autograd.grad((layer(x, key_padding_mask=LEFT, is_causal=True) * weights).sum(), x)
    torch.testing.assert_close(gradients, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("options", [{}, {"windows": 4}, {"bound": 0.5, "tolerance": 0.01}])
@pytest.mark.parametrize("recorded", [False, True])
def test_a_shallow_copy_of_a_cache_has_its_own_tokens(options, recorded):
    layer, x, other = make(**options), draw(2, 9, 12), draw(2, 9, 12, seed=10)
    with torch.set_grad_enabled(recorded):
        cache = layer.cache(2)
        layer.decode(x[:, :4], cache)
        twin = copy.copy(cache)
        layer.decode(other[:, 4:], twin)
        output = layer.decode(x[:, 4:], cache)
        expected = layer(x, is_causal=True)[:, 4:]
        assert twin.tokens == cache.tokens == (9, 9)
        assert (output - expected).abs().max() <= (0.02 if "tolerance" in options else ROUNDING[x.dtype])


@pytest.mark.parametrize("options", [{}, {"bound": 0.5, "tolerance": 0.01}])
def test_a_cache_that_another_thread_uses_is_refused(options, monkeypatch):
    """The first decoding is paused inside its attention until the second decoding is refused."""
    layer, x = make(**options), draw(2, 6, 12)
    cache, expected = layer.cache(2), layer(x, is_causal=True)
    within, name = (state_module, "extend") if "tolerance" in options else (decoding, "attend_exactly")
    plain, waiting, released = getattr(within, name), threading.Event(), threading.Event()

    def paused(*given, **options):
        waiting.set()
        assert released.wait(60)
        return plain(*given, **options)

    monkeypatch.setattr(within, name, paused)
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(layer.decode, x, cache)
        try:
            assert waiting.wait(60)
            with pytest.raises(sx.SeparatrixError, match="another thread"):
                layer.decode(x, cache)
        finally:
            released.set()
        assert torch.allclose(future.result(), expected, atol=0.02 if "tolerance" in options else 1e-9)
    assert cache.tokens == (6, 6)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"windows": [None, 3], "sinks": 1},
        {"order": [2, 3], "rotary": 100.0},
        {"form": "pairwise", "alibi": True, "num_kv_heads": 1},
        {"bound": 1.0, "tolerance": 1e-2},
    ],
    ids=str,
)
def test_packed_sequences_continue_from_their_own_caches(options):
    """Packed sequences of different lengths, some without new tokens, are decoded as each sequence would be alone."""
    layer = TensorAttention(8, 2, **{"order": 3, **options}, dtype=torch.float64, generator=seeded())
    x = torch.randn(3, 9, 8, dtype=torch.float64, generator=seeded(1))
    caches, twins = ([layer.cache() for _ in range(3)] for _ in range(2))
    begin = [0, 0, 0]
    with torch.no_grad():
        for counts in ([4, 0, 1], [1, 5, 1], [0, 0, 0], [2, 1, 3]):
            parts = [x[s, b : b + count] for s, (b, count) in enumerate(zip(begin, counts, strict=True))]
            stops = torch.tensor([0, *counts]).cumsum(0)
            out = layer.decode(torch.cat(parts), caches, cu_seqlens=stops)
            alone = [layer.decode(part, twin) for part, twin in zip(parts, twins, strict=True) if len(part)]
            expected = torch.cat([out[:0], *alone])
            torch.testing.assert_close(out, expected, rtol=0, atol=1e-13)
            begin = [b + count for b, count in zip(begin, counts, strict=True)]
    assert [cache.tokens[0] for cache in caches] == begin


def test_packed_sequences_have_a_prefix_and_padding_each():
    layer = TensorAttention(8, 2, 3, dtype=torch.float64, generator=seeded())
    x = torch.randn(7, 8, dtype=torch.float64, generator=seeded(1))
    padding = torch.tensor([False, True, False, False, False, True, False])
    caches = [layer.cache(), layer.cache()]
    out = layer.decode(x, caches, cu_seqlens=torch.tensor([0, 4, 7]), key_padding_mask=padding, prefix=2)
    parts = [layer(x[p], key_padding_mask=padding[p], is_causal=True, prefix=2) for p in (slice(4), slice(4, 7))]
    torch.testing.assert_close(out, torch.cat(parts), rtol=0, atol=1e-13)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cache": "one"}, "cache: expected a list of 2 results of layer.cache"),
        ({"cache": "three"}, "got 3 entries"),
        ({"cache": "twice"}, "cache: expected a cache of its own for each packed sequence"),
        ({"cache": "batch"}, "cache: expected no batch, as x has"),
        ({"cu_seqlens": torch.tensor([0, 2, 6])}, "x: expected packed tokens without a batch"),
        ({"cu_seqlens": [0, 2, 5]}, "cu_seqlens: expected a tensor of cumulative lengths"),
        ({"prefix": 3}, "prefix: expected 0, or at most"),
    ],
)
def test_packed_decoding_refuses_and_changes_no_cache(change, message):
    layer = TensorAttention(8, 2, 3, generator=seeded())
    first, second = layer.cache(), layer.cache()
    caches = {"one": first, "three": [first, second, layer.cache()], "twice": [first, first]}
    caches |= {"batch": [first, layer.cache(1)]}
    cache = caches.get(change.get("cache"), [first, second])
    options = {"cu_seqlens": torch.tensor([0, 3, 5]), **{k: v for k, v in change.items() if k != "cache"}}
    with pytest.raises(sx.ArgumentError, match=message):
        layer.decode(torch.zeros(5, 8), cache, **options)
    assert first.tokens == second.tokens == (0, 0)


def test_no_new_token_with_padding_after_a_window_of_one() -> None:
    """The cache stores only the sinks, and no token of the window, from which the mask of a call was once derived."""
    layer = TensorAttention(8, 2, 3, windows=1, sinks=2, dtype=torch.float64)
    x = torch.randn(2, 3, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    padding = torch.tensor([[True, False, False], [False, False, True]])
    cache, outputs = layer.cache(2), []
    for start, stop in ((0, 2), (2, 2), (2, 3)):
        outputs.append(layer.decode(x[:, start:stop], cache, key_padding_mask=padding[:, start:stop]))
    expected = layer(x, is_causal=True, key_padding_mask=padding)
    torch.testing.assert_close(torch.cat(outputs, 1), expected, rtol=0, atol=1e-12)
