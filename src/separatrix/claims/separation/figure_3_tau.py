"""The threshold tau of softmax regression, which the paper does not print, and its effect on success."""

from __future__ import annotations

from collections.abc import Sequence

from separatrix.claims.cell_grid import cell_grid
from separatrix.claims.ledger import CellResult, Finding, Neighbour, Verdict, claim
from separatrix.lab.registry import experiment
from separatrix.separation import SoftmaxRegression, log_width

_LENGTHS = (30, 100, 300, 1000)
_TAUS = ("0.02", "0.05", "0.08", "0.12", "0.16", "0.2", "0.25", "0.3", "0.4", "0.5", "0.6", "0.7", "0.8", "0.9", "0.98")


@experiment(version=1, name="separation.tau")
def success_by_tau(n: int, taus: list[str], seed: int) -> dict[str, list[float] | int]:
    """Return certified bounds on the probabilities of success, and of F_exp = 0 on D0, at m = log n for each tau."""
    m = log_width(n)
    probabilities = [SoftmaxRegression(n, m, tau=tau).success_probability() for tau in taus]
    return {
        "m": m,
        "low": [probability.low.success for probability in probabilities],
        "high": [probability.high.success for probability in probabilities],
        "silent_low": [probability.low.exp_silent_on_d0 for probability in probabilities],
        "silent_high": [probability.high.exp_silent_on_d0 for probability in probabilities],
        "fires": [probability.high.exp_fires_on_d1 for probability in probabilities],
    }


@claim(
    where="Figure 3",
    part="tau",
    says=r"$\tau > 0$ is a parameter of the networks (Definition 3.5); Section 7.1 does not say which value it has.",
    cells=cell_grid(success_by_tau, {"n": _LENGTHS}, taus=list(_TAUS)),
    figures=("success_by_tau",),
    neighbours=(Neighbour(r"from $\tau = 0.05$ on, its value makes no difference at $n = 1000$", {"first": "0.05"}),),
)
def tau(cells: Sequence[CellResult], first: str = "0.2") -> Finding:
    """Return *illustrated* if tau makes no difference in a wide range at large n, and matters at small n."""
    at = {cell.parameters["n"]: cell for cell in cells}
    quarter, half = _TAUS.index("0.25"), _TAUS.index("0.5")
    smallest, largest = at[min(at)], at[max(at)]
    numbers: dict[str, float | str] = {}
    for n, cell in sorted(at.items()):
        for which in (quarter, half):
            bounds = f"{cell.result['low'][which]:.4f} to {cell.result['high'][which]:.4f}"
            numbers[f"success at n = {n}, m = {cell.result['m']}, tau = {_TAUS[which]}"] = bounds
    matters = smallest.result["high"][quarter] < smallest.result["low"][half] - 0.05
    from_fifth = slice(_TAUS.index(first), None)
    pairs = zip(largest.result["low"][from_fifth], largest.result["fires"][from_fifth], strict=True)
    is_alike = all(abs(low - fires) < 1e-3 for low, fires in pairs)
    if not (matters and is_alike):
        return Finding(Verdict.UNDECIDED, numbers, "The grid does not show where tau matters and where it does not.")
    note = (
        "At n = 1000 every tau from 0.2 to 0.98 gives 1 - 2^-m within 10^-3; at n = 100 and below the result depends "
        "on tau, because F_exp then fires on D0. From about one half on, the value of tau makes no difference."
    )
    return Finding(Verdict.ILLUSTRATED, numbers, note)
