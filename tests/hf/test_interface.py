"""Tiny, randomly initialised models of `transformers`, with our attention against their own `sdpa`."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import (
    AttentionInterface,
    BertConfig,
    BertModel,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralModel,
    StaticCache,
)
from transformers.masking_utils import (
    and_masks,
    bidirectional_mask_function,
    causal_mask_function,
    sdpa_mask,
    sliding_window_overlay,
)

from separatrix import ArgumentError, SeparatrixError, certified_attention, tensor_attention
from separatrix.hf import register, report_heads
from separatrix.hf.interface import make_mask, read_layer, read_mask

pytest.importorskip("transformers")


SMALL = {"num_hidden_layers": 2, "intermediate_size": 24, "vocab_size": 31}


def seeded(make):
    """A model in float64 for evaluation, without changing the state of the global generator."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return make().double().eval()


def make_bert(spread):
    config = BertConfig(hidden_size=24, num_attention_heads=3, initializer_range=spread, **SMALL)
    return seeded(lambda: BertModel(config))


def make_llama(spread):
    config = LlamaConfig(
        hidden_size=32, num_attention_heads=4, num_key_value_heads=2, initializer_range=spread, pad_token_id=0, **SMALL
    )
    return seeded(lambda: LlamaForCausalLM(config))


MAKE = {"bert": make_bert, "llama": make_llama}
LARGE, LITTLE = 0.3, 0.1
"""The spread of the weights: scores that distinguish masks, and scores for which near-linear attention is cheap."""


def tokens(batch, length):
    return torch.randint(1, 31, (batch, length), generator=torch.Generator().manual_seed(batch + length))


def padding(kind, batch, length):
    mask = torch.ones(batch, length, dtype=torch.int64)
    if kind == "right":
        mask[0, length - 4 :] = 0
        mask[1, 1:] = 0
    elif kind == "left":
        mask[0, :3] = 0
    return None if kind == "none" else mask


def both(model, name, inputs, pick):
    """The model's outputs with its `sdpa` and with our attention."""
    found = []
    for implementation in ("sdpa", name):
        model.set_attn_implementation(implementation)
        with torch.no_grad():
            found.append(pick(model(**inputs)))
    return found


@pytest.mark.parametrize("kind", ["none", "all", "right", "left"])
@pytest.mark.parametrize("model_name", ["bert", "llama"])
def test_exact_equals_sdpa(model_name, kind):
    model = MAKE[model_name](LARGE)
    inputs = {"input_ids": tokens(3, 11), "attention_mask": padding(kind, 3, 11)}
    pick = (lambda out: out.last_hidden_state) if model_name == "bert" else (lambda out: out.logits)
    own, ours = both(model, register(), inputs, pick)
    real = slice(None) if inputs["attention_mask"] is None else inputs["attention_mask"].bool()
    torch.testing.assert_close(ours[real], own[real], rtol=1e-9, atol=1e-9)
    assert not torch.equal(own[0, -1], own[0, 0])


@pytest.mark.parametrize("model_name", ["bert", "llama"])
def test_gradients_equal_those_of_sdpa(model_name):
    model = MAKE[model_name](LARGE)
    found = []
    for implementation in ("sdpa", register()):
        model.set_attn_implementation(implementation)
        model.zero_grad()
        out = model(input_ids=tokens(2, 7), attention_mask=padding("right", 2, 7))[0]
        out[0, :3].square().sum().backward()
        found.append([p.grad.clone() for p in model.parameters() if p.grad is not None])
    assert len(found[0]) > 10
    torch.testing.assert_close(*found, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("prefer", ["cheapest", "near-linear"])
@pytest.mark.parametrize("model_name", ["bert", "llama"])
def test_certified_keeps_its_tolerance_in_every_layer(model_name, prefer, monkeypatch):
    """Each layer's output against exact attention of the layer's own inputs."""
    model = MAKE[model_name](LITTLE)
    tolerance, errors = 1e-2, []
    name = register(tolerance=tolerance, prefer=prefer)
    ours = AttentionInterface()[name]

    def watched(*arguments, **options):
        out, weights = ours(*arguments, **options)
        layer = read_layer(*arguments, **options)
        exact = tensor_attention(
            layer.query,
            layer.key,
            layer.value,
            key_masks=layer.pattern.seen,
            enable_gqa=layer.groups > 1,
            **layer.options,
        )
        errors.append(float((out.transpose(1, 2) - exact).abs().max()))
        return out, weights

    monkeypatch.setitem(AttentionInterface._global_mapping, name, watched)
    model.set_attn_implementation(name)
    with torch.no_grad():
        model(input_ids=tokens(2, 9), attention_mask=padding("right", 2, 9))
    assert len(errors) == 2
    assert max(errors) <= tolerance
    if prefer == "near-linear":
        assert max(errors) > 1e-12, "no head was approximated"


def test_generation_with_a_cache():
    llama = make_llama(LITTLE)
    found = []
    for implementation in ("sdpa", register(), register(tolerance=1e-6)):
        llama.set_attn_implementation(implementation)
        out = llama.generate(
            tokens(2, 5), attention_mask=padding("left", 2, 5), max_new_tokens=4, do_sample=False, pad_token_id=0
        )
        found.append(out)
    assert found[0].shape == (2, 9)
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


@pytest.mark.parametrize("kind", ["none", "left"])
def test_a_prefill_in_pieces_and_a_static_cache(kind):
    llama = make_llama(LARGE)
    whole, mask = tokens(2, 9), padding(kind, 2, 9)
    found = []
    for implementation in ("sdpa", register()):
        llama.set_attn_implementation(implementation)
        for cache in (None, StaticCache(config=llama.config, max_cache_len=13)):
            with torch.no_grad():
                first = llama(
                    whole[:, :4],
                    attention_mask=None if mask is None else mask[:, :4],
                    past_key_values=cache,
                    use_cache=True,
                )
                second = llama(whole[:, 4:], attention_mask=mask, past_key_values=first.past_key_values)
            found.append(second.logits)
    for other in found[1:]:
        torch.testing.assert_close(other, found[0], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", ["none", "right"])
def test_a_sliding_window(kind):
    config = MistralConfig(
        hidden_size=16, num_attention_heads=2, num_key_value_heads=1, sliding_window=4, initializer_range=0.3, **SMALL
    )
    model = seeded(lambda: MistralModel(config))
    inputs = {"input_ids": tokens(2, 10), "attention_mask": padding(kind, 2, 10)}
    own, ours = both(model, register(), inputs, lambda out: out.last_hidden_state)
    real = slice(None) if inputs["attention_mask"] is None else inputs["attention_mask"].bool()
    torch.testing.assert_close(ours[real], own[real], rtol=1e-9, atol=1e-9)
    model.set_attn_implementation(register(tolerance=1e-6, prefer="near-linear"))
    with torch.no_grad():
        close = model(**inputs).last_hidden_state
    torch.testing.assert_close(close[real], own[real], rtol=0, atol=1e-3)


def test_packed_sequences_are_refused():
    llama = make_llama(LARGE)
    llama.set_attn_implementation(register())
    positions = torch.tensor([[0, 1, 2, 0, 1, 2]])
    with pytest.raises(ArgumentError, match="attention_mask: expected padding, causal, or causal with one sliding"):
        llama(tokens(1, 6), position_ids=positions, use_cache=False)


def test_dropout_is_refused():
    bert = make_bert(LARGE)
    bert.set_attn_implementation(register())
    bert.train()
    with pytest.raises(ArgumentError, match=r"dropout: expected 0 \(the weights are never stored"):
        bert(tokens(1, 4))


@pytest.mark.parametrize("name", ["softcap", "position_bias", "s_aux", "head_mask", "cache", "output_attentions"])
def test_unsupported_arguments_are_refused(name):
    x = torch.zeros(1, 1, 2, 3)
    with pytest.raises(ArgumentError, match=f"^{name}: expected"):
        read_layer(torch.nn.Identity(), x, x, x, None, **{name: 1.0})


def test_bad_arguments():
    with pytest.raises(ArgumentError, match="prefer: expected 'cheapest' or 'near-linear'"):
        register(tolerance=1e-3, prefer="fastest")
    with pytest.raises(ArgumentError, match="prefer: expected 'cheapest' without a tolerance"):
        register(prefer="near-linear")
    with pytest.raises(ArgumentError, match="tolerance: expected a positive finite number"):
        register(tolerance=0.0)


def test_tolerances_have_names_of_their_own():
    names = {
        register(),
        *(register(tolerance=t) for t in (1e-3, 1.0000001e-3)),
        register(tolerance=1e-3, prefer="near-linear"),
    }
    assert len(names) == 4


def test_report_heads():
    bert = make_bert(LITTLE)
    inputs = {"input_ids": tokens(2, 8), "attention_mask": padding("right", 2, 8)}
    before = bert.config._attn_implementation
    heads = report_heads(bert, inputs, tolerance=1e-2)
    assert bert.config._attn_implementation == before
    assert [(head.layer, head.head) for head in heads] == [
        (f"encoder.layer.{layer}.attention.self", head) for layer in range(2) for head in range(3)
    ]
    attention = bert.encoder.layer[0].attention.self
    with torch.no_grad():
        x = bert.embeddings(inputs["input_ids"])
        split = [f(x).unflatten(-1, (3, 8)).transpose(1, 2) for f in (attention.query, attention.key, attention.value)]
    for h, head in enumerate(heads[:3]):
        q, k, v = (part[:, h] for part in split)
        seen = inputs["attention_mask"].bool()
        scores = 8**-0.5 * q @ k.mT
        spans = [(row[seen[b]].max() - row[seen[b]].min()).item() for b in range(2) for row in scores[b]]
        assert head.span == pytest.approx(max(spans), abs=1e-12)
        mean = (k * seen.unsqueeze(-1)).sum(1, keepdim=True) / seen.sum(1).reshape(2, 1, 1)
        centred = (k - mean).abs().masked_fill(~seen.unsqueeze(-1), 0.0)
        b = (8**-0.5 * q.abs().amax(1) * centred.amax(1)).amax(0)
        assert head.amplitudes == pytest.approx(b.tolist())
        assert head.span <= 2 * head.radius * (1 + 1e-6)
        assert head.entry_bound == pytest.approx(max(q.abs().max().item(), k.abs().max().item()))
        assert head.tokens == 8
        assert head.plan is not None
        again = certified_attention(q, k, v, key_masks=seen, scale=8**-0.5, tolerance=1e-2, method="polynomial")
        assert (head.plan.rank, head.error) == (again.plan.rank, again.certificate.total)
        assert head.error <= 1e-2
        assert head.faster_from is None or head.faster_from > 8


def test_a_head_out_of_reach_is_reported_as_such():
    bert = make_bert(LITTLE)
    with torch.no_grad():
        bert.encoder.layer[1].attention.self.query.weight[8:16] *= 1000
    heads = report_heads(bert, {"input_ids": tokens(1, 8)}, tolerance=1e-2)
    far = heads[3 + 1]
    assert far.plan is far.error is far.faster_from is None
    assert "no polynomial of rank up to 131072 keeps 0.01" in far.why
    assert far.radius > 50
    assert heads[3].plan is not None
    bert.set_attn_implementation(register(tolerance=1e-2, prefer="near-linear"))
    with torch.no_grad():
        bert(tokens(1, 8))  # exact attention for that head, without an error


def test_a_plan_in_another_basis_is_found_at_a_few_tokens():
    """Six centred keys span five of 32 directions: a polynomial keeps the tolerance only in a basis of these five.

    Exact attention is cheaper at this length, but a report names the plan that exists.
    """
    config = BertConfig(hidden_size=64, num_attention_heads=2, initializer_range=0.15, **SMALL)
    bert = seeded(lambda: BertModel(config))
    heads = report_heads(bert, {"input_ids": tokens(1, 6)}, tolerance=1e-1)
    attention = bert.encoder.layer[0].attention.self
    with torch.no_grad():
        x = bert.embeddings(tokens(1, 6))
        split = [f(x).unflatten(-1, (2, 32)).transpose(1, 2) for f in (attention.query, attention.key, attention.value)]
    for h, head in enumerate(heads[:2]):
        q, k, v = (part[:, h] for part in split)
        again = certified_attention(q, k, v, scale=32**-0.5, tolerance=1e-1, method="polynomial")
        assert head.plan is not None
        assert (head.plan.rank, head.error) == (again.plan.rank, again.certificate.total)
        assert head.plan.rank == math.comb(5 + head.plan.degree, head.plan.degree)
        exact = tensor_attention(q, k, v, scale=32**-0.5)
        assert 0 < (again.output - exact).abs().max() <= head.error <= 1e-1
    assert all(head.plan is not None for head in heads)
    bert.set_attn_implementation(register())
    exact = bert(tokens(1, 6)).last_hidden_state
    bert.set_attn_implementation(register(tolerance=1e-1, prefer="near-linear"))
    assert (bert(tokens(1, 6)).last_hidden_state != exact).any(), "exact attention ran in place of the plans"


def test_causal_and_grouped_heads_are_reported():
    llama = make_llama(LITTLE)
    heads = report_heads(llama, {"input_ids": tokens(2, 6)}, tolerance=1e-1)
    assert len(heads) == 2 * 4
    assert heads[0].layer == "model.layers.0.self_attn"
    with pytest.raises(SeparatrixError, match="tolerance"):
        report_heads(llama, {"input_ids": tokens(2, 6)}, tolerance=-1)


def test_a_model_is_left_as_it_was_after_an_error():
    bert = make_bert(LARGE)
    before = bert.config._attn_implementation
    bert.train()
    with pytest.raises(ArgumentError, match="dropout"):
        report_heads(bert, {"input_ids": tokens(1, 4)}, tolerance=1e-2)
    assert bert.config._attn_implementation == before


def test_without_the_extra_the_error_says_so(forked):
    code = (
        "import sys; sys.modules['transformers'] = None\ntry:\n import separatrix.hf\nexcept ImportError as e: print(e)"
    )
    done = forked(code)
    assert "pip install 'separatrix[hf]'" in done.stdout, done.stderr


pytest.importorskip("transformers")


CPU = torch.device("cpu")


@st.composite
def masks(draw):
    """A mask defined entry by entry, and its sizes."""
    batch, heads = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    queries, keys = draw(st.integers(1, 6)), draw(st.integers(1, 7))
    offset = draw(st.none() | st.integers(-1, 7))
    window = None if offset is None else draw(st.none() | st.integers(1, 7))
    seen = draw(st.lists(st.booleans(), min_size=batch * heads * keys, max_size=batch * heads * keys))
    mask = torch.zeros(batch, heads, queries, keys, dtype=torch.bool)
    for b in range(batch):
        for h in range(heads):
            for i in range(queries):
                for j in range(keys):
                    near = window is None or j > i + offset - window
                    past = offset is None or j <= i + offset
                    mask[b, h, i, j] = seen[(b * heads + h) * keys + j] and near and past
    return mask


@given(masks())
def test_a_pattern_gives_its_mask_or_is_refused(mask):
    """Padding may hide the difference between two patterns: another pattern with the same mask is equally good."""
    queries, keys = mask.shape[-2:]
    try:
        pattern = read_mask(mask, queries, keys)
    except ArgumentError:
        # Only masks with a window whose upper end is not visible in any key are refused.
        seen = mask.any(-2, keepdim=True)
        assert not torch.equal(mask, seen.expand_as(mask)), "a mask of padding alone was refused"
        assert (mask.int().diff(dim=-2) < 0).any(), "a causal mask was refused"
        return
    assert torch.equal(pattern.allowed(range(queries), keys, CPU).expand_as(mask), mask)


@given(masks(), st.data())
def test_one_entry_changed_is_another_mask(mask, data):
    """If a pattern is found for a mask with one entry changed, it gives exactly this mask."""
    changed = mask.clone()
    where = data.draw(st.integers(0, mask.numel() - 1))
    changed.view(-1)[where] ^= True
    try:
        pattern = read_mask(changed, *mask.shape[-2:])
    except ArgumentError:
        return
    assert torch.equal(pattern.allowed(range(mask.shape[-2]), mask.shape[-1], CPU).expand_as(mask), changed)


@pytest.mark.parametrize(("queries", "keys", "offset"), [(5, 5, 0), (3, 8, 5), (4, 9, 2), (1, 6, 5)])
@pytest.mark.parametrize("window", [None, 2, 3])
@pytest.mark.parametrize("padded", [False, True])
def test_masks_of_transformers(queries, keys, offset, window, padded):
    function = (
        causal_mask_function if window is None else and_masks(sliding_window_overlay(window), causal_mask_function)
    )
    attention = torch.ones(2, keys, dtype=torch.bool)
    if padded:
        attention[0, :1] = False
        attention[1, 2] = False
    options = {"q_offset": offset, "mask_function": function, "attention_mask": attention}
    mask = make_mask(2, queries, keys, allow_is_causal_skip=False, **options)
    own = sdpa_mask(2, queries, keys, allow_is_causal_skip=False, **options)
    assert torch.equal(mask, own)
    pattern = read_mask(mask, queries, keys)
    assert torch.equal(pattern.allowed(range(queries), keys, CPU).expand_as(mask), mask)
    if queries > 1 and not padded:
        assert (pattern.offset, pattern.window) == (offset, window)


@pytest.mark.parametrize("skip", [False, True])
def test_padding_is_one_row(skip):
    attention = torch.tensor([[True, True, False], [True, True, True]])
    options = {"mask_function": bidirectional_mask_function, "allow_is_bidirectional_skip": skip}
    mask = make_mask(2, 500, 3, attention_mask=attention, **options)
    assert mask.shape == (2, 1, 1, 3)
    own = sdpa_mask(2, 500, 3, attention_mask=attention, allow_is_causal_skip=False, **options)
    assert torch.equal(mask.expand_as(own), own)
    assert torch.equal(read_mask(mask, 500, 3).seen, attention.unsqueeze(1))
    nothing_hidden = make_mask(2, 500, 3, attention_mask=torch.ones_like(attention), **options)
    assert (nothing_hidden is None) == skip
    short = make_mask(2, 4, 5, attention_mask=attention, **options)  # a cache that is longer than the input
    assert short[0, 0, 0].tolist() == [True, True, False, False, False]


@pytest.mark.parametrize(
    ("mask", "got"),
    [
        (torch.zeros(1, 1, 2, 3), "torch.float32"),
        (torch.ones(2, 3, dtype=torch.bool), r"shape \(2, 3\)"),
        (torch.ones(1, 1, 3, 3, dtype=torch.bool), r"shape \(1, 1, 3, 3\)"),
        (torch.ones(1, 1, 2, 4, dtype=torch.bool), r"shape \(1, 1, 2, 4\)"),
        ("mask", "str"),
    ],
)
def test_values_that_are_not_masks(mask, got):
    with pytest.raises(ArgumentError, match=f"attention_mask: expected .*got {got}"):
        read_mask(mask, 2, 3)
