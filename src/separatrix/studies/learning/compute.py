r"""Counts the flops of a training step: the matrix products of the forward pass, and twice that for the backward pass.

A multiplication and an addition are two flops. Attention of order k at L_q positions over n tokens, h heads of
dimension d, S the number of attended tuples (n^(k-1) per query, and 1/k of that on average for causal attention at all
positions):

    exact          4 h S d
    polynomial     2 h r (d + 1) (k - 1) (n + L_q)            r monomials: sums over the keys, products, queries
    linear         2 h r (d + 1) (n + L_q)                    r features, likewise
    separate       4 h (k - 1) S' d                           a product of order-2 attentions; S' = n, or n / 2
    mixed          2 h S d + 2 h S' d                         half of the heads of order 2
    determinant    6 h S d                                    scores of dimension 2 d

With windows w_1, ..., S is a sum over queries: query i attends prod_m min(i + 1, w_m) tuples.

For a bounded layer, which both of the first two methods can compute, the cheaper one is counted. Embedding lookups,
norms and the softmax itself are not counted.
"""

from __future__ import annotations

import math

import torch

from separatrix.attention.features import FEATURE_MAPS
from separatrix.attention.near_linear.bounded_plan import plan_bounded
from separatrix.attention.near_linear.cost import Shape, exact_cost
from separatrix.errors import ArgumentError
from separatrix.studies.learning.mechanisms import AttentionKind
from separatrix.studies.learning.models import Sizes, hidden_units
from separatrix.studies.learning.tasks.task import Task

__all__ = ["TOLERANCE", "attention_flops", "polynomial_flops", "step_flops"]

TOLERANCE = 1e-2
"""The tolerance for which bounded layers are planned when their flops are counted."""


def attention_flops(kind: AttentionKind, heads: int, d: int, n: int, asked: int) -> float:
    """The flops of one layer's attention for one input, without its projections.

    Args:
        kind: The attention of one layer; for a bounded layer the cheaper of exact attention and the polynomial method
            is counted.
        heads: The number of heads.
        d: The dimension of a head.
        n: The number of tokens.
        asked: The number of positions with an output: n, or 1 for the last position only.

    Example:
        >>> attention_flops(AttentionKind(), heads=1, d=4, n=10, asked=1)
        160.0
        >>> half, two = (attention_flops(AttentionKind(3, R), heads=1, d=4, n=100, asked=100) for R in (0.5, 2.0))
        >>> half, two, attention_flops(AttentionKind(3), heads=1, d=4, n=100, asked=100)
        (60000.0, 504000.0, 5333333.333333333)
    """
    if kind.features is not None:
        features = FEATURE_MAPS[kind.features](torch.zeros(1, d)).shape[-1]
        return float(2 * heads * features * (d + 1) * (n + asked))
    if kind.form == "separate":
        windows = [None] * (kind.order - 1) if kind.windows is None else [(window,) for window in kind.windows]
        return sum(attention_flops(AttentionKind(windows=window), heads, d, n, asked) for window in windows)
    if kind.windows is not None:
        tuples = sum(math.prod(min(i + 1, window) for window in kind.windows) for i in range(n - asked, n))
        return float(4 * heads * tuples * d)
    if kind.form == "mixed":
        return sum(attention_flops(AttentionKind(order), heads // 2, d, n, asked) for order in (2, kind.order))
    scored = 2 * d if kind.form == "determinant" else d
    exact = exact_cost(Shape(heads, asked, (n,) * (kind.order - 1), scored, d, is_causal=asked == n), wide=False).flops
    return exact if kind.bound is None else min(exact, polynomial_flops(kind, heads, d, n, asked))


def polynomial_flops(kind: AttentionKind, heads: int, d: int, n: int, asked: int) -> float:
    """The flops of bounded attention by the polynomial method, even if exact attention is cheaper.

    Args:
        kind: The attention, which must have a bound.
        heads: The number of heads.
        d: The dimension of a head.
        n: The number of tokens.
        asked: The number of positions with an output: n, or 1 for the last position only.
    """
    if kind.bound is None:
        raise ArgumentError("kind", expected="one with a bound", got=repr(kind))
    rank = plan_bounded(kind.order, d, kind.bound, TOLERANCE).rank
    return float(2 * heads * rank * (d + 1) * (kind.order - 1) * (n + asked))


def step_flops(task: Task, sizes: Sizes, kind: AttentionKind, batch: int) -> float:
    """The flops of one step of training a model on `batch` inputs."""
    w, n = sizes.width, task.n
    hidden, d = hidden_units(task, sizes, kind), w // sizes.heads
    total = 2.0 * task.asked * w * task.classes
    for layer, layer_kind in enumerate(kind.stack, start=1):
        asked = task.asked if layer == kind.layers else n
        total += 2 * w * w * (2 * asked + 2 * (layer_kind.mean_order - 1) * n) + 2 * asked * 2 * w * hidden
        total += attention_flops(layer_kind, sizes.heads, d, n, asked)
    return 3 * batch * total
