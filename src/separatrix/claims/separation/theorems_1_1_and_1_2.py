"""Theorems 1.1 and 1.2, informal: softmax attention separates some data sets that linear attention does not."""

from __future__ import annotations

import math
from collections.abc import Sequence

from separatrix.claims.ledger import CellResult, Claim, Finding, Neighbour, claim, holds_if
from separatrix.claims.separation.growth import cells
from separatrix.claims.separation.network_theorems import PRINTED
from separatrix.separation.paths import ALLOWED, DELTA, passes, power_of_ten


def _exists(where: str, says: str, model: str) -> Claim:
    """Register an informal theorem that some data sets and networks exist; one setting is enough to show this."""

    @claim(
        where=where,
        says=says,
        cells=lambda: cells(model, ALLOWED[model], PRINTED),
        neighbours=[
            Neighbour(
                r"with a probability of failure below $(\delta / n)^{0.3}$ at $m = \log(n / \delta)$", {"power": 0.3}
            ),
            Neighbour(r"with a probability of failure below $\delta / n$ at $m = \log(n / \delta)$", {"power": 1.0}),
        ],
        history=[
            "Until 2026-11-17 the rule required only a probability of failure below $10^{-9}$ at the end of a path, "
            r"which every positive power of $\delta / n$ satisfies. The power 0.25 was set when wrong neighbours "
            r"became required, after the powers had been seen: $(3/4)^m$ is $(\delta / n)^{0.288}$."
        ],
    )
    def check(cells: Sequence[CellResult], power: float = 0.25) -> Finding:
        """Check that on some path the probability of failure is below (delta / n)^power and below 10^-9."""
        numbers: dict[str, float | str] = {}
        for cell in cells:
            label = f"g = {cell.parameters['path']}, m = log(n / delta)"
            numbers[f"{label}: success >= 0.99 from"] = power_of_ten(passes(cell.result))
            at = f"n = 10^{cell.result['log10_n'][-1]:.0f}, g = {cell.result['g'][-1]:,}"
            numbers[f"{label}: probability of failure"] = f"10^{cell.result['success'][-1]:.1f} at {at}"
        ends = [(cell.result["success"][-1], cell.result["log10_n"][-1]) for cell in cells]
        best = max(failure / (math.log10(DELTA) - log10_n) for failure, log10_n in ends)
        numbers["largest power of delta / n at the end of a path"] = best
        return holds_if(
            best >= power and min(failure for failure, _ in ends) < -9,
            numbers,
            r"$F_{\text{lin}}$ is this network with random signs. The theorem does not say that no network with "
            "linear attention could distinguish the two data sets.",
        )

    return check


_exists(
    "Theorem 1.1",
    r"There are self-attention data sets $\mathcal{D}_0$ and $\mathcal{D}_1$ such that, with high probability over "
    r"the weights, $F_{\text{exp}}$ distinguishes them and $F_{\text{lin}}$ does not.",
    "ones",
)

_exists(
    "Theorem 1.2",
    r"There are cross-attention data sets $\mathcal{D}_0$ and $\mathcal{D}_1$ such that, with high probability over "
    r"the weights, $F_{\text{exp}}$ distinguishes them and $F_{\text{lin}}$ does not.",
    "cross",
)
