"""A compiled transformer: a training step of two layers, by `torch.compile` against eager, in one graph.

The model is pre-norm, width 128, with a network of 512 hidden units in each layer. Attention is one node of the graph,
computed by the same code in both cases; the compiler can only speed up the operations around it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch._dynamo.testing import CompileCounterWithBackend
from torch.nn.functional import cross_entropy

import separatrix as sx
from benchmarks import Row
from benchmarks.timing import alternate

WIDTH, CLASSES = 128, 256


@dataclass(frozen=True)
class Case:
    """A kind of attention, and the size of its batch."""

    name: str
    batch: int
    n: int
    heads: int = 4
    options: dict[str, Any] = field(default_factory=dict)


CASES = (
    Case("order 2", 8, 512, options={"order": 2}),
    Case("exact, order 3", 8, 96),
    Case("order 3 in windows of 512 and 32", 2, 512, options={"windows": (512, 32)}),
    Case("bounded, order 3, heads of 8", 2, 1024, heads=16, options={"bound": 1.0, "tolerance": 1e-2}),
)


class Block(nn.Module):
    """A pre-norm transformer layer: attention, then a feed-forward network, each with a residual connection."""

    def __init__(self, case: Case, width: int) -> None:
        super().__init__()
        self.attention = sx.nn.TensorAttention(width, case.heads, **case.options)
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.network = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.before(x), is_causal=True)
        out: Tensor = x + self.network(self.between(x))
        return out


class Transformer(nn.Module):
    """The mean next-token loss of a model with an embedding, two layers and a linear output layer."""

    def __init__(self, case: Case, width: int = WIDTH) -> None:
        super().__init__()
        self.embedding, self.places = nn.Embedding(CLASSES, width), nn.Embedding(case.n, width)
        self.layers = nn.Sequential(Block(case, width), Block(case, width))
        self.answer = nn.Linear(width, CLASSES)

    def forward(self, tokens: Tensor, answers: Tensor) -> Tensor:
        h = self.layers(self.embedding(tokens) + self.places.weight)
        return cross_entropy(self.answer(h).flatten(0, 1), answers.flatten())


def row(case: Case, *, seconds: float = 10.0, backend: str = "inductor") -> Row:
    """The time of a forward and backward pass, compiled and eager alternately, and the number of compiled graphs."""
    torch.manual_seed(0)
    model = Transformer(case)
    tokens = torch.randint(CLASSES, (case.batch, case.n + 1))
    torch._dynamo.reset()
    counted = CompileCounterWithBackend(backend)
    compiled = torch.compile(model, backend=counted, fullgraph=True)

    def step(run: Callable[[Tensor, Tensor], Tensor]) -> None:
        model.zero_grad()
        run(tokens[:, :-1], tokens[:, 1:]).backward()

    best = alternate({"compiled": lambda: step(compiled), "eager": lambda: step(model)}, seconds=seconds)
    name = f"{case.name}, batch {case.batch} x {case.n} tokens"
    note = f"graphs: {counted.frame_count}"
    return Row(f"step of training, {name}", best["compiled"], "eager", best["eager"], 1.0, note=note)


def rows() -> list[Row]:
    return [row(case) for case in CASES]
