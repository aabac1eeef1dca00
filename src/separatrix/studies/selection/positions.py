"""Which encoding of positions generalises in length: learned, sinusoidal and rotary ones beside the paper's.

Trained at T = 20 and judged at longer sequences, on the task of Wang, Wei, Hsu and Lee.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from statistics import fmean

from separatrix.claims.ledger import Finding, Found, Interval, Neighbour, Verdict, claim
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


def by_encoding(found: Sequence[Found]) -> dict[str, list[Found]]:
    """The runs of each encoding, by its name."""
    return {kind: [one for one in found if one.parameters["encoding"] == kind] for kind in _KINDS}


def at(one: Found, length: int) -> float:
    """The loss of a run at a length, its own or a longer one."""
    return float(one.result["final"] if length == one.parameters["T"] else one.result["at_length"][str(length)])


def _positions(found: Sequence[Found], carrying: str = "stochastic", times: float = 2.0) -> Finding:
    """The claim holds if at twice the length every stochastic run has less than half the loss of every other run.

    `times` is the factor between them.
    """
    kinds, longest = by_encoding(found), max(LENGTHS)
    stochastic = max(at(one, longest) for one in kinds[carrying])
    others = min(at(one, longest) for kind, some in kinds.items() if kind != carrying for one in some)
    numbers: dict[str, float | str | Interval] = {
        f"loss / answering zero at T = 20, {kind}": summary(some) for kind, some in kinds.items()
    }
    for kind, some in kinds.items():
        numbers[f"loss / answering zero at T = {longest}, {kind}"] = fmean(at(one, longest) for one in some) / ZERO
    numbers["largest stochastic / smallest other loss at twice the length"] = stochastic / others
    note = (
        "Rows that training never saw carry no meaning: one-hot, fixed and learned encodings know nothing of them, and "
        "training the encoding makes it worse. Sinusoidal and rotary encodings are smooth, 1 radian a position at "
        "most, so neighbours look alike at any length: rotary attention fails alike at all of them."
    )
    return Finding(Verdict.HOLDS if stochastic < others / times else Verdict.FAILS_AS_PRINTED, numbers, note)


_SAYS = (
    "Trained at $T = 20$, only a transformer with the stochastic encoding still selects at twice the length; "
    "one-hot, fixed, learned, sinusoidal and rotary positions have more than twice its loss there."
)

_FIXED = Neighbour("only a transformer with a fixed encoding still selects at twice the length", {"carrying": "fixed"})


def _more(times: float) -> Neighbour:
    return Neighbour(f"the others have more than {times:g} times its loss there", {"times": times})


positions = claim(
    paper="beyond",
    where="Token selection",
    part="positions and length",
    says=_SAYS,
    cells=_runs(300, seeds=2),
    figures=("selection_positions",),
    neighbours=(_FIXED, _more(3)),
)(_positions)

positions_longer = claim(
    paper="beyond",
    where="Token selection",
    part="positions and length, longer",
    says=f"{_SAYS} Six times the steps and five seeds.",
    profile="full",
    cells=_runs(1800, seeds=5),
    figures=("selection_positions",),
    neighbours=(_FIXED, _more(20)),
)(_positions)
