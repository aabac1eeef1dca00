"""LoRA of PEFT on the projections of our layers: only its weights are trained, and merging them changes no output."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

pytest.importorskip("transformers")
from separatrix.hf import TensorAttentionConfig, TensorAttentionForCausalLM

peft = pytest.importorskip("peft")

KINDS: dict[str, dict[str, Any]] = {
    "exact": {"order": 3, "num_kv_heads": 1},
    "near-linear": {"order": 3, "bound": 1.0, "tolerance": 1e-3, "method": "polynomial"},
    "distinct, sinks": {"order": 3, "distinct": True, "windows": 4, "sinks": 1},
    "mixed orders, key bias": {"order": [2, 3], "key_bias": 2},
}
TARGETS = r".*attention\.(q_proj|out_proj|(k|v|bias)_proj\.\d+)"
"""All projections; the key and value sets are numbered."""


def model(kind: str) -> TensorAttentionForCausalLM:
    config = TensorAttentionConfig(
        vocab_size=11, hidden_size=16, num_attention_heads=2, intermediate_size=32, attention=KINDS[kind]
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return TensorAttentionForCausalLM(config).double()


def with_lora(kind: str) -> Any:
    config = peft.LoraConfig(r=2, lora_alpha=4, target_modules=TARGETS, task_type="CAUSAL_LM")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        return peft.get_peft_model(model(kind), config)


def tokens() -> Tensor:
    return torch.randint(1, 11, (3, 9), generator=torch.Generator().manual_seed(2))


def train(lm: Any) -> list[float]:
    optimiser = torch.optim.Adam([p for p in lm.parameters() if p.requires_grad], lr=1e-2)
    losses = []
    for _ in range(5):
        loss = lm(input_ids=tokens(), labels=tokens()).loss
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("kind", KINDS)
def test_lora_trains_its_own_weights_alone(kind: str) -> None:
    lm = with_lora(kind)
    before = {name: parameter.detach().clone() for name, parameter in lm.named_parameters()}
    adapted = [name for name, parameter in lm.named_parameters() if parameter.requires_grad]
    projections = 8 if "key_bias" in KINDS[kind] else 6
    assert len(adapted) == 2 * 2 * projections, "two layers have projections, and each of these two matrices"
    losses = train(lm)
    assert losses[-1] < losses[0]
    for name, parameter in lm.named_parameters():
        assert torch.equal(parameter, before[name]) == (name not in adapted), name


@pytest.mark.parametrize("kind", KINDS)
def test_merged_saved_and_generating(kind: str, tmp_path: Path) -> None:
    lm = with_lora(kind)
    train(lm)
    lm.eval()
    inputs = {"input_ids": tokens(), "attention_mask": torch.ones_like(tokens())}
    with torch.no_grad():
        logits = lm(**inputs).logits
        plain = model(kind).eval()(**inputs).logits
    assert (logits - plain).abs().max() > 1e-3
    options = {"max_new_tokens": 4, "do_sample": False, "pad_token_id": 0}
    generated = lm.generate(**inputs, **options)
    assert torch.equal(generated, lm.generate(**inputs, **options, use_cache=False))

    lm.save_pretrained(tmp_path)
    again = peft.PeftModel.from_pretrained(model(kind), tmp_path).eval()
    with torch.no_grad():
        torch.testing.assert_close(again(**inputs).logits, logits, rtol=0, atol=1e-12)
        merged = lm.merge_and_unload()
        torch.testing.assert_close(merged(**inputs).logits, logits, rtol=0, atol=1e-10)
    assert torch.equal(merged.generate(**inputs, **options), generated)
