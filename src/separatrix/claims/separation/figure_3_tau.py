"""The threshold tau of softmax regression, which the paper's experiments do not print: what it does to success."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from separatrix.claims.ledger import Finding, Found, Neighbour, Verdict, claim
from separatrix.lab.cell import Cell
from separatrix.lab.registry import experiment
from separatrix.separation import SoftmaxRegression, log_width

_LENGTHS = (30, 100, 300, 1000)
_TAUS = ("0.02", "0.05", "0.08", "0.12", "0.16", "0.2", "0.25", "0.3", "0.4", "0.5", "0.6", "0.7", "0.8", "0.9", "0.98")


@experiment(version=1, name="separation.tau")
def success_by_tau(n: int, taus: list[str], seed: int) -> dict[str, list[float] | int]:
    """Certified bounds on success at m = log n, for each tau; and on the data's side of it, F_exp silent on D0."""
    m = log_width(n)
    found = [SoftmaxRegression(n, m, tau=tau).success_probability() for tau in taus]
    return {
        "m": m,
        "low": [one.low.success for one in found],
        "high": [one.high.success for one in found],
        "silent_low": [one.low.exp_silent_on_d0 for one in found],
        "silent_high": [one.high.exp_silent_on_d0 for one in found],
        "fires": [one.high.exp_fires_on_d1 for one in found],
    }


def _cells() -> Iterator[Cell]:
    for n in _LENGTHS:
        yield success_by_tau.cell(seed=0, n=n, taus=list(_TAUS))


@claim(
    paper="separation",
    where="Figure 3",
    part="tau",
    says=r"$\tau > 0$ is a parameter of the networks (Definition 3.5); Section 7.1 does not say which value it has.",
    cells=_cells,
    figures=("success_by_tau",),
    neighbours=(Neighbour(r"from $\tau = 0.05$ on, its value makes no difference at $n = 1000$", {"first": "0.05"}),),
)
def tau(found: Sequence[Found], first: str = "0.2") -> Finding:
    """Illustrated: for large n any tau in a wide range gives 1 - 2^-m, for small n it decides."""
    at = {one.parameters["n"]: one for one in found}
    quarter, half = _TAUS.index("0.25"), _TAUS.index("0.5")
    smallest, largest = at[min(at)], at[max(at)]
    numbers: dict[str, float | str] = {}
    for n, one in sorted(at.items()):
        for which in (quarter, half):
            bounds = f"{one.result['low'][which]:.4f} to {one.result['high'][which]:.4f}"
            numbers[f"success at n = {n}, m = {one.result['m']}, tau = {_TAUS[which]}"] = bounds
    matters = smallest.result["high"][quarter] < smallest.result["low"][half] - 0.05
    from_fifth = slice(_TAUS.index(first), None)
    pairs = zip(largest.result["low"][from_fifth], largest.result["fires"][from_fifth], strict=True)
    is_alike = all(abs(low - fires) < 1e-3 for low, fires in pairs)
    if not (matters and is_alike):
        return Finding(Verdict.UNDECIDED, numbers, "The grid does not show where tau matters and where it does not.")
    note = (
        "At n = 1000 every tau from 0.2 to 0.98 gives 1 - 2^-m within 10^-3; at n = 100 and below the choice of tau "
        "decides, because F_exp then fires on D0. From about one half on it makes no difference."
    )
    return Finding(Verdict.ILLUSTRATED, numbers, note)
