"""Theorems D.5 to F.17: each of the networks is positive, or 0, on each of the data sets; and how fast d must grow."""

from __future__ import annotations

import math
from collections.abc import Sequence

from separatrix.claims.ledger import CellResult, Erratum, Finding, Neighbour, Rank, claim, typographical
from separatrix.claims.separation.growth import FIXED, cells, paths_finding
from separatrix.claims.separation.network_theorems import (
    BOUNDED_A1,
    CONTRADICT,
    NOT_SHARP,
    WIDER,
    WRONG_SET,
    cites_wrongly,
    fires,
    fires_there,
    silent,
    unlike,
)
from separatrix.separation.paths import PATHS

fires(
    "Theorem D.5",
    r"With $Q K^\top = \mathbf{1}$, $d \in [\omega(n^{0.02}), n]$ and $\tau = (c + 0.1) \sqrt{\log n}$: on "
    r"$\mathcal{D}_1$, $F_{\text{exp}} > 0$ with probability $1 - \delta / \text{poly}(n)$.",
    "ones",
    "ones, least a1",
    figures=("failure_of_the_parts",),
    home=__name__,
)


silent(
    "Theorem D.9",
    r"With $Q K^\top = \mathbf{1}$ and $d \in [\omega(n^{4 a_0 + 0.02}), n]$, on $\mathcal{D}_0$, $F_{\text{exp}} = 0$ "
    r"with probability $1 - \delta / \text{poly}(n)$.",
    "exp_silent_on_d0",
    (WRONG_SET,),
    fires_there,
    "ones",
    paths=WIDER,
    note=NOT_SHARP,
    home=__name__,
)


silent(
    "Theorem D.13",
    r"With $Q K^\top = \mathbf{1}$, $d \in [\omega(n^{0.02}), n]$ and $a_1 = O(1)$, on $\mathcal{D}_1$, "
    r"$F_{\text{lin}} = 0$ with probability $1 - \delta / \text{poly}(n)$.",
    "lin_silent_on_d1",
    (cites_wrongly("Lemma D.4", "Lemma D.12"), BOUNDED_A1),
    unlike("lin_silent_on_d1"),
    "ones",
    "ones, least a1",
    home=__name__,
)


def _two_networks(cells: Sequence[CellResult]) -> dict[str, bool]:
    pairs = [
        pair for cell in cells for pair in zip(*(cell.result[f"{x}_silent_on_d0"] for x in ("exp", "lin")), strict=True)
    ]
    apart = [abs(x - y) for x, y in pairs if math.isfinite(x) and math.isfinite(y)]
    return {"F_exp and F_lin differ on D0": max(apart) > 1e-3}


silent(
    "Theorem D.17",
    r"With $Q K^\top = \mathbf{1}$ and $d \in [\omega(n^{0.02}), n]$, on $\mathcal{D}_0$, $F_{\text{lin}} = 0$ with "
    r"probability $1 - \delta / \text{poly}(n)$.",
    "lin_silent_on_d0",
    (
        typographical(
            printed=r"$F_{\text{exp}}$ is defined, with $c_{\text{exp}}$; the heading of the section names "
            r"$F_{\text{exp}}$ too.",
            right=r"The theorem should define $F_{\text{lin}}$, with $c_{\text{lin}}$.",
            why=r"The conclusion is about $F_{\text{lin}}$, and the two networks are not the same on $\mathcal{D}_0$.",
            shown_by="F_exp and F_lin differ on D0",
        ),
    ),
    _two_networks,
    "ones",
    home=__name__,
)


fires(
    "Theorem E.4",
    r"With $Q K^\top = I$, $a_1 \ge 1$, $b^2 + c^2 = 1$, $b < 0.2$ and $d \in [\omega(n^{2 b^2 + 0.02}), n]$: on "
    r"$\mathcal{D}_1$, $F_{\text{exp}} > 0$ with probability $1 - \delta / \text{poly}(n)$.",
    "identity",
    "identity, b + c = 1",
    more=(
        Erratum(
            printed=r"$b^2 + c^2 = 1$, and data from Definition D.1, which has $b + c = 1$ with $b, c \ge 0.1$.",
            right="The two cannot hold together. We check the theorem with $b^2 + c^2 = 1$, and also with $b + c = 1$.",
            why="Together the two equations give $b c = 0$.",
            rank=Rank.STATEMENT,
            at="Theorem E.4, hypotheses",
            slip="b + c = 1 and b^2 + c^2 = 1",
            shown_by=CONTRADICT,
        ),
    ),
    figures=("failure_of_the_parts",),
    home=__name__,
)


@claim(
    where="Theorem E.4",
    part="paths",
    says=r"With $Q K^\top = I$ the theorem requires $d = \omega(n^{2 b^2 + 0.02})$; the paper omits the proofs for "
    "the other three networks and says that they are similar.",
    cells=lambda: (cell for model in ("identity", "identity, b + c = 1") for cell in cells(model, PATHS[model], 1.0)),
    figures=("success_along_paths",),
    neighbours=(FIXED, Neighbour("$d = n^{0.02}$ is enough", {"also": "n^0.02"})),
)
def paths_identity(cells: Sequence[CellResult], also: str = "") -> Finding:
    return paths_finding(
        cells,
        "Success depends on how g = d - 2 compares with n^(b^2), the weight of a row on its own class: along g = "
        "n^0.02 < n^(b^2) success goes to 0, along g = n^0.05 it goes to 1, although the theorem requires n^0.085 or "
        "more.",
        also,
    )


fires(
    "Theorem F.5",
    r"In cross-attention with $d \in [\omega(n^{0.02}), n]$ and $\tau = 0.9$, on $\mathcal{D}_1$, $F_{\text{exp}} > "
    r"0$ with probability $1 - \delta / \text{poly}(n)$.",
    "cross",
    figures=("failure_of_the_parts",),
    home=__name__,
)


@claim(
    where="Theorem F.5",
    part="paths",
    says=r"In cross-attention, with $d = \omega(n^{0.02})$, $d \le n$ and $m$ of order $\log(n / \delta)$, the "
    "separation succeeds with high probability.",
    cells=lambda: cells("cross", PATHS["cross"], 1.0),
    figures=("success_along_paths",),
    neighbours=(FIXED,),
)
def paths_cross(cells: Sequence[CellResult], also: str = "") -> Finding:
    return paths_finding(
        cells,
        "At a fixed d the probability of success falls with n, because m grows. The theorem is not sharp: g = d - 1 "
        "= log n is enough.",
        also,
    )


silent(
    "Theorem F.9",
    r"In cross-attention with $d \in [\omega(n^{2 a_0 + 0.02}), n]$, on $\mathcal{D}_0$, $F_{\text{exp}} = 0$ with "
    r"probability $1 - \delta / \text{poly}(n)$.",
    "exp_silent_on_d0",
    (WRONG_SET, cites_wrongly("Lemma F.4", "Lemma F.8")),
    lambda cells: {**fires_there(cells), **unlike("exp_silent_on_d0")(cells)},
    "cross",
    paths=WIDER,
    note=NOT_SHARP,
    home=__name__,
)


silent(
    "Theorem F.13",
    r"In cross-attention with $d \in [\omega(n^{0.02}), n]$, on $\mathcal{D}_1$, $F_{\text{lin}} = 0$ with probability "
    r"$1 - \delta / \text{poly}(n)$.",
    "lin_silent_on_d1",
    (cites_wrongly("Lemma F.4", "Lemma F.12"),),
    unlike("lin_silent_on_d1"),
    "cross",
    home=__name__,
)


silent(
    "Theorem F.17",
    r"In cross-attention with $d \in [\omega(n^{0.02}), n]$, on $\mathcal{D}_0$, $F_{\text{lin}} = 0$ with probability "
    r"$1 - \delta / \text{poly}(n)$.",
    "lin_silent_on_d0",
    (cites_wrongly("Lemma F.4", "Lemma F.16"),),
    unlike("lin_silent_on_d0"),
    "cross",
    home=__name__,
)
