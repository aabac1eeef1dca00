"""The number of floating-point operations of exact attention, for `torch.utils.flop_counter.FlopCounterMode`.

As for ordinary attention in PyTorch, the matrix products over the tuples are counted, where a product and a sum are two
operations. For T allowed tuples of a query and k - 1

    forward:   2 T (d + d_v)                  scores, output
    backward:  2 T ((k + 1) d + k d_v)        scores and the gradients of query and keys; those of weights and values

**Only tuples that causality and windows allow are counted**; key masks are ignored. Order 2 without windows and masks
is PyTorch's own operator, for which PyTorch has its own formulas: they count all pairs, and there is no formula for its
CPU kernel. Near-linear attention is not counted.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any

import torch

from separatrix.attention.call import Positions

Shape = Sequence[int]


def allowed_tuples(
    query: Shape, keys: Sequence[Shape], is_causal: bool, offset: int, windows: Sequence[int | None]
) -> int:
    """The number of tuples in all heads that positions allow, for a query (H, L_q, d) and keys (H, L_m, d).

    >>> allowed_tuples((1, 3, 2), [(1, 3, 2)] * 2, True, 0, (None, None))  # 1 + 4 + 9
    14
    """
    heads, length, lengths = query[0], query[1], [key[1] for key in keys]
    if not is_causal and not any(windows):
        return heads * length * math.prod(lengths)
    positions = Positions(is_causal, offset, tuple(window or None for window in windows))

    def visible(m: int, i: int) -> int:
        start, stop = positions.visible(m, i, lengths[m])
        return stop - start

    return heads * sum(math.prod(visible(m, i) for m in range(len(lengths))) for i in range(length))


def _forward(query: Shape, keys: Sequence[Shape], values: Sequence[Shape], *rest: Any, **_: object) -> int:
    _masks, is_causal, offset, windows, *_scale = rest
    return 2 * allowed_tuples(query, keys, is_causal, offset, windows) * (query[2] + values[0][2])


def _backward(query: Shape, keys: Sequence[Shape], values: Sequence[Shape], *rest: Any, **_: object) -> int:
    _masks, is_causal, offset, windows, *_incoming = rest
    order = len(keys) + 1
    products = (order + 1) * query[2] + order * values[0][2]
    return 2 * allowed_tuples(query, keys, is_causal, offset, windows) * products


def register_flop_formulas() -> None:
    """Register the formulas with the active flop counters and with those created later.

    PyTorch's module of flop counters imports Triton if it is installed, so it is not imported just for this. A counter
    copies the registered formulas when it is created.
    """
    module: Any = sys.modules.get("torch.utils.flop_counter")
    if module is None:
        return
    operators = torch.ops.separatrix
    for operator, formula in ((operators.attend, _forward), (operators.attend_backward, _backward)):
        if operator not in module.flop_registry:
            module.register_flop_formula(operator)(formula)
        for mode in torch.utils._python_dispatch._get_current_dispatch_mode_stack():
            if isinstance(mode, module._FlopCounterMode):
                mode.counter.flop_registry.setdefault(operator, module.flop_registry[operator])
