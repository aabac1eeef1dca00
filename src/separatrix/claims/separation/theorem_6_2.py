"""Theorem 6.2: self-attention with QK^T = 1 separates; and how fast d must grow."""

from __future__ import annotations

from collections.abc import Sequence

from separatrix.claims.ledger import Erratum, Finding, Found, Neighbour, Rank, claim
from separatrix.claims.separation.growth import FIXED, cells, paths_finding
from separatrix.claims.separation.network_theorems import (
    ENOUGH,
    JUST_TOO_FEW,
    LESS,
    PRINTED,
    judged,
    last,
    network_cells,
    of_width,
    on_path,
    rare_along,
)
from separatrix.separation.paths import PATHS


@claim(
    paper="separation",
    where="Theorem 6.2",
    says=r"With $Q K^\top = \mathbf{1}$ and $d \in [\omega(n^{0.02}), n]$, with probability $1 - \delta / "
    r"\text{poly}(n)$, the networks have $F_{\text{exp}} > 0$ and $F_{\text{lin}} = 0$ on $\mathcal{D}_1$, and "
    r"$F_{\text{exp}} = F_{\text{lin}} = 0$ on $\mathcal{D}_0$.",
    cells=network_cells("ones", widths=(ENOUGH, JUST_TOO_FEW, PRINTED)),
    errata=(
        Erratum(
            printed=r"On $\mathcal{D}_1$: $F_{\text{exp}} > 0$, $F_{\text{exp}} = 0$. On $\mathcal{D}_0$: "
            r"$F_{\text{lin}} = 0$, $F_{\text{lin}} = 0$.",
            right=r"On $\mathcal{D}_1$: $F_{\text{exp}} > 0$, $F_{\text{lin}} = 0$. On $\mathcal{D}_0$: "
            r"$F_{\text{exp}} = 0$, $F_{\text{lin}} = 0$.",
            why=r"$F_{\text{exp}} > 0$ and $F_{\text{exp}} = 0$ exclude each other.",
            rank=Rank.TYPOGRAPHICAL,
            shown_by="on D1 F_exp = 0 almost never, F_lin = 0 almost always",
        ),
    ),
    figures=("failure_of_the_parts",),
    neighbours=(
        *LESS,
        Neighbour(rf"with $m = {JUST_TOO_FEW} \log(n / \delta)$", {"width": JUST_TOO_FEW}),
        Neighbour(r"with $m = \log(n / \delta)$", {"width": PRINTED}),
    ),
)
def theorem_6_2(found: Sequence[Found], also: str = "", width: float = ENOUGH) -> Finding:
    """All four events at once, the data's special indices drawn; the printed pair has the chance 0."""
    meant = of_width(found, width) + on_path(found, also)
    numbers, reached = rare_along(meant, "success")
    enough = of_width(found, ENOUGH)
    printed = max(10 ** last(one, "exp_fires_on_d1") for one in enough)
    right = max(10 ** last(one, "lin_silent_on_d1") for one in enough)
    numbers["chance of F_exp = 0 on D1 (printed), at the end of the paths, at most"] = printed
    numbers["chance of F_lin > 0 on D1, at the end of the paths, at most"] = right
    note = (
        "m >= 3.48 log(n / delta) is needed, as in Theorem D.5. At the paper's own sizes the chance is far from 1: the "
        "claim about Figure 5 has the numbers."
    )
    return judged(
        numbers, reached, {"on D1 F_exp = 0 almost never, F_lin = 0 almost always": printed < 1e-10 > right}, note
    )


@claim(
    paper="separation",
    where="Theorem 6.2",
    part="paths",
    says=r"With $d = \omega(n^{0.02})$, $d \le n$ and $m$ of order $\log(n / \delta)$ the separation succeeds with "
    "high probability.",
    cells=lambda: cells("ones", PATHS["ones"], 1.0),
    figures=("success_along_paths",),
    neighbours=(FIXED,),
)
def paths_ones(found: Sequence[Found], also: str = "") -> Finding:
    return paths_finding(
        found,
        "Along g = d - 2 = n^0.03, which the theorem allows, n must be astronomical before success passes 0.99. At "
        "fixed d it never does: m grows, and with it the chance that linear attention fires. The theorem is not sharp: "
        "g = log n is enough, because a class has 1/g of the weight and the sum over the classes deviates by "
        "b / sqrt(g).",
        also,
    )
