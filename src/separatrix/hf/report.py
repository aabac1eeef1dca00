"""A report on the heads of a model on real inputs: the size of scores, and whether near-linear attention is
possible."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel

from separatrix.attention.arithmetic.device_reads import number
from separatrix.attention.bounds import pieces
from separatrix.attention.near_linear.analysis import analyse
from separatrix.attention.near_linear.cost import LARGEST_RANK, Shape, exact_cost, recipe_cost
from separatrix.attention.near_linear.plan import Plan
from separatrix.checks import positive
from separatrix.errors import ArgumentError
from separatrix.hf.interface import Answer, Layer, attend, laid_out, make_mask, near_linear, read_layer

_NAME = "separatrix-report"


@dataclass(frozen=True)
class HeadReport:
    """One head of a model on one batch of inputs; each number is the largest over the batch.

    Attributes:
        layer: the name of the layer's module in the model.
        head: the number of the head.
        tokens: the number of keys, padding included.
        entry_bound: B, the largest magnitude in queries and keys.
        amplitudes: b_l = scale * max |q_l| * max |k_l - mean of k_l| of the coordinates that are not zero throughout.
            The keys are centred only where the head is not causal; centring does not change the output. The sum of the
            amplitudes bounds every centred score.
        radius: the bound on a centred score that plans and certificates use, computed in the basis of the plan.
        span: the largest difference between two scores of one query, without centring.
        plan: the plan of near-linear attention that keeps the tolerance; None if there is none.
        error: the certified error of the plan; None if there is no plan.
        why: the reason for the plan; without a plan, the reason why there is none.
        faster_from: the smallest power of two n such that near-linear attention of this rank is expected to be faster
            than exact attention for n tokens; None without a plan, or if there is no such n up to 2^30.
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
    """Exact attention that appends its arguments to `_seen`."""
    layer = read_layer(module, *arguments, **options)
    _seen.get().append((module, layer))
    return laid_out(attend(layer)), None


def report_heads(model: PreTrainedModel, inputs: Mapping[str, Any], *, tolerance: float) -> list[HeadReport]:
    """Run the model once on `inputs` with exact attention, and report on each head of each layer.

    Whether a certified plan exists is found by running it: near-linear attention of the head at the tolerance, whether
    or not that is cheaper at this length. The model keeps its own attention implementation afterwards.

    Args:
        model: the model.
        inputs: the keyword arguments that the model is called with.
        tolerance: the largest error of an entry of a head's output.

    Example:
        >>> from transformers import BertConfig, BertModel
        >>> size = {"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 8}
        >>> model = BertModel(BertConfig(vocab_size=9, **size)).eval()
        >>> heads = report_heads(model, {"input_ids": torch.tensor([[1, 2, 3, 4]])}, tolerance=1e-2)
        >>> [(head.layer, head.head, head.tokens) for head in heads]
        [('encoder.layer.0.attention.self', 0, 4), ('encoder.layer.0.attention.self', 1, 4)]
    """
    tolerance = positive("tolerance", tolerance)
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
        return [
            _head(names[module], h, layer, tolerance) for module, layer in recorded for h in range(layer.query.shape[1])
        ]


@contextmanager
def _recording(model: PreTrainedModel) -> Iterator[None]:
    AttentionInterface.register(_NAME, _record)
    AttentionMaskInterface.register(_NAME, make_mask)
    parts = [part for part in model.modules() if isinstance(part, PreTrainedModel)]  # outer models first
    before = [part.config._attn_implementation for part in parts]
    model.set_attn_implementation(_NAME)
    try:
        yield
    finally:
        for part, name in zip(parts, before, strict=True):
            part.set_attn_implementation(name)


def _head(name: str, h: int, layer: Layer, tolerance: float) -> HeadReport:
    call = layer.call(h)
    with torch.no_grad():
        given = analyse(call)
    analysis, certified = near_linear(call, tolerance)
    plan = None if certified is None else certified.plan
    if call.positions.has_window:
        why = "near-linear attention has no sliding window"
    else:
        why = (
            plan.why
            if plan is not None
            else (
                f"no polynomial of rank up to {LARGEST_RANK} keeps {tolerance:.3g}: scores reach {analysis.radius:.3g}"
            )
        )
    return HeadReport(
        layer=name,
        head=h,
        tokens=analysis.shape.key_lengths[0],
        entry_bound=given.entry_bound(),
        amplitudes=given.amplitudes,
        radius=analysis.radius,
        span=_span(layer, h),
        plan=plan,
        error=None if certified is None else certified.certificate.total,
        why=why,
        faster_from=None if plan is None else _faster_from(analysis.shape, plan),
    )


def _span(layer: Layer, h: int) -> float:
    """The largest difference, over the queries, of two scores of keys that the query may attend, in float64."""
    query, key = layer.query[:, h], layer.key[:, h // layer.groups]
    widest = 0.0
    for start, stop in pieces(query.shape[1], 256):
        scores = layer.scale * query[:, start:stop].double() @ key.double().mT
        allowed = layer.pattern.allowed(range(start, stop), key.shape[1], key.device)
        hidden = ~allowed[:, h if allowed.shape[1] > 1 else 0]
        span = scores.masked_fill(hidden, -torch.inf).amax(-1) - scores.masked_fill(hidden, torch.inf).amin(-1)
        widest = max(widest, number(span.max()))  # the span of a query without keys to attend is -inf
    return widest


def _faster_from(shape: Shape, plan: Plan, most: int = 1 << 30) -> int | None:
    """The smallest power of two n at which the plan costs less than exact attention; None if there is none up to
    `most`."""
    assert plan.recipe is not None
    n = 1
    while n <= most:
        longer = Shape(1, n, (n,), shape.d, shape.d_v, shape.is_causal)
        if recipe_cost(longer, plan.recipe).time < exact_cost(longer, False).time:
            return n
        n *= 2
    return None
