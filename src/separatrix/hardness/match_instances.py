"""Instances of the tasks of `matching`: uniform instances, planted instances with balanced labels, and hard instances.

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


def uniform_instances(count: int, n: int, modulus: int, *, generator: torch.Generator) -> Tensor:
    """Draw instances of independent uniform residues, (count, n).

    A position has a match with probability near 1 - exp(-n^(k-1) / ((k-1)! M)).

    Args:
        count: the number of instances.
        n: the number of tokens of each.
        modulus: M.
        generator: the source of randomness.
    """
    count, n = whole("count", count, low=0), whole("n", n, low=1)
    return torch.randint(whole("modulus", modulus, low=2, high=LARGEST_MODULUS), (count, n), generator=generator)


def planted_instances(
    count: int, n: int, modulus: int, order: int, *, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    r"""Draw instances whose labels at position 0 are False, True, False, ..., and depend on a single other token.

    At order 2 the other tokens differ from -x_0, except that one of them is -x_0 where the label is True.

    At order 3 the residues v and -x_0 - v are partners. The other tokens are uniform among the residues that differ
    from x_0 and from their partner and whose partner differs from x_0. An instance never contains both partners of a
    pair, except that with the label True one token is replaced by the partner of another. So for each j the law of
    (x_0, x_j) is the same under both labels, and no single pair of tokens contains information about the label.

    Args:
        count: the number of instances.
        n: the number of tokens of each.
        modulus: M.
        order: 2 or 3.
        generator: the source of randomness.

    Returns:
        The instances, (count, n), and their labels, (count,).
    """
    count, n = whole("count", count, low=0), whole("n", n, low=2)
    order = whole("order", order, low=2, high=3)
    if n < order:
        raise ArgumentError("n", expected=f"at least {order} tokens, to hold a match of order {order}", got=n)
    modulus = whole("modulus", modulus, low=3 if order == 2 else 5, high=LARGEST_MODULUS)
    label = torch.arange(count) % 2 == 1

    def drawn(shape: tuple[int, ...], first: Tensor | None) -> Tensor:
        """Draw uniform residues, and redraw the rejected ones until none is rejected."""
        x = torch.randint(modulus, shape, generator=generator)
        while (bad := _refused(x, first, modulus, order)).any():
            x[bad] = torch.randint(modulus, (int(bad.sum()),), generator=generator)
        return x

    first = drawn((count,), None)
    tail = drawn((count, n - 1), first)
    if order == 2:
        tail[:, 0] = torch.where(label, -first % modulus, tail[:, 0])
    else:
        partner = (-first.unsqueeze(1) - tail) % modulus
        pair = torch.minimum(tail, partner)
        earliest = (pair.unsqueeze(2) == pair.unsqueeze(1)).int().argmax(2)
        tail = tail.gather(1, earliest)
        tail[:, 1] = torch.where(label, (-first - tail[:, 0]) % modulus, tail[:, 1])
    place = torch.rand(tail.shape, generator=generator).argsort(1)
    return torch.cat([first.unsqueeze(1), tail.gather(1, place)], 1), label


def _refused(x: Tensor, first: Tensor | None, modulus: int, order: int) -> Tensor:
    """Which residues x must not be x_0 (if `first` is None), or must not occur together with x_0 = `first`."""
    if first is None:
        return order * x % modulus == 0
    first = first.unsqueeze(1)
    if order == 2:
        return (x + first) % modulus == 0
    partner = (-first - x) % modulus
    return (partner == x) | (x == first) | (partner == first)


def adversarial_instances(n: int, modulus: int, order: int) -> Tensor:
    """Instances (count, n) that are hard for a head; `match_labels` gives their answers.

    Let a be a residue for which k a is as near to 0 modulo M as possible without being 0. The instances are:

    * all tokens 0, where every tuple is a match;
    * one token 0, which matches only with itself, and the others about M / 4;
    * all tokens a, where every tuple is a near miss;
    * all tokens a except one, with three choices of this token;
    * alternating a and -a, with near misses on both sides of 0.

    If k is a multiple of M, only the first two kinds exist.

    Args:
        n: the number of tokens of each.
        modulus: M.
        order: the order k of the task.
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
