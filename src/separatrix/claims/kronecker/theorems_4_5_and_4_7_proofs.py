"""The proofs of Theorems 4.5 and 4.7 of Alman and Song: an index, a dimension and a size."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import torch

from separatrix.claims.ledger import Erratum, Finding, Found, Neighbour, Rank, claim, holds_if
from separatrix.hardness.orthogonal_vectors import OrthogonalVectors
from separatrix.hardness.protocol import Protocol
from separatrix.hardness.protocol_vectors import protocol_sizes, to_gap_maxip
from separatrix.lab.cell import Cell
from separatrix.lab.registry import experiment

_RANGE = "[n / T] is not the systematic part"
_TWICE = "the vectors have half the printed dimension"
_SUM = "the sizes of three sets add up to three times one"


@experiment(version=1, name="kronecker.protocol_sizes")
def sizes(n: int, m: int, parts: int, seed: int) -> dict[str, int | bool]:
    """What the systematic part of a codeword holds, and the dimension of the vectors of Theorem 4.7.

    A part of the universe has r = m / T elements; the first r entries of its codeword are its bits. `coordinates`
    counts the triples (i_B, i_C, j) of messages and coins, every message indexed, and `every` is the library's count of
    them.
    """
    generator = torch.Generator().manual_seed(seed)
    a, b, c = (torch.rand(3, n, m, generator=generator) < 0.6).long()
    protocol = Protocol(m, parts)
    bits = tuple(int(x) for x in a[0])
    of_part = [bits[k * protocol.r : (k + 1) * protocol.r] for k in range(parts)]
    messages = list(itertools.product(range(protocol.p), repeat=parts))
    coordinates = sum(1 for _ in itertools.product(messages, messages, range(protocol.length)))
    made = to_gap_maxip(OrthogonalVectors(a, b, c), protocol).instance
    return {
        "systematic": all(
            tuple(word[: protocol.r]) == bits for word, bits in zip(protocol.encode(bits), of_part, strict=True)
        ),
        "r": protocol.r,
        "m_over_T": m // parts,
        "n_over_T": n // parts,
        "coordinates": coordinates,
        "every": round(2 ** protocol_sizes((n, n, n), protocol).every_message),
        "printed": 2 * len(messages) ** 2 * protocol.length,
        "indexed": made.dimension,
        "three_sets": len(a) + len(b) + len(c),
        "one_set": len(a),
    }


def _cells() -> Iterator[Cell]:
    for n, m, parts in ((2, 4, 2), (5, 4, 2), (6, 2, 1), (5, 6, 3)):
        yield sizes.cell(seed=0, n=n, m=m, parts=parts)


@claim(
    paper="kronecker",
    where="Theorem 4.5",
    part="proof",
    says="The proof encodes the $m / T$ bits of each part of the universe; they are the first entries of its codeword.",
    cells=_cells,
    errata=(
        Erratum(
            rank=Rank.TYPOGRAPHICAL,
            printed=r"For each $i \in [n / T]$ the entries of the three codewords are bits.",
            right=r"They are bits for each $i \in [m / T]$.",
            why="A part has $m / T$ elements; $n$ is the length of a code of Theorem 4.4, and does not occur in the "
            "protocol. (This erratum rests on a single character of the text that we read.)",
            shown_by=_RANGE,
        ),
    ),
    neighbours=(Neighbour("the first $n / T$ entries, as printed", {"entries": "n_over_T"}),),
)
def theorem_4_5_proof(found: Sequence[Found], entries: str = "m_over_T") -> Finding:
    """The library's codes are systematic in just r places; n is the number of vectors of an instance here."""
    plain = sum(not one.result["systematic"] for one in found)
    other = sum(one.result[entries] != one.result["r"] for one in found)
    printed = sum(one.result["n_over_T"] != one.result["r"] for one in found)
    numbers: dict[str, float | str] = {
        "protocols whose codewords do not begin with the bits": plain,
        "protocols with another number of bits than m / T": other,
        "protocols with another number of bits than n / T": f"{printed} of {len(found)}",
    }
    return holds_if(not plain and not other, numbers, shows={_RANGE: printed > 0})


@claim(
    paper="kronecker",
    where="Theorem 4.7",
    part="sizes",
    says="The vectors of the proof have a coordinate for every pair of messages and every outcome of the coins, "
    "$(T')^2 m$ coordinates in all.",
    cells=_cells,
    errata=(
        Erratum(
            rank=Rank.TYPOGRAPHICAL,
            printed="Gap-MaxIP with $d = 2 (T')^2 m$; the vectors have dimension $2 (T')^2 m$.",
            right="$d = (T')^2 m$.",
            why=r"The vectors are in $\lbrace 0, 1 \rbrace^{(T')^2 \times m}$ by their definition. Only the constant "
            r"in $d = O(\log n)$ changes.",
            shown_by=_TWICE,
        ),
        Erratum(
            rank=Rank.PROOF,
            printed=r"$(\lvert A \rvert + \lvert B \rvert + \lvert C \rvert)^{3 - \delta_{\text{OV}}} = "
            r"(2^{m/c})^{3 - \delta_{\text{OV}}}$.",
            right=r"$(3 \cdot 2^{m/c})^{3 - \delta_{\text{OV}}}$, which is at least the printed value.",
            why="Each of the three sets has $2^{m/c}$ vectors. The constant does not change the order.",
            shown_by=_SUM,
        ),
    ),
    neighbours=(Neighbour("$2 (T')^2 m$ in all, as printed", {"dimension": "printed"}),),
)
def theorem_4_7_sizes(found: Sequence[Found], dimension: str = "every") -> Finding:
    """Triples of messages and coins are counted one by one; no instance of the library has more coordinates."""
    other = sum(one.result[dimension] != one.result["coordinates"] for one in found)
    wide = sum(one.result["indexed"] > one.result["coordinates"] for one in found)
    twice = sum(one.result["printed"] == 2 * one.result["coordinates"] for one in found)
    added = sum(one.result["three_sets"] == 3 * one.result["one_set"] for one in found)
    numbers: dict[str, float | str] = {
        "protocols with another number of coordinates": other,
        "instances with more coordinates": wide,
        "protocols with half the printed dimension": f"{twice} of {len(found)}",
    }
    return holds_if(not other and not wide, numbers, shows={_TWICE: twice == len(found), _SUM: added == len(found)})
