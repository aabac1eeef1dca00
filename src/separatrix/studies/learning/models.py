r"""The model around an attention: embedding, blocks of attention and a small network, answers.

    h = sum over fields of e(symbol)
    h = h + Attention(norm(h));  h = h + W_2 relu(W_1 norm(h))      once for each layer
    answers = W norm(h)

Attention is causal. A model that is asked at its last token alone computes its last block there alone.

**Whatever its attention, a model of given sizes has the same number of parameters**, to half of what one hidden unit in
each layer has: those that an attention of higher order or a second layer takes are left out of the hidden units.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from separatrix.checks import is_whole
from separatrix.errors import ArgumentError
from separatrix.nn import TensorAttention
from separatrix.nn.cache import DecodingCache
from separatrix.studies.learning.mechanisms import AttentionKind, layer_of, linear
from separatrix.studies.learning.tasks.task import Task

__all__ = ["Model", "Sizes", "hidden_units", "parameter_count"]


@dataclass(frozen=True)
class Sizes:
    """The sizes that models which are compared have in common.

    Attributes:
        width: The dimension of the embedding.
        heads: The number of heads, a divisor of the width.
        hidden: The hidden units of a one-layer model with order-2 attention; others have as many as make the parameters
            equal.
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

    Order k has 2 k projections (queries, k - 1 keys, k - 1 values, outputs), and each head a temperature where bounded.
    Norms have a gain for each coordinate of what they normalise.
    """
    w = sizes.width
    blocks = 0
    for layer_kind in kind.stack:
        order = layer_kind.mean_order
        projections = round(2 * order * w * (w + 1)) + (sizes.heads if layer_kind.bound is not None else 0)
        gains = {"qk_norm": round(order * w), "head_norm": w, "learned_scale": sizes.heads, "layer_norm": 2 * w}
        projections += sum(gains[norm] for norm in layer_kind.norms)
        blocks += projections + hidden * (2 * w + 1) + w + 2 * (2 * w)
    return task.symbols * w + blocks + 2 * w + task.classes * (w + 1)


def hidden_units(task: Task, sizes: Sizes, kind: AttentionKind) -> int:
    """The hidden units of each layer that make the parameters as many as those of one order-2 layer, to half a unit."""
    target = parameter_count(task, sizes, AttentionKind(), sizes.hidden)
    norms = kind.layers * (2 * sizes.width + 1)
    units = round((target - parameter_count(task, sizes, kind, 0)) / norms)
    if units < 1:
        raise ArgumentError("hidden", expected=f"enough for {kind} to have as many parameters", got=sizes.hidden)
    return units


class TransformerBlock(nn.Module):
    """Attention, then a network of one hidden layer, each added to what it reads."""

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
        """The block's output at the last `asked` positions of h (batch, n, width), which are all n or the last one."""
        read = self.before_attention(h)
        last = h[:, -asked:]
        if asked == h.shape[1]:
            last = last + self.after_attention(self.attention(read, is_causal=True))
        else:
            last = last + self.after_attention(self.attention(read[:, -asked:], read))
        return self._followed(last)

    def decode(self, h: Tensor, cache: DecodingCache) -> Tensor:
        """The block's outputs at tokens h (batch, L, width) that come after those in the cache, and are added to it."""
        assert isinstance(self.attention, TensorAttention)
        decoded = self.attention.decode(self.before_attention(h), cache)
        return self._followed(h + self.after_attention(decoded))

    def _followed(self, h: Tensor) -> Tensor:
        """What comes after attention."""
        out: Tensor = h + self.out_of(torch.relu(self.into(self.before_network(h))))
        return out


class Model(nn.Module):
    """A causal model for a task, its first weights drawn from `generator`.

    Args:
        task: What the model is asked.
        sizes: What it has in common with the models that it is compared with.
        kind: Its attention.
        tolerance: The tolerance of bounded layers (see `layer_of`).
        generator: What the first weights are drawn from.

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

        `asked` is as many as there are tokens where the task asks at every token, and 1 where it asks at the last.
        """
        h = self.embedding[tokens].sum(-2)
        for block in self.blocks[:-1]:
            h = block(h, h.shape[1])
        h = self.blocks[-1](h, h.shape[1] if self.asked_everywhere else 1)
        logits: Tensor = self.answer(self.norm(h))
        return logits

    def caches(self, batch: int) -> list[DecodingCache]:
        """Empty caches for `decode`, one for each layer, of `batch` sequences.

        Raises:
            ArgumentError: The attention is linear: that of this study keeps no state.
        """
        layers = []
        for block in self.blocks:
            if not isinstance(block.attention, TensorAttention):
                raise ArgumentError("caches", expected="a model with softmax attention", got="linear attention")
            layers.append(block.attention.cache(batch))
        return layers

    def decode(self, tokens: Tensor, caches: Sequence[DecodingCache]) -> Tensor:
        """The logits (batch, L, classes) of tokens (batch, L, fields) that go on from those in the caches.

        However a sequence is cut into calls, the logits are those of one call of the model on all of it, at every
        token.

        Args:
            tokens: The tokens that come next; they are added to the caches.
            caches: What `caches` gave, with all earlier tokens.
        """
        h = self.embedding[tokens].sum(-2)
        for block, cache in zip(self.blocks, caches, strict=True):
            assert isinstance(block, TransformerBlock)
            h = block.decode(h, cache)
        logits: Tensor = self.answer(self.norm(h))
        return logits
