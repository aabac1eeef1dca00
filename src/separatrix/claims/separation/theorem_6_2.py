"""Theorem 6.2: self-attention with QK^T = 1 separates; and how fast d must grow."""

from __future__ import annotations

from collections.abc import Sequence

from separatrix.claims.cell_grid import joined
from separatrix.claims.ledger import CellResult, Erratum, Finding, Neighbour, Rank, claim, typographical
from separatrix.claims.separation.growth import FIXED, cells, paths_finding
from separatrix.claims.separation.network_theorems import (
    BOUNDED_A1,
    ENOUGH,
    GROWING_A1,
    JUST_TOO_FEW,
    LESS,
    ONE_VECTOR,
    PRINTED,
    WIDTH,
    growing_a1_cells,
    judged,
    last,
    network_cells,
    of_width,
    on_path,
    rare_along,
    silence_with_growing_a1,
    too_few,
)
from separatrix.separation.paths import PATHS, rare_from

_WIDER_IN_D_9 = "F_exp = 0 on D0 along d = n^0.03, which Theorem D.9 excludes"


@claim(
    where="Theorem 6.2",
    says=r"With $Q K^\top = \mathbf{1}$, $d \in [\omega(n^{0.02}), n]$ and $a_1 = O(1)$, with probability "
    r"$1 - \delta / \text{poly}(n)$, the networks have $F_{\text{exp}} > 0$ and $F_{\text{lin}} = 0$ on "
    r"$\mathcal{D}_1$, and $F_{\text{exp}} = F_{\text{lin}} = 0$ on $\mathcal{D}_0$.",
    cells=joined(network_cells("ones", widths=(ENOUGH, JUST_TOO_FEW, PRINTED, ONE_VECTOR)), growing_a1_cells),
    errata=(
        typographical(
            printed=r"On $\mathcal{D}_1$: $F_{\text{exp}} > 0$, $F_{\text{exp}} = 0$. On $\mathcal{D}_0$: "
            r"$F_{\text{lin}} = 0$, $F_{\text{lin}} = 0$.",
            right=r"On $\mathcal{D}_1$: $F_{\text{exp}} > 0$, $F_{\text{lin}} = 0$. On $\mathcal{D}_0$: "
            r"$F_{\text{exp}} = 0$, $F_{\text{lin}} = 0$.",
            why=r"$F_{\text{exp}} > 0$ and $F_{\text{exp}} = 0$ exclude each other.",
            shown_by="on D1 F_exp = 0 almost never, F_lin = 0 almost always",
        ),
        WIDTH,
        BOUNDED_A1,
        Erratum(
            printed=r"$d \in [\omega(n^{0.02}), n]$, in an informal version of Section D.",
            right=r"Of the four parts, Theorem D.9 is proved for $d \in [\omega(n^{4 a_0 + 0.02}), n]$ only. The "
            "smaller $d$ is right: the proof of Lemma D.8 should use both lines of Lemma D.7, Parts 2 and 5.",
            why="Lemma D.8 bounds the entries of all classes by $t / n^{1 - 2 a_0}$, though only that of $j_3$'s class "
            r"can be above $t / n$. With one such entry, which vanishes, $t \sqrt{d} = o(n^{0.99})$ is enough.",
            rank=Rank.PROOF,
            shown_by=_WIDER_IN_D_9,
        ),
    ),
    figures=("failure_of_the_parts",),
    neighbours=(
        *LESS,
        Neighbour(rf"with $m = {JUST_TOO_FEW} \log(n / \delta)$", {"width": JUST_TOO_FEW}),
        Neighbour(r"with $m = \log(n / \delta)$", {"width": PRINTED}),
        GROWING_A1,
    ),
)
def theorem_6_2(cells: Sequence[CellResult], also: str = "", width: float = ENOUGH, bounded: bool = True) -> Finding:
    """Check all four events at once, with random special indices; the printed pair of events has probability 0."""
    relevant = of_width(cells, width) + on_path(cells, also)
    numbers, reached = rare_along(relevant, "success")
    enough = of_width(cells, ENOUGH)
    printed = max(10 ** last(cell, "exp_fires_on_d1") for cell in enough)
    right = max(10 ** last(cell, "lin_silent_on_d1") for cell in enough)
    numbers["probability of F_exp = 0 on D1 (printed), at the end of the paths, at most"] = printed
    numbers["probability of F_lin > 0 on D1, at the end of the paths, at most"] = right
    few, width_shown = too_few(cells)
    growing, unbounded, a1_shown = silence_with_growing_a1(cells)
    numbers |= few | growing
    narrow = {
        cell.parameters["model"]: rare_from(cell.result, "exp_silent_on_d0") for cell in on_path(enough, "n^0.03")
    }
    shows = {
        "on D1 F_exp = 0 almost never, F_lin = 0 almost always": printed < 1e-10 > right,
        WIDTH.shown_by: width_shown,
        BOUNDED_A1.shown_by: a1_shown,
        _WIDER_IN_D_9: bool(narrow) and None not in narrow.values(),
    }
    note = "At the paper's own sizes the probability is far from 1: the claim about Figure 5 has the numbers."
    return judged(numbers, [*reached, *([] if bounded else unbounded)], shows, note)


@claim(
    where="Theorem 6.2",
    part="paths",
    says=r"With $d = \omega(n^{0.02})$, $d \le n$ and $m$ of order $\log(n / \delta)$ the separation succeeds with "
    "high probability.",
    cells=lambda: cells("ones", PATHS["ones"], 1.0),
    figures=("success_along_paths",),
    neighbours=(FIXED,),
)
def paths_ones(cells: Sequence[CellResult], also: str = "") -> Finding:
    return paths_finding(
        cells,
        "Along g = d - 2 = n^0.03, which the theorem allows, n must be astronomical before the probability of "
        "success exceeds 0.99. At a fixed d it never does: m grows, and with it the probability that linear "
        "attention fires. The theorem is not sharp: g = log n is enough, because a class has 1/g of the weight and "
        "the sum over the classes deviates by b / sqrt(g).",
        also,
    )
