r"""The shares of the sign vectors on which the networks fire, from the thresholds at which they do.

For one sign vector y_l let *good* be the event that F_exp fires on D1, and *bad* that any of the other three networks
fires. The m vectors are independent given the classes of the special keys, and the four networks share them, so in each
case

    P[success] = (1 - P[bad])^m - (1 - P[bad or good])^m

where P is over a single sign vector. D0 and D1 draw their special keys independently and uniformly. A case says whether
both special keys are in the same class or in different ones and, when the classes have two sizes, which sizes these
classes have.

The signs of the first and last coordinates and of the special classes matter individually; all others matter through
the number of +1 among them, as `firing` explains, and a union of events "at least k signs +1" is again such an event.
Shares of the sign vectors are exact integers over powers of two (or, beyond 2048 classes, real numbers of 256 bits).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import product
from typing import Any

from separatrix.separation.binomial import exactly, tails, total
from separatrix.separation.firing import Classes, Thresholds, firing_thresholds
from separatrix.separation.rows import Network

Share = tuple[Any, int]
"""A share (part, whole) of the sign vectors; the part is an integer, or a real number of `extended.EXTENDED`."""


@dataclass(frozen=True)
class Fires:
    """Where F_exp and F_lin fire on a data set whose special key is in a class of a given size.

    Attributes:
        exp: the thresholds of F_exp.
        lin: the thresholds of F_lin.
        either: the thresholds of the event that at least one of them fires.
        exp_share: the share of the sign vectors on which F_exp fires.
        lin_share: the share of the sign vectors on which F_lin fires.
    """

    exp: Thresholds
    lin: Thresholds
    either: Thresholds
    exp_share: Share
    lin_share: Share


@dataclass(frozen=True)
class Mixture:
    """Shares of the sign vectors by case, with the probability of each case.

    Attributes:
        joint: for each case of both special keys, its probability and the shares (bad, good but not bad).
        d1: for each case of D1's special key, its probability and the shares (F_exp fires, F_lin fires) on D1.
        d0: for each case of D0's special key, its probability and the shares (F_exp fires, F_lin fires) on D0.
    """

    joint: tuple[tuple[Fraction, Share, Share], ...]
    d1: tuple[tuple[Fraction, Share, Share], ...]
    d0: tuple[tuple[Fraction, Share, Share], ...]


def firing_tables(n: int, g: int, last: bool, networks: tuple[Network, Network]) -> dict[int, Fires]:
    """Where F_exp and F_lin fire, for each size of the special key's class (by its index in `Classes.size`, 0 or 1).

    Args:
        n: the number of tokens.
        g: the number of classes.
        last: whether the data have a last column of ones, whose sign matters.
        networks: F_exp and F_lin on the data set.
    """
    classes = Classes.split(n, g)
    last_signs = (1, -1) if last else (1,)
    fires = {}
    for z in _sizes(classes):
        exp, lin = (firing_thresholds(network, classes, z, last_signs) for network in networks)
        either = {signs: tuple(map(min, exp[signs], lin[signs])) for signs in exp}
        fires[z] = Fires(exp, lin, either, _alone(exp, classes, z), _alone(lin, classes, z))
    return fires


def attention_mixture(n: int, g: int, d1: dict[int, Fires], d0: dict[int, Fires]) -> Mixture:
    """The mixture for n rows in g classes, given the `firing_tables` of D1 and of D0."""
    classes = Classes.split(n, g)
    cases, alone = _cases(n, g)
    joint = tuple([(case, *_joint(d1[z1], d0[z0], classes, (z1, z0), same)) for case, z1, z0, same in cases])
    parts = (tuple([(case, fires[z].exp_share, fires[z].lin_share) for case, z in alone]) for fires in (d1, d0))
    return Mixture(joint, *parts)


def _sizes(classes: Classes) -> list[int]:
    return [z for z in (0, 1) if classes.number[z] and classes.size[z]]


@lru_cache(maxsize=256)
def _cases(n: int, g: int) -> tuple[list[tuple[Fraction, int, int, bool]], list[tuple[Fraction, int]]]:
    """The cases of the special classes of both data sets, and those of a single data set.

    A case of both data sets is (probability, size of D1's special class, size of D0's special class, whether they are
    the same class); a case of one data set is (probability, size).
    """
    classes = Classes.split(n, g)
    sizes = _sizes(classes)
    both = [(Fraction(classes.number[z] * classes.size[z] ** 2, n * n), z, z, True) for z in sizes]
    for z1, z0 in product(sizes, sizes):
        pairs = classes.number[z1] * (classes.number[z0] - (z1 == z0))
        if pairs:
            both.append((Fraction(pairs * classes.size[z1] * classes.size[z0], n * n), z1, z0, False))
    return both, [(Fraction(classes.number[z] * classes.size[z], n), z) for z in sizes]


def _alone(thresholds: Thresholds, classes: Classes, own: int) -> Share:
    N1, N2 = classes.number[0] - (own == 0), classes.number[1] - (own == 1)
    share = tails(N1)
    part = 0
    for P2 in range(N2 + 1):
        part += exactly(N2, P2) * sum([share[by_P2[P2]] for by_P2 in thresholds.values()])
    return part, len(thresholds) * total(N1) * total(N2)


def _joint(d1: Fires, d0: Fires, classes: Classes, own: tuple[int, int], same: bool) -> tuple[Share, Share]:
    """The shares (bad, good and not bad), for special classes of D1 and D0 whose sizes are `own`."""
    z1, z0 = own
    M1, M2 = (classes.number[z] - (z1 == z) - (not same and z0 == z) for z in (0, 1))
    weights, share = [exactly(M2, R2) for R2 in range(M2 + 1)], tails(M1)
    bad = either = vectors = 0
    for signs1, good in d1.exp.items():
        first, s1, last = signs1
        lin = d1.lin[signs1]
        for s0 in (s1,) if same else (1, -1):
            out = d0.either[first, s0, last]
            vectors += 1
            # If the class that is special in the other data set has the sign +1, it adds one to the count of classes of
            # its size.
            plus1, plus0 = (0, 0) if same else (s0 > 0, s1 > 0)
            by1, by0, in1, in0 = plus1 and not z0, plus0 and not z1, plus1 and z0, plus0 and z1
            for R2, weight in enumerate(weights):
                wrong, right = min(lin[R2 + in1] - by1, out[R2 + in0] - by0), good[R2 + in1] - by1
                if wrong <= M1:
                    bad += weight * share[max(wrong, 0)]
                if wrong <= M1 or right <= M1:
                    either += weight * share[max(min(wrong, right), 0)]
    vectors *= total(M1) * total(M2)
    return (bad, vectors), (either - bad, vectors)
