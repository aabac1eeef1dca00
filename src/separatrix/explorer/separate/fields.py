"""The parameters of the tab Separate: a setting of softmax against linear attention, and the mechanism.

The settings are those of Yichuan Deng, Zhao Song, Kaijun Yuan and Tianyi Zhou, "Why Softmax Attention Outperforms
Linear Attention": self-attention with Q K^T = I or 1 (Definition D.1) and cross-attention (Definition F.1).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING

from separatrix.explorer.fields import choice, decimal, whole

if TYPE_CHECKING:
    from separatrix.separation.mechanisms import Mechanism

MECHANISMS: Mapping[str, tuple[str, str, tuple[str | int, ...]]] = {
    "softmax": ("softmax", "softmax", ()),
    "softmax-0.25": ("β = 1/4", "softmax", ("0.25",)),
    "softmax-0.5": ("β = 1/2", "softmax", ("0.5",)),
    "softmax-2": ("β = 2", "softmax", (2,)),
    "softmax-4": ("β = 4", "softmax", (4,)),
    "linear": ("linear", "linear", ("identity",)),
    "elu": ("elu + 1", "linear", ("elu",)),
    "taylor2": ("Taylor", "linear", ("taylor2",)),
    "order3": ("order 3", "order3", ("once",)),
}
"""For each name in the address: the label, and a function of `separation.mechanisms` with its arguments."""


@cache
def mechanism_named(name: str) -> Mechanism:
    """Return a mechanism by its name in the address; it imports torch, which softmax attention does not need."""
    from separatrix.separation import mechanisms

    _, function, arguments = MECHANISMS[name]
    mechanism: Mechanism = getattr(mechanisms, function)(*arguments)
    return mechanism


LARGEST_D = {"softmax": 102, "order3": 8}
"""The largest d for each mechanism: all but softmax are computed by enumeration of the 2^d sign vectors."""

ENUMERATED_D = 12

FIELDS = (
    choice(
        "weights",
        "Weights",
        r"The weights of the attention: $Q K^\top$ is the identity or all ones in self-attention; in cross-attention "
        "queries and keys come from different inputs.",
        "Definitions D.1 and F.1; Sections D, E and F",
        {"ones": "self-attention, ones", "identity": "self-attention, identity", "cross": "cross-attention"},
        default="ones",
    ),
    choice(
        "mechanism",
        "Mechanism",
        r"The attention that is compared with linear attention: softmax; softmax at the temperature $1/\beta$; linear "
        "attention with a feature map (the identity, elu + 1, the Taylor polynomial of degree 2); or softmax over "
        "pairs of keys.",
        "Definitions C.4 and C.1; other mechanisms are beyond the paper",
        {name: label for name, (label, _, _) in MECHANISMS.items()},
        default="softmax",
    ),
    whole("n", "n", "The number of tokens.", "Definition D.1", low=2, high=10**100, default="1e6", log=True),
    whole(
        "d",
        "d",
        "The width of a token: one column for each class, and one or two more.",
        "Definition D.1",
        low=3,
        high=102,
        default="42",
    ),
    whole(
        "m",
        "m",
        "The width of the last layer: the number of random sign vectors $y$ that the output of the attention is "
        "multiplied with.",
        "Definition C.6",
        low=1,
        high=10**6,
        default="15",
        log=True,
    ),
    decimal(
        "a0",
        "a₀",
        r"The first coordinate of the special token in $D_0$, in units of $\sqrt{\log n}$ (of $\log n$ in "
        "cross-attention). It is small, so that no token stands out.",
        "Definitions D.1 and F.1",
        low="0",
        high="5",
        default="0.01",
        places=4,
    ),
    decimal(
        "a1",
        "a₁",
        "The first coordinate of the special token in $D_1$, in the same units. It is large, so that this token "
        "stands out.",
        "Definitions D.1 and F.1",
        low="0",
        high="5",
        default="1.2",
        places=4,
    ),
    decimal(
        "b",
        "b",
        "A token's entry in the column of its class.",
        "Definition D.1",
        low="0",
        high="5",
        default="0.2",
        places=4,
    ),
    decimal(
        "c",
        "c",
        r"The entry of every token in the last column; the threshold is $(c + 0.1) \sqrt{\log n}$.",
        "Definition D.1 and Theorem 6.2",
        low="0.01",
        high="5",
        default="0.8",
        places=4,
    ),
)
