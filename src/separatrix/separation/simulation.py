r"""The paper's Monte Carlo (Section 7), batched: draw both data sets and y, evaluate four networks, count.

Each trial draws data and signs as in the paper. Only the evaluation is simplified: the n rows of A_3 have at most g + 1
different values, so attention is computed once for each different query over the different keys, weighted by their
multiplicities, and the row of a trial is looked up by the class of its special key. A test evaluates the networks of
`networks`, with their n x n matrices, on the same draws and compares every single trial.

Evaluation is in float64, which cannot resolve the terms of size 1/n that break ties if n is large; hence `LARGEST_N`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from separatrix.checks import whole
from separatrix.errors import ArgumentError
from separatrix.separation.results import PARTS, Simulation, wilson

LARGEST_N = 10**9
"""The largest n that is simulated in float64."""
_BATCH_BYTES = 2**25


@dataclass(frozen=True)
class Rows:
    """The different rows of K attention inputs.

    Attributes:
        queries: the different queries, of shape (K, q, d).
        keys: the different keys, which are the values too, of shape (K, k, d).
        multiplicity: how many of the n keys are equal to each of `keys`, of shape (K, k).
    """

    queries: Tensor
    keys: Tensor
    multiplicity: Tensor


def self_attention_rows(n: int, d: int, a: float, b: float, c: float, special: Tensor) -> Rows:
    """The different rows of elements of Definition D.1: the row j3, and one row of each class.

    Args:
        n: the number of tokens.
        d: the width of a token.
        a: the first coordinate of the special token, in units of sqrt(log n).
        b: the factor of the stacked identities, in the same unit.
        c: the factor of the ones, in the same unit.
        special: for each element, the class of its special key j3.

    Example:
        >>> rows = self_attention_rows(7, 5, a=3.0, b=1.0, c=2.0, special=torch.tensor([1]))
        >>> rows.multiplicity.tolist()  # the classes have 3, 2, 2 rows, and one of the second is j3
        [[1.0, 3.0, 1.0, 2.0]]
    """
    g, batch = d - 2, torch.arange(len(special))
    A = torch.zeros(len(special), g + 1, d, dtype=torch.float64)
    A[:, 0, 0] = a
    A[batch, 0, 1 + special] = b
    A[:, 1:, 1:-1] = b * torch.eye(g, dtype=torch.float64)
    A[:, :, -1] = c
    A *= math.sqrt(math.log(n))
    multiplicity = _multiplicity(n, g, special)
    # A class whose only row is j3 has no other query. The query j3 is repeated in its place, which does not change any
    # result.
    return Rows(torch.where(multiplicity[:, :, None] > 0, A, A[:, :1]), A, multiplicity)


def cross_attention_rows(n: int, d: int, a: float, special: Tensor) -> Rows:
    """The different rows of elements of Definition F.1: the query j2 and another, the key j3 and one of each class.

    Args:
        n: the number of tokens.
        d: the width of a token.
        a: the first coordinate of the special query, in units of log n.
        special: for each element, the class of its special key j3.
    """
    g, batch = d - 1, torch.arange(len(special))
    A1 = torch.ones(len(special), 2, d, dtype=torch.float64)
    A1[:, :, 0] = torch.tensor([a, 0.0], dtype=torch.float64)
    A2 = torch.zeros(len(special), g + 1, d, dtype=torch.float64)
    A2[:, 0, 0] = 1
    A2[batch, 0, 1 + special] = 1
    A2[:, 1:, 1:] = torch.eye(g, dtype=torch.float64)
    return Rows(A1 * math.log(n), A2, _multiplicity(n, g, special))


def _multiplicity(n: int, g: int, special: Tensor) -> Tensor:
    t, larger = divmod(n, g)
    sizes = torch.full((len(special), g + 1), t, dtype=torch.float64)
    sizes[:, 1 : larger + 1] += 1
    sizes[:, 0] = 1
    sizes[torch.arange(len(special)), 1 + special] -= 1
    return sizes


@dataclass(frozen=True)
class AttentionDraws:
    """A batch of T trials.

    The four networks are F_exp on D1, F_lin on D1, F_exp on D0, F_lin on D0, in this order.

    Attributes:
        special: the index j3 of the elements of D0 and D1, of shape (T, 2).
        special_query: the index j2 of the elements of D0 and D1, of shape (T, 2).
        y: the signs +1 and -1, of shape (T, 1, d, m) if the networks share them, else (T, 4, d, m).
    """

    special: Tensor
    special_query: Tensor
    y: Tensor


def random_signs(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Draw independent fair signs +1 and -1 as int8; each random byte gives eight of them.

    >>> signs = random_signs((1000,), torch.Generator().manual_seed(0))
    >>> sorted(set(signs.tolist())), signs.shape
    ([-1, 1], torch.Size([1000]))
    """
    count = int(np.prod(shape))
    packed = torch.randint(0, 256, (-(-count // 8),), dtype=torch.uint8, generator=generator).numpy()
    bits = np.unpackbits(packed)[:count].astype(np.int8)
    return torch.from_numpy(2 * bits - 1).reshape(shape)


def attention_draws(
    n: int, d: int, m: int, trials: int, generator: torch.Generator, *, shared_signs: bool, rows: int
) -> Iterator[AttentionDraws]:
    """Draw the trials in batches of bounded memory.

    Args:
        n: the number of tokens.
        d: the width of a token.
        m: the number of sign vectors.
        trials: the number of trials.
        generator: the source of randomness.
        shared_signs: whether the four networks of a trial use the same y.
        rows: how many different rows the evaluation of an element has, for the estimate of the memory.

    Yields:
        The batches.
    """
    networks = 1 if shared_signs else 4
    size = max(1, _BATCH_BYTES // (8 * (rows * (d + m) + networks * d * m)))
    for start in range(0, trials, size):
        T = min(size, trials - start)
        special = torch.randint(0, n, (T, 2), generator=generator)
        special_query = torch.randint(0, n, (T, 2), generator=generator)
        yield AttentionDraws(special, special_query, random_signs((T, networks, d, m), generator))


def simulate_attention(
    n: int,
    d: int,
    m: int,
    classes: int,
    tau: float,
    rows: Callable[[int, Tensor], Rows],
    weights: Tensor,
    *,
    trials: int,
    seed: int,
    shared_signs: bool,
) -> Simulation:
    """Estimate the probabilities of the paper's events by simulation.

    Args:
        n: the number of tokens.
        d: the width of a token.
        m: the number of sign vectors.
        classes: the number g of classes of keys.
        tau: the threshold.
        rows: `rows(which, special)` gives the different rows of elements of D0 (0) or D1 (1) whose special keys are in
            the classes `special`.
        weights: Q K^T, of shape (d, d).
        trials: the number of independent trials.
        seed: the seed of the generator that draws the data and the signs.
        shared_signs: whether the four networks of a trial use the same y.
    """
    trials = whole("trials", trials, low=1)
    if n > LARGEST_N:
        raise ArgumentError("n", expected=f"at most {LARGEST_N} for a simulation in float64", got=n)
    generator = torch.Generator().manual_seed(whole("seed", seed, low=0))
    fired = []
    draws = attention_draws(n, d, m, trials, generator, shared_signs=shared_signs, rows=classes + 1)
    for batch in draws:
        signs = batch.y.double()
        answers: list[Tensor] = []
        for which in (1, 0):
            special, of_trial = (batch.special[:, which] % classes).unique(return_inverse=True)
            for c in _attend(rows(which, special), weights):
                y = signs[:, 0 if shared_signs else len(answers)]
                answers.append(((c[of_trial] @ y) > tau).flatten(1).any(1))
        fired.append(torch.stack(answers, 1))
    return tally(torch.cat(fired))


def _attend(rows: Rows, weights: Tensor) -> tuple[Tensor, Tensor]:
    """The rows of c_exp and of c_lin (Definitions C.4 and C.1), one row for each different query."""
    scores = rows.queries @ weights @ rows.keys.mT
    multiplicity = rows.multiplicity[:, None, :]
    softmax = torch.softmax(scores + multiplicity.log(), -1)
    linear = scores * multiplicity
    return softmax @ rows.keys, (linear / linear.sum(-1, keepdim=True)) @ rows.keys


def tally(fired: Tensor) -> Simulation:
    """The estimates, given which networks fired in which trial: bool, (T, 4), in the order of `AttentionDraws`.

    >>> tally(torch.tensor([[True, False, False, False], [True, False, True, False]])).success.value
    0.5
    """
    events = fired ^ torch.tensor([False, True, True, True])
    hits = [*events.sum(0).tolist(), int(events.all(1).sum())]
    return Simulation(**{part: wilson(hit, len(fired)) for part, hit in zip(PARTS, hits, strict=True)})
