"""The cost of a visible score in a whole kernel, from counts of its loops over full and border tiles and around them.

A kernel of exact attention computes whole tiles of scores. With a causal mask and a window, the first and the last
tiles of a block contain masked scores, and their loops compare positions. Between two runs of its innermost loops, a
kernel also loads rows, multiplies them and adds up sums. The cost of all this is divided by the number of visible
scores.
"""

from __future__ import annotations

from typing import NamedTuple

INNER_WINDOW, PREFIX_WINDOW = 512, 32
"""The windows that costs are published for, those of FBGEMM's benchmark."""


class Tiles(NamedTuple):
    """The numbers of tiles of a block without and with masked scores, and the share of visible scores."""

    peeled: int
    border: int
    visible: float


def tiles(rows: int, step: int, window: int) -> Tiles:
    """The tiles of `rows` x `step` scores that a block of rows visits, far from the ends of the sequence.

    The rows are consecutive positions. Each row sees `window` consecutive positions of the other set; those of the next
    row are shifted by one. Tiles begin at the first position that a row sees.

    >>> tiles(128, 64, 512), tiles(64, 64, 512)
    (Tiles(peeled=6, border=4, visible=0.8), Tiles(peeled=7, border=2, visible=0.8888888888888888))
    """
    count = -(-(rows + window - 1) // step)
    peeled = max(window // step - -(-(rows - 1) // step), 0)
    return Tiles(peeled, count - peeled, window / (count * step))


class Cost(NamedTuple):
    """The number of thread instructions and of computed scores per visible score."""

    instructions: float
    computed: float


def whole_cost(
    kernel: str, queries: int, keys: int, threads: int, peeled: float, border: float, around: int, alone: bool = False
) -> Cost:
    """The cost of a visible score in causal attention with windows of `INNER_WINDOW` and `PREFIX_WINDOW`.

    Args:
        kernel: A kernel of exact attention.
        queries: Queries of its block.
        keys: Inner keys of its block.
        threads: Threads of a program.
        peeled: Instructions of a thread for each score in the loop without comparisons of positions.
        border: Instructions of a thread for each score in the loop with comparisons of positions.
        around: Instructions of a thread in the enclosing loop, without those of its innermost loops.
        alone: Whether all queries of a block have the same position, because they belong to heads that share keys.

    >>> cost = whole_cost("attend", 128, 64, 256, 9.0, 17.0, 512)
    >>> cost.computed, round(cost.instructions, 2)
    (1.25, 17.25)
    >>> whole_cost("attend", 128, 64, 256, 9.0, 17.0, 512, alone=True)
    Cost(instructions=11.0, computed=1.0)
    """
    if kernel == "inner_gradient":  # the innermost loop of this kernel runs over the prefix keys of each tile
        rows, step, runs = keys, queries, 1 / PREFIX_WINDOW
        found = tiles(rows, step, INNER_WINDOW)
        runs *= found.peeled + found.border
    else:
        rows, step, runs = queries, keys, 1.0
        found = tiles(1 if alone else rows, step, INNER_WINDOW)
    # A program of `prefix_gradient` has one prefix key, which `PREFIX_WINDOW` queries see, and computes whole blocks.
    wasted = -(-PREFIX_WINDOW // queries) * queries / PREFIX_WINDOW if kernel == "prefix_gradient" else 1.0
    scores = found.peeled * peeled + found.border * border
    instructions = (scores * step + runs * around * threads / rows) / INNER_WINDOW
    return Cost(instructions * wasted, wasted / found.visible)
