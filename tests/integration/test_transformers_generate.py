"""`generate` of transformers with a model of our layers: a `LayerCache` gives the results without a cache."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

pytest.importorskip("transformers")

from transformers import AutoModelForCausalLM, DynamicCache

from separatrix.errors import ArgumentError, SeparatrixError
from separatrix.hf import LayerCache, TensorAttentionConfig, TensorAttentionForCausalLM, key_padding_mask
from separatrix.nn import TensorAttention

PAD, VOCABULARY = 0, 29
ATTENTION: dict[str, dict[str, Any]] = {
    "order 2": {"order": 2, "scale": 2.0},
    "order 3": {"scale": 2.0},
    "rotary, grouped": {"scale": 2.0, "rotary": 100.0, "num_kv_heads": 1},
    "in windows": {"scale": 2.0, "windows": (6, 3)},
    "bounded": {"bound": 2.0},
    "near-linear": {"bound": 1.0, "tolerance": 1e-3, "method": "polynomial"},
}
MODES: dict[str, dict[str, Any]] = {
    "greedy": {"do_sample": False},
    "beam": {"do_sample": False, "num_beams": 3, "num_return_sequences": 2},
    "sampling": {"do_sample": True, "top_k": 7, "temperature": 1.5, "num_return_sequences": 2},
    "beam sampling": {"do_sample": True, "num_beams": 2},
}


def model(kind: str, *, seed: int = 0) -> TensorAttentionForCausalLM:
    """A model in float64 with logits so spread that most sequences differ."""
    config = TensorAttentionConfig(
        vocab_size=VOCABULARY,
        hidden_size=16,
        num_attention_heads=2,
        intermediate_size=24,
        attention=ATTENTION[kind],
        initializer_range=0.6,
        pad_token_id=PAD,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return TensorAttentionForCausalLM(config).double().eval()


def prompts(lengths: tuple[int, ...] = (7, 4, 2)) -> dict[str, Tensor]:
    """Prompts of several lengths, padded on the left."""
    most = max(lengths)
    tokens = torch.randint(1, VOCABULARY, (len(lengths), most), generator=torch.Generator().manual_seed(1))
    mask = torch.arange(most) >= most - torch.tensor(lengths).unsqueeze(1)
    return {"input_ids": tokens.masked_fill(~mask, PAD), "attention_mask": mask.long()}


def generated(model: TensorAttentionForCausalLM, mode: str, inputs: dict[str, Tensor], **options: Any) -> Any:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        return model.generate(
            **inputs,
            max_new_tokens=9,
            return_dict_in_generate=True,
            output_logits=True,
            eos_token_id=5,
            **MODES[mode],
            **options,
        )


def step_by_step(model: TensorAttentionForCausalLM, prompt: Tensor, steps: int) -> Tensor:
    """The greedy continuation of one prompt without padding, cache or `generate`."""
    tokens = prompt
    for _ in range(steps):
        with torch.no_grad():
            logits = model(input_ids=tokens.unsqueeze(0)).logits
        tokens = torch.cat([tokens, logits[0, -1].argmax().reshape(1)])
    return tokens[len(prompt) :]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ATTENTION)
def test_a_cache_changes_nothing(kind: str, mode: str) -> None:
    lm, inputs = model(kind), prompts()
    with_cache = generated(lm, mode, inputs)
    without = generated(lm, mode, inputs, use_cache=False)
    assert isinstance(with_cache.past_key_values, LayerCache)
    assert without.past_key_values is None
    assert torch.equal(with_cache.sequences, without.sequences)
    torch.testing.assert_close(with_cache.logits, without.logits, rtol=0, atol=1e-9)
    continuations = {tuple(row) for row in with_cache.sequences[:, 7:].tolist()}
    assert len(continuations) > 1, "all sequences are the same, and a test of them shows little"


@pytest.mark.parametrize("kind", ATTENTION)
def test_prompts_padded_on_the_left_are_continued_as_they_are_alone(kind: str) -> None:
    lm, lengths = model(kind), (7, 4, 2)
    inputs = prompts(lengths)
    batch = lm.generate(**inputs, max_new_tokens=8, do_sample=False)[:, 7:]
    for row, length in enumerate(lengths):
        assert torch.equal(batch[row], step_by_step(lm, inputs["input_ids"][row, 7 - length :], 8))


def test_wrongly_guessed_tokens_are_removed() -> None:
    """Prompt lookup guesses tokens, runs them in one call and crops the cache to the correct ones."""
    lm = model("order 3")
    inputs = {"input_ids": torch.tensor([[3, 4, 5, 6, 3, 4, 5, 6, 3, 4]])}
    options = {"max_new_tokens": 12, "do_sample": False, "eos_token_id": VOCABULARY - 1}
    expected = lm.generate(**inputs, **options)
    generated = lm.generate(**inputs, **options, prompt_lookup_num_tokens=3)
    assert torch.equal(generated, expected)


@pytest.mark.parametrize("kind", ["order 3", "near-linear"])
def test_generation_continues_from_a_cache(kind: str) -> None:
    """A prompt shared by several continuations is decoded once; a copy of its cache is continued."""
    lm = model(kind)
    tokens = torch.randint(1, VOCABULARY, (2, 11), generator=torch.Generator().manual_seed(4))
    with torch.no_grad():
        cache = lm(input_ids=tokens[:, :6], use_cache=True).past_key_values
    assert cache.get_seq_length() == 6
    assert cache.layers[0].batch_size == 2
    for _ in range(2):
        generated = lm.generate(tokens, past_key_values=copy.deepcopy(cache), max_new_tokens=5, do_sample=False)
        assert torch.equal(generated, lm.generate(tokens, max_new_tokens=5, do_sample=False, use_cache=False))


@pytest.mark.parametrize("kind", ["order 3", "near-linear"])
def test_the_batch_of_a_cache_is_chosen_and_repeated(kind: str) -> None:
    layer = TensorAttention(8, 2, dtype=torch.float64, **ATTENTION[kind])
    x = torch.randn(3, 6, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    cache = LayerCache()
    with torch.no_grad():
        expected = layer(x, is_causal=True)
        cache.decode(layer, x[:, :5], 0)
        cache.batch_select_indices(torch.tensor([2, 0]))
        cache.batch_repeat_interleave(2)
        output = cache.decode(layer, x[[2, 2, 0, 0], 5:], 0)
        torch.testing.assert_close(output, expected[[2, 2, 0, 0], 5:], rtol=0, atol=1e-9)
        cache.reset()
        assert cache.get_seq_length() == 0
        torch.testing.assert_close(cache.decode(layer, x, 0), expected, rtol=0, atol=1e-9)


def test_a_saved_model_is_loaded_with_its_configuration(tmp_path: Path) -> None:
    lm = model("near-linear")
    lm.save_pretrained(tmp_path)
    again = AutoModelForCausalLM.from_pretrained(tmp_path, local_files_only=True, dtype=torch.float64).eval()
    assert isinstance(again, TensorAttentionForCausalLM)
    for (name, ours), (_, theirs) in zip(lm.named_parameters(), again.named_parameters(), strict=True):
        assert torch.equal(ours, theirs), name
    assert torch.equal(*(x.generate(**prompts(), max_new_tokens=4, do_sample=False) for x in (lm, again)))


def test_unsupported_cache_operations_are_errors() -> None:
    layer = TensorAttention(8, 2, bound=1.0, tolerance=1e-3)
    cache = LayerCache()
    x = torch.zeros(1, 3, 8)
    with pytest.raises(ArgumentError, match="layer_idx"):
        cache.decode(layer, x, 1)
    with pytest.raises(ArgumentError, match=r"layer: expected a nn\.TensorAttention"):
        cache.decode(torch.nn.Linear(8, 8), x, 0)
    cache.decode(layer, x, 0)
    assert not cache.layers[0].is_croppable
    with pytest.raises(ArgumentError, match="tokens cannot be removed from sums"):
        cache.crop(-1)
    with pytest.raises(SeparatrixError, match="call its `decode`"):
        cache.update(x, x, 0)
    other = DynamicCache()
    assert LayerCache.of(other).get_seq_length() == 0
    other.update(torch.zeros(1, 2, 3, 4), torch.zeros(1, 2, 3, 4), 0)
    with pytest.raises(ArgumentError, match="past_key_values: expected None or a LayerCache, got DynamicCache"):
        LayerCache.of(other)
    with pytest.raises(ArgumentError, match="attention_mask"):
        key_padding_mask(torch.ones(1, 2), 3)
