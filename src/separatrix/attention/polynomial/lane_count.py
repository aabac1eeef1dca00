"""In how many lanes the tokens of a chunk are laid, so that each thread has one."""

from __future__ import annotations

from separatrix.torch_threads import thread_count

_SHORTEST = 256
"""The smallest number of tokens in a lane: with fewer, starting a product takes as long as the product."""


def lanes(heads: int, size: int) -> int:
    """How many lanes the `size` tokens of a chunk are laid in: one, if there are many heads or few tokens."""
    return max(1, min(thread_count() // heads, size // _SHORTEST))
