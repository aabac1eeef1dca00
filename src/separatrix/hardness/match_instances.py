"""Matching, the instances: uniform ones, planted ones with balanced labels, and those made to be hard for a head.

>>> from separatrix.hardness.matching import match_labels
>>> x, label = planted_instances(4, 6, 101, 3, generator=torch.Generator().manual_seed(0))
>>> label.tolist(), torch.equal(match_labels(x, 101, 3)[:, 0], label)
([False, True, False, True], True)
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from separatrix.checks import whole
from separatrix.errors import ArgumentError
from separatrix.hardness.matching import LARGEST_MODULUS

__all__ = ["adversarial_instances", "planted_instances", "uniform_instances"]


def uniform_instances(count: int, n: int, modulus: int, *, generator: torch.Generator) -> Tensor:
    """Independent residues: (count, n). A position has a match with probability near 1 - exp(-n^(k-1) / ((k-1)! M))."""
    count, n = whole("count", count, low=0), whole("n", n, low=1)
    return torch.randint(whole("modulus", modulus, low=2, high=LARGEST_MODULUS), (count, n), generator=generator)


def planted_instances(
    count: int, n: int, modulus: int, order: int, *, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    r"""Instances (count, n) whose label at position 0 is False, True, False, ... and hangs on one other token.

    Order 2: the others avoid -x_0, and where the label is True one of them is -x_0.
    Order 3: residues v and -x_0 - v are partners; the others are uniform among the residues that have a partner other
        than themselves and x_0, each from the side of its pair that came first; where the label is True, one is the
        partner of another. So for each j the law of (x_0, x_j) is the same under both labels: no single pair tells
        anything about a triple.
    """
    count, n = whole("count", count, low=0), whole("n", n, low=2)
    order = whole("order", order, low=2, high=3)
    if n < order:
        raise ArgumentError("n", expected=f"at least {order} tokens, to hold a match of order {order}", got=n)
    modulus = whole("modulus", modulus, low=3 if order == 2 else 5, high=LARGEST_MODULUS)
    label = torch.arange(count) % 2 == 1

    def drawn(shape: tuple[int, ...], first: Tensor | None) -> Tensor:
        """Uniform residues, drawn again while they are refused."""
        x = torch.randint(modulus, shape, generator=generator)
        while (bad := _refused(x, first, modulus, order)).any():
            x[bad] = torch.randint(modulus, (int(bad.sum()),), generator=generator)
        return x

    first = drawn((count,), None)
    others = drawn((count, n - 1), first)
    if order == 2:
        others[:, 0] = torch.where(label, -first % modulus, others[:, 0])
    else:
        partner = (-first.unsqueeze(1) - others) % modulus
        pair = torch.minimum(others, partner)
        earliest = (pair.unsqueeze(2) == pair.unsqueeze(1)).int().argmax(2)
        others = others.gather(1, earliest)
        others[:, 1] = torch.where(label, (-first - others[:, 0]) % modulus, others[:, 1])
    place = torch.rand(others.shape, generator=generator).argsort(1)
    return torch.cat([first.unsqueeze(1), others.gather(1, place)], 1), label


def _refused(x: Tensor, first: Tensor | None, modulus: int, order: int) -> Tensor:
    """Residues that may not be x_0 (None), or may not stand beside it."""
    if first is None:
        return order * x % modulus == 0
    first = first.unsqueeze(1)
    if order == 2:
        return (x + first) % modulus == 0
    partner = (-first - x) % modulus
    return (partner == x) | (x == first) | (partner == first)


def adversarial_instances(n: int, modulus: int, order: int) -> Tensor:
    """Instances (count, n) at the edge of what a head must tell apart; `match_labels` has their answers.

    With a such that k a is as near to 0 modulo M as it can be without being 0: every tuple a near miss (all a); all but
    one; a match in every tuple that has one odd token; near misses on both sides (a and -a); one token that matches
    with itself alone (0, the rest a quarter of M); and every tuple a match (all 0).
    """
    n, order = whole("n", n, low=1), whole("order", order, low=2)
    modulus = whole("modulus", modulus, low=2, high=LARGEST_MODULUS)
    rows = [torch.zeros(n, dtype=torch.int64)]
    lone = torch.full((n,), -(-modulus // 4))
    lone[0] = 0
    rows.append(lone)
    step = math.gcd(order, modulus)
    if step < modulus:
        a = pow(order // step, -1, modulus // step)
        rows.append(torch.full((n,), a))
        for odd in (a - step, a + step, a + 1):
            rows.append(torch.full((n,), a))
            rows[-1][-1] = odd
        rows.append(torch.where(torch.arange(n) % 2 == 0, a, -a))
    return torch.stack(rows) % modulus
