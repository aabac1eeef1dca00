"""Theorem E.4: with QK^T = I, F_exp > 0 on D1; and how fast d must grow."""

from __future__ import annotations

from collections.abc import Sequence

from separatrix.claims.ledger import CellResult, Erratum, Finding, Neighbour, Rank, claim
from separatrix.claims.separation.growth import FIXED, cells, paths_finding
from separatrix.claims.separation.network_theorems import CONTRADICT, fires
from separatrix.separation.paths import PATHS

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
