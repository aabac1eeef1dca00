"""Which encoding of positions generalises in length: the paper's, learned, sinusoidal and rotary encodings.

Models are trained at T = 20 and evaluated on longer sequences, on the task of Wang, Wei, Hsu and Lee.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from statistics import fmean

from separatrix.claims.ledger import CellResult, Finding, Interval, Neighbour, Verdict, claim
from separatrix.lab.cell import Cell
from separatrix.studies.selection.attention import ZERO, learner, summary

LENGTHS = (25, 30, 40)
_KINDS = ("one-hot", "fixed", "stochastic", "sinusoidal", "learned", "rotary")


def _runs(steps: int, seeds: int) -> Callable[[], Iterator[Cell]]:
    """The cells of the encodings: a merged W starts at zero, as in the theorems, and rotary's Q and K at random."""

    def cells() -> Iterator[Cell]:
        for encoding in _KINDS:
            rotary = encoding == "rotary"
            for seed in range(seeds):
                yield learner.cell(
                    seed=seed,
                    attention="softmax QK" if rotary else "softmax W",
                    initial="random" if rotary else "zero",
                    encoding=encoding,
                    width=max(LENGTHS) if encoding == "one-hot" else 32,
                    steps=steps,
                    lengths=list(LENGTHS),
                )

    return cells


def by_encoding(cells: Sequence[CellResult]) -> dict[str, list[CellResult]]:
    """The runs of each encoding, by its name."""
    return {kind: [cell for cell in cells if cell.parameters["encoding"] == kind] for kind in _KINDS}


def at(cell: CellResult, length: int) -> float:
    """The loss of a run at the length of training or at a longer one."""
    return float(cell.result["final"] if length == cell.parameters["T"] else cell.result["at_length"][str(length)])


def _positions(cells: Sequence[CellResult], carrying: str = "stochastic", times: float = 2.0) -> Finding:
    """The claim holds if at twice the length every stochastic run has less than half the loss of every other run.

    `times` is the required factor between the losses, 2 by default.
    """
    kinds, longest = by_encoding(cells), max(LENGTHS)
    stochastic = max(at(cell, longest) for cell in kinds[carrying])
    best_other = min(at(cell, longest) for kind, some in kinds.items() if kind != carrying for cell in some)
    numbers: dict[str, float | str | Interval] = {
        f"loss / answering zero at T = 20, {kind}": summary(some) for kind, some in kinds.items()
    }
    for kind, some in kinds.items():
        numbers[f"loss / answering zero at T = {longest}, {kind}"] = fmean(at(cell, longest) for cell in some) / ZERO
    numbers["largest stochastic / smallest other loss at twice the length"] = stochastic / best_other
    note = (
        "With one-hot, fixed and learned encodings, the rows of new positions were never seen in training and carry "
        "no information; training the encoding makes this worse. Sinusoidal and rotary encodings turn by at most 1 "
        "radian from one position to the next, so that neighbouring positions look alike at any length: rotary "
        "attention fails at all lengths alike."
    )
    return Finding(Verdict.HOLDS if stochastic < best_other / times else Verdict.FAILS_AS_PRINTED, numbers, note)


_SAYS = (
    "Trained at $T = 20$, only a transformer with the stochastic encoding still selects at twice the length; "
    "one-hot, fixed, learned, sinusoidal and rotary positions have more than twice its loss there."
)

_FIXED = Neighbour("only a transformer with a fixed encoding still selects at twice the length", {"carrying": "fixed"})


def _more(times: float) -> Neighbour:
    return Neighbour(f"the others have more than {times:g} times its loss there", {"times": times})


positions = claim(
    where="Token selection",
    part="positions and length",
    says=_SAYS,
    cells=_runs(300, seeds=2),
    figures=("selection_positions",),
    neighbours=(_FIXED, _more(3)),
)(_positions)

positions_longer = claim(
    where="Token selection",
    part="positions and length, longer",
    says=f"{_SAYS} Six times the steps and five seeds.",
    profile="full",
    cells=_runs(1800, seeds=5),
    figures=("selection_positions",),
    neighbours=(_FIXED, _more(20)),
)(_positions)
