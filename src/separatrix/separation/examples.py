r"""Labelled elements of D0 and D1 as training examples, and the attention of a mechanism on them.

The a0 and a1 of a setting become ranges, as in Definitions D.1 and F.1, where a0 may be any number in (0, 0.1) and a1
any number from 0.7 or 1 on: an element of D0 has a uniform in [0, a0], and an element of D1 uniform in [a1, a1 + 1].
The special indices are uniform. In softmax regression the data are random already (Definition 3.8).

Only the distinct tokens among the n are stored, with their multiplicities, so that in self- and cross-attention an
example of 10^9 tokens costs no more than one of 100.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

import torch
from torch import Tensor

from separatrix.separation.self_attention import SelfAttention
from separatrix.separation.simulation import cross_attention_rows, self_attention_rows
from separatrix.separation.softmax_regression import SoftmaxRegression
from separatrix.separation.tokens import AttentionSetting


@dataclass(frozen=True)
class Examples:
    """Labelled examples.

    In softmax regression the query is 1, the keys are (Ax)_j, and the values are unit vectors, which are not stored.

    Attributes:
        queries: the different queries, of shape (..., examples, queries, width).
        keys: the different keys, which are the values too, of shape (..., examples, keys, width).
        multiplicity: how many tokens are equal to each key, of shape (..., examples, keys).
        label: -1 for an element of D0 and +1 for one of D1, of shape (..., examples).
    """

    queries: Tensor
    keys: Tensor
    multiplicity: Tensor
    label: Tensor


def draw_examples(setting: AttentionSetting | SoftmaxRegression, count: int, generator: torch.Generator) -> Examples:
    """Draw `count` elements of D0, followed by `count` elements of D1.

    >>> from separatrix.separation.cross_attention import CrossAttention
    >>> examples = draw_examples(CrossAttention(20, 5, 1, a0=0.05, a1=2), 3, torch.Generator().manual_seed(0))
    >>> examples.queries.shape, examples.keys.shape, examples.label.tolist()
    (torch.Size([6, 2, 5]), torch.Size([6, 5, 5]), [-1.0, -1.0, -1.0, 1.0, 1.0, 1.0])
    >>> (examples.queries[:, 0, 0] / math.log(20)).tolist() <= [0.05] * 3 + [3.0] * 3
    True
    """
    n = setting.n
    label = torch.ones(2 * count, dtype=torch.float64)
    label[:count] = -1
    rows_each = n if isinstance(setting, SoftmaxRegression) else 1
    uniform = torch.rand(2 * count, rows_each, generator=generator, dtype=torch.float64)
    j3 = torch.randint(0, n, (2 * count,), generator=generator)
    if isinstance(setting, SoftmaxRegression):
        Ax = math.log(n) * (1 + 0.4 * uniform)
        Ax[torch.arange(count, 2 * count), j3[count:]] = 4 * math.log(n)
        ones = torch.ones(2 * count, 1, 1, dtype=torch.float64)
        return Examples(ones, Ax.unsqueeze(-1), torch.ones(2 * count, n, dtype=torch.float64), label)
    a0, a1 = (float(setting.values()[name]) for name in ("a0", "a1"))
    a = torch.where(label < 0, a0 * uniform[:, 0], a1 + uniform[:, 0])
    return dataclasses.replace(rows_at(setting, a, j3), label=label)


def rows_at(setting: AttentionSetting, a: Tensor, j3: Tensor) -> Examples:
    """The elements with the given a and j3, each of shape (examples,); their labels are 0."""
    label = torch.zeros_like(a)
    if isinstance(setting, SelfAttention):
        b, c = (float(setting.values()[name]) for name in ("b", "c"))
        rows = self_attention_rows(setting.n, setting.d, 1.0, b, c, j3 % (setting.d - 2))
        keys = _scaled(rows.keys, a)
        # As in `simulation`, the query j3 is repeated in place of a class whose only row is j3.
        queries = torch.where(rows.multiplicity.unsqueeze(-1) > 0, keys, keys[:, :1])
        return Examples(queries, keys, rows.multiplicity, label)
    rows = cross_attention_rows(setting.n, setting.d, 1.0, j3 % (setting.d - 1))
    return Examples(_scaled(rows.queries, a), rows.keys, rows.multiplicity, label)


def _scaled(tokens: Tensor, a: Tensor) -> Tensor:
    """The tokens for this `a`, from those for a = 1: only the first coordinate of the first token depends on a."""
    scaled = tokens.clone()
    scaled[:, 0, 0] *= a
    return scaled


def stack(drawn: list[Examples]) -> Examples:
    """Stack several draws along a new first dimension."""
    names = ("queries", "keys", "multiplicity", "label")
    return Examples(*(torch.stack([getattr(example, name) for example in drawn]) for name in names))


def initial_weights(setting: AttentionSetting | SoftmaxRegression) -> Tensor:
    """The paper's X = Q K^T, of shape (d, d); in softmax regression x = 1, of shape (1, 1)."""
    if isinstance(setting, SoftmaxRegression):
        return torch.ones(1, 1, dtype=torch.float64)
    return setting.weight_matrix()


def attend(examples: Examples, X: Tensor, *, softmax: bool, regression: bool) -> Tensor:
    """The attention c of Definitions C.4 and C.1 for every query, or f of Definitions 3.3 and 3.2.

    Args:
        examples: the examples.
        X: the weights Q K^T, of a shape that broadcasts to (..., examples, d, d).
        softmax: whether to use softmax or linear attention.
        regression: whether to return f, the weights, instead of c, the weighted averages of the keys.
    """
    scores = examples.queries @ X @ examples.keys.mT
    multiplicity = examples.multiplicity.unsqueeze(-2)
    if softmax:
        f = torch.softmax(scores + multiplicity.log(), -1)
    else:
        f = scores * multiplicity
        f = f / f.sum(-1, keepdim=True)
    return f if regression else f @ examples.keys
