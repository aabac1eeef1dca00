"""The reduction from orthogonal vectors to Gap-MaxIP by the protocol (Alman and Song, Theorem 4.7), with a constant
gap.

A coordinate is a place j of the code, a message i_B that Bob may send there, and a message i_C that Charlie may send.
Bob's vector has a 1 where he sends i_B, and Charlie's where he sends i_C. Alice has a vector for each alpha and each
word mu of Merlin's, with a 1 where she accepts. So

    <a^(mu, alpha), b^beta, c^gamma> = the number of places at which Alice accepts

which is N for an orthogonal triple and the true mu, and at most 3 (r - 1) for any mu if the triple is not orthogonal:
Gap-MaxIP with t = N and eps = 1/2 where N = 6 (r - 1). (The paper prints the two cases exchanged.)

Only those of the p^T messages at a place that occur have an index. There is at most one per vector, so d <= N n_b n_c
instead of N p^(2 T). All of Merlin's p^(2 (r - 1)) words are needed, since it is not known which of them is true.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from separatrix.hardness.cheating_merlin import admissible_words
from separatrix.hardness.maxip import GapMaxIP
from separatrix.hardness.orthogonal_vectors import OrthogonalVectors, Triple
from separatrix.hardness.protocol import Protocol
from separatrix.hardness.reed_solomon import Word


@dataclass(frozen=True)
class ProtocolSizes:
    """The sizes of the instance that the reduction makes.

    Attributes:
        words: the number of Merlin's words.
        rows: the number of Alice's vectors.
        dimension: an upper bound on the dimension.
        every_message: log2 of (T')^2 N with T' = p^T, the dimension if every message had an index.
    """

    words: int
    rows: int
    dimension: int
    every_message: float


@dataclass(frozen=True)
class ProtocolVectors:
    """The instance that the reduction returns, and the meaning of its rows.

    Row i of `instance.a` belongs to Merlin's word i // n_a and the vector i mod n_a.

    Attributes:
        instance: the instance of Gap-MaxIP.
        protocol: the protocol.
        words: Merlin's words.
    """

    instance: GapMaxIP
    protocol: Protocol
    words: tuple[Word, ...]

    def triple(self, rows: Triple) -> Triple:
        """The triple of vectors of the 3OV instance that corresponds to a triple of rows."""
        i, j, k = rows
        return i % (len(self.instance.a) // len(self.words)), j, k


def protocol_sizes(sizes: Triple, protocol: Protocol) -> ProtocolSizes:
    """The sizes of the instance that `to_gap_maxip` would make, for sets of `sizes` = (n_a, n_b, n_c) vectors.

    >>> sizes = protocol_sizes((4, 4, 4), Protocol(m=6, parts=3))
    >>> sizes.words, sizes.rows, sizes.dimension, round(2**sizes.every_message) == 7**6 * 6
    (49, 196, 96, True)
    """
    n_a, n_b, n_c = sizes
    # A set has fewer than 2^64 vectors, so with more than 64 parts the minimum below is the same as with 64.
    messages = protocol.p ** min(protocol.parts, 64)
    known = min(protocol.code.product_degree + 1, protocol.length)
    words = protocol.p ** (known - protocol.r)
    dimension = protocol.length * min(n_b, messages) * min(n_c, messages)
    every_message = 2 * protocol.parts * math.log2(protocol.p) + math.log2(protocol.length)
    return ProtocolSizes(words, words * n_a, dimension, every_message)


def to_gap_maxip(instance: OrthogonalVectors, protocol: Protocol) -> ProtocolVectors:
    """The instance of Gap-MaxIP for an instance of 3OV, by the protocol.

    >>> bits = torch.tensor([[1, 0, 1, 0], [0, 1, 0, 0]])
    >>> reduction = to_gap_maxip(OrthogonalVectors(bits, bits, bits), Protocol(m=4, parts=2))
    >>> reduction.instance.threshold, reduction.instance.epsilon, tuple(reduction.instance.a.shape)
    (6, 0.5, (98, 24))
    """
    words = admissible_words(protocol)
    merlin = torch.tensor(words)
    alice, bob, charlie = (_symbols(vectors, protocol) for vectors in (instance.a, instance.b, instance.c))
    a, b, c = [], [], []
    for place in range(protocol.length):
        (said_b, of_b), (said_c, of_c) = (
            torch.unique(heard[:, place], dim=0, return_inverse=True) for heard in (bob, charlie)
        )
        # Every product is reduced modulo p, so sums of T of them do not overflow int64.
        pairs = (said_b[:, None] * said_c[None] % protocol.p).flatten(0, 1)
        value = (alice[:, place, None] * pairs % protocol.p).sum(-1) % protocol.p
        a.append((merlin[:, place, None, None] == value).flatten(0, 1))
        sends_b, sends_c = (
            torch.nn.functional.one_hot(of, len(messages)).bool() for of, messages in ((of_b, said_b), (of_c, said_c))
        )
        b.append(sends_b[:, :, None].expand(-1, -1, len(said_c)).flatten(1))
        c.append(sends_c[:, None, :].expand(-1, len(said_b), -1).flatten(1))
    all_a, all_b, all_c = (torch.cat(parts, 1).to(torch.uint8) for parts in (a, b, c))
    reduced = GapMaxIP(all_a, all_b, all_c, protocol.length, float(1 - protocol.soundness_bound))
    return ProtocolVectors(reduced, protocol, tuple(words))


def _symbols(vectors: Tensor, protocol: Protocol) -> Tensor:
    """The symbols of all parts of each vector at each place, (n, N, T), by the code's generator matrix."""
    r = protocol.r
    unit = [tuple(int(row == column) for column in range(r)) for row in range(r)]
    generator = torch.tensor([protocol.code.encode(message) for message in unit])  # (r, N)
    filled = torch.nn.functional.pad(vectors.long(), (0, protocol.parts * r - protocol.m))
    words: Tensor = filled.unflatten(1, (protocol.parts, r)) @ generator % protocol.p
    return words.transpose(1, 2)
