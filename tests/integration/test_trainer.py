"""`Trainer` of transformers with a model of our layers: its steps are those of a plain loop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import Dataset

pytest.importorskip("transformers")
pytest.importorskip("accelerate")

from transformers import Trainer, TrainingArguments

from separatrix.hf import TensorAttentionConfig, TensorAttentionForCausalLM

STEPS, BATCH, RATE = 5, 4, 0.1
ATTENTION = {
    "exact": {"order": 3},
    "near-linear": {"order": 3, "bound": 1.0, "tolerance": 1e-3, "method": "polynomial"},
}


class Copies(Dataset[dict[str, torch.Tensor]]):
    """Sequences of random tokens that repeat after six tokens."""

    def __len__(self) -> int:
        return STEPS * BATCH

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        tokens = torch.randint(1, 11, (6,), generator=torch.Generator().manual_seed(index)).repeat(2)
        labels = tokens.clone()
        labels[0] = -100  # nothing predicts the first token, and Trainer of transformers 5.4 would count it
        return {"input_ids": tokens, "labels": labels, "attention_mask": torch.ones_like(tokens)}


def model(kind: str) -> TensorAttentionForCausalLM:
    config = TensorAttentionConfig(
        vocab_size=11, hidden_size=16, num_attention_heads=2, intermediate_size=32, attention=ATTENTION[kind]
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return TensorAttentionForCausalLM(config)


def plain_loop(lm: TensorAttentionForCausalLM) -> list[float]:
    """The losses of gradient descent on the batches in their order, from the definition of the loss."""
    data = Copies()
    optimiser = torch.optim.SGD(lm.parameters(), lr=RATE)
    losses = []
    for step in range(STEPS):
        tokens = torch.stack([data[step * BATCH + row]["input_ids"] for row in range(BATCH)])
        logits = lm(input_ids=tokens).logits
        loss = torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return losses


def train(lm: TensorAttentionForCausalLM, folder: Path, **options: Any) -> Trainer:
    arguments = TrainingArguments(
        output_dir=str(folder),
        max_steps=STEPS,
        per_device_train_batch_size=BATCH,
        optim="sgd",
        learning_rate=RATE,
        lr_scheduler_type="constant",
        max_grad_norm=0.0,
        logging_steps=1,
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
        seed=0,
        train_sampling_strategy="sequential",
        dataloader_pin_memory=False,
        **options,
    )
    trainer = Trainer(model=lm, args=arguments, train_dataset=Copies())
    trainer.train()
    return trainer


@pytest.mark.parametrize("kind", ATTENTION)
def test_trainer_takes_the_steps_of_a_plain_loop(kind: str, tmp_path: Path) -> None:
    lm, other = model(kind), model(kind)
    trainer = train(lm, tmp_path, save_strategy="no")
    expected = plain_loop(other)
    losses = [record["loss"] for record in trainer.state.log_history if "loss" in record]
    assert losses == pytest.approx(expected, abs=2e-3)  # Trainer rounds the losses to four digits
    for (name, ours), theirs, start in zip(
        lm.named_parameters(), other.parameters(), model(kind).parameters(), strict=True
    ):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5, msg=name)
        assert not torch.equal(ours, start), f"{name} was not trained"


def test_a_checkpoint_of_trainer_is_loaded(tmp_path: Path) -> None:
    lm = model("near-linear")
    train(lm, tmp_path, save_strategy="steps", save_steps=STEPS)
    again = TensorAttentionForCausalLM.from_pretrained(tmp_path / f"checkpoint-{STEPS}", local_files_only=True)
    for (name, ours), theirs in zip(lm.named_parameters(), again.parameters(), strict=True):
        assert torch.equal(ours, theirs), name
