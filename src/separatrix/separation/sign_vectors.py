r"""Whether a mechanism fires on the paper's data, for each of the 2^d sign vectors: exactly, for d <= 16 and any n.

There are few different queries and keys (`tokens`), and no weights are negative, so `averages` decides exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from separatrix.errors import ArgumentError, SeparatrixError
from separatrix.separation.averages import Average, Masks, Vector, average, fires, sign_vectors
from separatrix.separation.mechanisms import Mechanism
from separatrix.separation.tokens import AttentionSetting, class_sizes, threshold, tokens

LARGEST_D = 16
"""The largest width whose 2^d sign vectors are enumerated."""

Which = Literal[0, 1]


def fired_by_class(setting: AttentionSetting, mechanism: Mechanism, which: Which) -> dict[int, Masks]:
    """Whether the network fires on each column of `sign_vectors`, for each class that j3 may be in.

    Args:
        setting: the setting, of width at most 16.
        mechanism: the mechanism of the network.
        which: 0 for D0, 1 for D1.

    Returns:
        By class, numbered from 0: a bool array of length 2^d. Classes without rows are omitted.
    """
    Y = sign_vectors(_checked(setting))
    return _by_class(setting, mechanism, lambda k: fires(_averages(setting, mechanism, which, k), Y))


def projected_by_class(setting: AttentionSetting, mechanism: Mechanism, which: Which) -> dict[int, Vector]:
    """The largest <c, y> over all queries, for each column y of `sign_vectors` and each class that j3 may be in.

    Args:
        setting: the setting, of width at most 16.
        mechanism: the mechanism of the network.
        which: 0 for D0, 1 for D1.

    Returns:
        By class, numbered from 0: a float64 array of length 2^d. Classes without rows are omitted.
    """
    Y = sign_vectors(_checked(setting))

    def largest(k: int) -> Vector:
        return np.asarray(np.stack([row.c @ Y for row in _averages(setting, mechanism, which, k)]).max(0))

    return _by_class(setting, mechanism, largest)


def _by_class(
    setting: AttentionSetting, mechanism: Mechanism, compute: Callable[[int], NDArray[Any]]
) -> dict[int, NDArray[Any]]:
    """The result of compute(k) for each class k.

    For a symmetric mechanism, results are computed for one class of each size; exchanging signs gives those of the
    other classes.
    """
    sizes = class_sizes(setting)
    classes = [k for k in range(len(sizes)) if sizes[k]]
    if not mechanism.symmetric:
        return {k: compute(k) for k in classes}
    first = {sizes[k]: k for k in reversed(classes)}
    known = {size: compute(k) for size, k in first.items()}
    return {k: known[sizes[k]][_exchanged(setting.d, 1 + k, 1 + first[sizes[k]])] for k in classes}


def _exchanged(d: int, i: int, j: int) -> NDArray[np.int64]:
    """The index of each sign vector after its signs i and j are exchanged.

    >>> _exchanged(2, 0, 1).tolist()
    [0, 2, 1, 3]
    """
    counter = np.arange(1 << d)
    differ = ((counter >> i) ^ (counter >> j)) & 1
    return np.asarray(counter ^ (differ << i) ^ (differ << j)) if i != j else counter


def _averages(setting: AttentionSetting, mechanism: Mechanism, which: Which, special: int) -> list[Average]:
    data = tokens(setting, which, special)
    averages = [
        average(setting.n, len(query), mechanism.weigh(query, data), threshold(setting)) for query in data.queries
    ]
    if None in averages:
        raise SeparatrixError(f"The weights of {mechanism.name} are all zero at these parameters: it is not defined.")
    return [row for row in averages if row is not None]


def _checked(setting: AttentionSetting) -> int:
    if setting.d > LARGEST_D:
        raise ArgumentError("d", expected=f"at most {LARGEST_D} to enumerate the sign vectors", got=setting.d)
    return setting.d
