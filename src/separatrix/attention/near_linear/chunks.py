"""How many tokens the polynomial method takes at a time: functions of sizes alone, so that results are reproducible."""

from __future__ import annotations

CHUNK_BYTES = 3 << 24
"""How many bytes the monomials of a chunk may take."""
PIECE = 1 << 20
"""How many entries the certificate processes at once: they stay in cache for forty passes, and occupy all threads."""
FORWARD_TOKENS = 512
"""The least number of tokens in a chunk of a causal scan that is not differentiated."""
CAUSAL_BYTES = 1 << 22
"""How many bytes the running sums of a causal chunk may take."""


def chunk_tokens(heads: int, rank: int, wide: bool) -> int:
    """The number of tokens in a chunk; not too many, because each token in a chunk's sum adds a rounding.

    Their monomials stay in the last cache, and a product is long enough to be worth two threads.
    """
    fit = CHUNK_BYTES // (max(heads, 1) * rank * (8 if wide else 4))
    return min(12288 if wide else 2048, max(64, fit // 64 * 64))


def causal_chunk(heads: int, rank: int, width: int) -> int:
    """The number of tokens in a causal chunk, whose running sums take about `CAUSAL_BYTES`."""
    return max(8, CAUSAL_BYTES // max(8 * heads * rank * width, 1))


def scan_chunk(heads: int, rank: int, width: int, is_backward: bool) -> int:
    """The number of tokens in a chunk of the causal scan: their values and the kept states of a head fill its memory.

    In a backward pass the kernels keep a state for every 16 tokens (csrc/scan.hpp) of each head that a thread is at. A
    forward pass keeps none, and its chunks have at least `FORWARD_TOKENS`: it reads and writes the states of a chunk
    once, which for a large rank takes longer than 16 tokens do.
    """
    tokens = 16 * (CAUSAL_BYTES // max(8 * rank * width, 1))
    if not is_backward:
        tokens = max(tokens, FORWARD_TOKENS)
    return max(16, min(tokens, CAUSAL_BYTES // max(8 * heads * width, 1)))
