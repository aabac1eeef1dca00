r"""The model around an attention: an embedding, blocks of attention and a small network, and answers.

    h = sum over fields of e(symbol)
    h = h + Attention(norm(h));  h = h + W_2 relu(W_1 norm(h))      once for each layer
    answers = W norm(h)

Attention is causal. If a task asks only at the last token, the last block is computed only there.

**A model of given sizes has the same number of parameters with every attention**, to half a hidden unit in each layer:
with more projections or layers it has fewer hidden units.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from separatrix.checks import is_whole
from separatrix.errors import ArgumentError
from separatrix.studies.learning.mechanisms import AttentionKind, layer_of, linear
from separatrix.studies.learning.tasks.task import Task

__all__ = ["Model", "Sizes", "hidden_units", "parameter_count"]


@dataclass(frozen=True)
class Sizes:
    """The sizes that all compared models have in common.

    Attributes:
        width: The dimension of the embedding.
        heads: The number of heads, a divisor of the width.
        hidden: The hidden units of a one-layer model with order-2 attention; other models have as many as the equal
            number of parameters allows.
    """

    width: int = 16
    heads: int = 4
    hidden: int = 64

    def __post_init__(self) -> None:
        for name in ("width", "heads", "hidden"):
            number = getattr(self, name)
            if not is_whole(number, low=1):
                raise ArgumentError(name, expected="an integer >= 1", got=number)
        if self.width % self.heads:
            raise ArgumentError("heads", expected=f"a divisor of width = {self.width}", got=self.heads)


def parameter_count(task: Task, sizes: Sizes, kind: AttentionKind, hidden: int) -> int:
    """The number of parameters of a model with `hidden` units in each layer.

    Order k has 2 k projections (queries, k - 1 keys, k - 1 values, outputs); a bounded layer has a temperature for each
    head. Norms have a gain for each coordinate of their input.
    """
    w = sizes.width
    blocks = 0
    for layer_kind in kind.stack:
        order = layer_kind.mean_order
        projections = round(2 * order * w * (w + 1)) + (sizes.heads if layer_kind.bound is not None else 0)
        gains = {"qk_norm": round(order * w), "head_norm": w, "learned_scale": sizes.heads, "layer_norm": 2 * w}
        gains["value_norm"] = round((order - 1) * w)
        projections += sum(gains[norm] for norm in layer_kind.norms)
        blocks += projections + hidden * (2 * w + 1) + w + 2 * (2 * w)
    return task.symbols * w + blocks + 2 * w + task.classes * (w + 1)


def hidden_units(task: Task, sizes: Sizes, kind: AttentionKind) -> int:
    """The hidden units of each layer for which the number of parameters equals that of one order-2 layer, to half a
    unit."""
    target = parameter_count(task, sizes, AttentionKind(), sizes.hidden)
    norms = kind.layers * (2 * sizes.width + 1)
    units = round((target - parameter_count(task, sizes, kind, 0)) / norms)
    if units < 1:
        raise ArgumentError(
            "hidden", expected=f"enough hidden units for {kind} to have the same number of parameters", got=sizes.hidden
        )
    return units


class TransformerBlock(nn.Module):
    """Attention and a network of one hidden layer, each with a residual connection."""

    def __init__(
        self, kind: AttentionKind, sizes: Sizes, hidden: int, tolerance: float | None, generator: torch.Generator
    ) -> None:
        super().__init__()
        w = sizes.width
        self.attention = layer_of(kind, w, sizes.heads, tolerance, generator)
        self.before_attention, self.before_network = nn.LayerNorm(w), nn.LayerNorm(w)
        self.after_attention = nn.LayerNorm(w) if "layer_norm" in kind.norms else nn.Identity()
        self.into, self.out_of = linear(w, hidden, generator), linear(hidden, w, generator)

    def forward(self, h: Tensor, asked: int) -> Tensor:
        """The block's output at the last `asked` positions of h (batch, n, width): all n positions, or only the
        last."""
        read = self.before_attention(h)
        last = h[:, -asked:]
        if asked == h.shape[1]:
            last = last + self.after_attention(self.attention(read, is_causal=True))
        else:
            last = last + self.after_attention(self.attention(read[:, -asked:], read))
        return self._followed(last)

    def _followed(self, h: Tensor) -> Tensor:
        """The part of the block after attention."""
        out: Tensor = h + self.out_of(torch.relu(self.into(self.before_network(h))))
        return out


class Model(nn.Module):
    """A causal model for a task, with initial weights drawn from `generator`.

    Args:
        task: The task.
        sizes: The sizes of the model.
        kind: The attention of the model.
        tolerance: The tolerance of bounded layers (see `layer_of`).
        generator: The source of the initial weights.

    Example:
        >>> from separatrix.studies.learning.tasks.recall import Recall
        >>> task = Recall().task
        >>> model = Model(task, Sizes(), AttentionKind(order=3), generator=torch.Generator().manual_seed(0))
        >>> model(task.training(4, torch.Generator().manual_seed(0)).tokens).shape
        torch.Size([4, 1, 8])
    """

    def __init__(
        self,
        task: Task,
        sizes: Sizes,
        kind: AttentionKind,
        *,
        tolerance: float | None = None,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.asked_everywhere = task.asked == task.n
        self.hidden = hidden_units(task, sizes, kind)
        self.embedding = nn.Parameter(torch.randn(task.symbols, sizes.width, generator=generator))
        self.blocks = nn.ModuleList(
            TransformerBlock(layer, sizes, self.hidden, tolerance, generator) for layer in kind.stack
        )
        self.norm = nn.LayerNorm(sizes.width)
        self.answer = linear(sizes.width, task.classes, generator)

    def forward(self, tokens: Tensor) -> Tensor:
        """The logits (batch, asked, classes) of tokens (batch, n, fields), or of fewer tokens than the task's n.

        `asked` is the number of tokens if the task asks at every token, and 1 if it asks only at the last.
        """
        h = self.embedding[tokens].sum(-2)
        for block in self.blocks[:-1]:
            h = block(h, h.shape[1])
        h = self.blocks[-1](h, h.shape[1] if self.asked_everywhere else 1)
        logits: Tensor = self.answer(self.norm(h))
        return logits
