"""What the heads of a model are like on real inputs: how large their scores are, and whether near-linear would do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel

from separatrix.attention.certified import plan_call
from separatrix.attention.entries import pieces
from separatrix.attention.planning.cost import Shape, exact_cost, polynomial_cost
from separatrix.attention.planning.forecast import amplitudes
from separatrix.attention.planning.plan import Plan, check_tolerance
from separatrix.attention.polynomial.products import expanded
from separatrix.errors import ArgumentError
from separatrix.hf.interface import Answer, Layer, attend, laid_out, near_linear, read_layer
from separatrix.hf.masks import make_mask

_NAME = "separatrix-report"


@dataclass(frozen=True)
class HeadReport:
    """One head on one batch of inputs, the largest over the batch.

    layer, head: the module's name in the model, and the head's number.
    tokens: how many keys there are, padding too.
    entry_bound: B, the largest magnitude in queries and keys.
    amplitudes: b_l = scale * max |q_l| * max |k_l - mean of k_l| of the coordinates that are not zero throughout; the
        keys are centred where the head is not causal, which no softmax sees. Their sum bounds every centred score.
    radius: the bound on a centred score that plans and certificates use, in the coordinates that are best for it.
    span: the largest difference between two scores of one query, as they are.
    plan, error: near-linear attention that keeps the tolerance, and its certified error; None where none does.
    why: the plan's reason, or why exact attention it is.
    faster_from: the least power of two of tokens at which this rank is expected to beat exact attention.
    """

    layer: str
    head: int
    tokens: int
    entry_bound: float
    amplitudes: tuple[float, ...]
    radius: float
    span: float
    plan: Plan | None
    error: float | None
    why: str
    faster_from: int | None


_seen: ContextVar[list[tuple[nn.Module, Layer]]] = ContextVar("seen")


def _record(module: nn.Module, *arguments: Any, **options: Any) -> Answer:
    """Exact attention that leaves its arguments in `_seen`."""
    layer = read_layer(module, *arguments, **options)
    _seen.get().append((module, layer))
    return laid_out(attend(layer)), None


def report_heads(model: PreTrainedModel, inputs: Mapping[str, Any], *, tolerance: float) -> list[HeadReport]:
    """Run the model once on `inputs`, exactly, and report on each head of each layer.

    Whether a certified plan exists is found by running it: near-linear attention of the head at the tolerance, whether
    or not that is cheaper at this length. The model is left as it was.

    >>> from transformers import BertConfig, BertModel
    >>> tiny = BertConfig(hidden_size=8, num_attention_heads=2, num_hidden_layers=1, intermediate_size=8, vocab_size=9)
    >>> model = BertModel(tiny).eval()
    >>> heads = report_heads(model, {"input_ids": torch.tensor([[1, 2, 3, 4]])}, tolerance=1e-2)
    >>> [(head.layer, head.head, head.tokens) for head in heads]
    [('encoder.layer.0.attention.self', 0, 4), ('encoder.layer.0.attention.self', 1, 4)]
    """
    tolerance = check_tolerance(tolerance)
    names = {module: name for name, module in model.named_modules()}
    recorded: list[tuple[nn.Module, Layer]] = []
    token = _seen.set(recorded)
    try:
        with torch.no_grad(), _recording(model):
            model(**inputs)
    finally:
        _seen.reset(token)
    if not recorded:
        raise ArgumentError(
            "model", expected="one whose layers call the attention interface of transformers", got=type(model).__name__
        )
    with torch.no_grad():
        return [_head(names[module], h, layer, tolerance) for module, layer in recorded for h in range(_heads(layer))]


def _heads(layer: Layer) -> int:
    return layer.query.shape[1]


@contextmanager
def _recording(model: PreTrainedModel) -> Iterator[None]:
    AttentionInterface.register(_NAME, _record)
    AttentionMaskInterface.register(_NAME, make_mask)
    parts = [part for part in model.modules() if isinstance(part, PreTrainedModel)]  # outer ones first
    before = [part.config._attn_implementation for part in parts]
    model.set_attn_implementation(_NAME)
    try:
        yield
    finally:
        for part, name in zip(parts, before, strict=True):
            part.set_attn_implementation(name)


def _head(name: str, h: int, layer: Layer, tolerance: float) -> HeadReport:
    call = layer.call(h)
    given, _ = plan_call(call, tolerance, "exact")
    analysis, cheapest = plan_call(call, tolerance, "auto")  # perhaps in another basis
    found = near_linear(call, tolerance, analysis)
    return HeadReport(
        layer=name,
        head=h,
        tokens=analysis.shape.key_lengths[0],
        entry_bound=given.entry_bound(),
        amplitudes=tuple(amplitudes(given).tolist()),
        radius=analysis.radius,
        span=_span(layer, h),
        plan=None if found is None else found.plan,
        error=None if found is None else found.certificate.total,
        why=cheapest.why if found is None else found.plan.why,
        faster_from=None if found is None else _faster_from(analysis.shape, found.plan),
    )


def _span(layer: Layer, h: int) -> float:
    """max over queries of (max - min) over the keys that the query may attend, by blocks of queries, in float64."""
    query, key = layer.query[:, h], layer.key[:, h // layer.groups]
    widest = 0.0
    for start, stop in pieces(query.shape[1], 256):
        scores = layer.scale * query[:, start:stop].double() @ key.double().mT
        allowed = layer.pattern.allowed(range(start, stop), key.shape[1], key.device)
        hidden = ~allowed[:, h if allowed.shape[1] > 1 else 0]
        span = scores.masked_fill(hidden, -torch.inf).amax(-1) - scores.masked_fill(hidden, torch.inf).amin(-1)
        widest = max(widest, float(span.max()))  # -inf where a query attends nothing
    return widest


def _faster_from(shape: Shape, plan: Plan, most: int = 1 << 30) -> int | None:
    """The least power of two n for which the plan's cost is below exact attention's; None up to `most`."""
    assert plan.recipe is not None
    wide = plan.recipe.dtype == torch.float64
    size = expanded(plan.recipe.index_set)
    n = 1
    while n <= most:
        longer = Shape(1, n, (n,), shape.d, shape.d_v, shape.is_causal)
        if polynomial_cost(longer, size, wide).time < exact_cost(longer, False).time:
            return n
        n *= 2
    return None
