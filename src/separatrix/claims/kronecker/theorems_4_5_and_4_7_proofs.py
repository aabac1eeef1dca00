"""The proofs of Theorems 4.5 and 4.7 of Alman and Song: an index, a dimension and a size."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch

from separatrix.claims.cell_grid import cell_grid
from separatrix.claims.ledger import CellResult, Erratum, Finding, Neighbour, Rank, claim, holds_if, typographical
from separatrix.hardness.orthogonal_vectors import OrthogonalVectors
from separatrix.hardness.protocol import Protocol
from separatrix.hardness.protocol_vectors import protocol_sizes, to_gap_maxip
from separatrix.lab.registry import experiment

_RANGE = "[n / T] is not the systematic part"
_TWICE = "the vectors have half the printed dimension"
_SUM = "the sizes of three sets add up to three times one"


@experiment(version=1, name="kronecker.protocol_sizes")
def sizes(n: int, m: int, parts: int, seed: int) -> dict[str, int | bool]:
    """Return the length of the systematic part of a codeword, and the dimension of the vectors of Theorem 4.7.

    A part of the universe has r = m / T elements; the first r entries of its codeword are its bits. `coordinates`
    counts the triples (i_B, i_C, j) of messages and coins if every message has an index, and `every` is the library's
    count of them.
    """
    generator = torch.Generator().manual_seed(seed)
    a, b, c = (torch.rand(3, n, m, generator=generator) < 0.6).long()
    protocol = Protocol(m, parts)
    bits = tuple(int(x) for x in a[0])
    of_part = [bits[k * protocol.r : (k + 1) * protocol.r] for k in range(parts)]
    messages = list(itertools.product(range(protocol.p), repeat=parts))
    coordinates = sum(1 for _ in itertools.product(messages, messages, range(protocol.length)))
    instance = to_gap_maxip(OrthogonalVectors(a, b, c), protocol).instance
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
        "indexed": instance.dimension,
        "three_sets": len(a) + len(b) + len(c),
        "one_set": len(a),
    }


_cells = cell_grid(sizes, {"n m parts": ((2, 4, 2), (5, 4, 2), (6, 2, 1), (5, 6, 3))})


@claim(
    where="Theorem 4.5",
    part="proof",
    says="The proof encodes the $m / T$ bits of each part of the universe; they are the first entries of its codeword.",
    cells=_cells,
    errata=(
        typographical(
            printed=r"For each $i \in [n / T]$ the entries of the three codewords are bits.",
            right=r"They are bits for each $i \in [m / T]$.",
            why="A part has $m / T$ elements; $n$ is the length of a code of Theorem 4.4, and does not occur in the "
            "protocol. (This erratum rests on a single character of the text that we read.)",
            shown_by=_RANGE,
        ),
    ),
    neighbours=(Neighbour("the first $n / T$ entries, as printed", {"entries": "n_over_T"}),),
)
def theorem_4_5_proof(cells: Sequence[CellResult], entries: str = "m_over_T") -> Finding:
    """Check that the library's codes are systematic in exactly r places; n is the number of vectors of an instance."""
    plain = sum(not cell.result["systematic"] for cell in cells)
    mismatched = sum(cell.result[entries] != cell.result["r"] for cell in cells)
    printed = sum(cell.result["n_over_T"] != cell.result["r"] for cell in cells)
    numbers: dict[str, float | str] = {
        "protocols whose codewords do not begin with the bits": plain,
        "protocols whose number of bits is not m / T": mismatched,
        "protocols whose number of bits is not n / T": f"{printed} of {len(cells)}",
    }
    return holds_if(not plain and not mismatched, numbers, shows={_RANGE: printed > 0})


@claim(
    where="Theorem 4.7",
    part="sizes",
    says="The vectors of the proof have a coordinate for every pair of messages and every outcome of the coins, "
    "$(T')^2 m$ coordinates in all.",
    cells=_cells,
    errata=(
        typographical(
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
def theorem_4_7_sizes(cells: Sequence[CellResult], dimension: str = "every") -> Finding:
    """Count the triples of messages and coins, and check that no instance of the library has more coordinates."""
    mismatched = sum(cell.result[dimension] != cell.result["coordinates"] for cell in cells)
    wide = sum(cell.result["indexed"] > cell.result["coordinates"] for cell in cells)
    twice = sum(cell.result["printed"] == 2 * cell.result["coordinates"] for cell in cells)
    added = sum(cell.result["three_sets"] == 3 * cell.result["one_set"] for cell in cells)
    numbers: dict[str, float | str] = {
        "protocols whose number of coordinates differs": mismatched,
        "instances with more coordinates": wide,
        "protocols with half the printed dimension": f"{twice} of {len(cells)}",
    }
    return holds_if(
        not mismatched and not wide, numbers, shows={_TWICE: twice == len(cells), _SUM: added == len(cells)}
    )
