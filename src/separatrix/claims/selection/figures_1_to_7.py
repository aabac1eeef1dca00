"""Section 4 and Appendix F of Wang, Wei, Hsu and Lee: the training runs, at the paper's sizes and at small ones.

The paper's sizes are T = 200, q = 3, d = 5, d_e = 170 and 100,000 steps, with batches of 128 in Appendix F and of 256
in Section 4. The dot-product threshold, which the paper does not print, is 0.4. A random initialisation has entries of
variance 1 / (d + d_e), which Appendix F calls a standard deviation. The small runs show the same in seconds. The
captions describe curves whose settings are not all printed, so a result that does not occur with our settings is `not
reproduced` and not a misprint.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np

from separatrix.claims.ledger import CellResult, Finding, Interval, Neighbour, Verdict, claim
from separatrix.claims.selection.equation_4 import two_objectives
from separatrix.claims.selection.training import broken, comes_out, ends, interval, lengths, runs, subsets, training
from separatrix.lab.cell import Cell

PAPER: dict[str, Any] = {"T": 200, "q": 3, "d": 5, "width": 170, "threshold": 0.4, "steps": 100_000, "records": 200}
SMALL: dict[str, Any] = {"T": 32, "q": 2, "d": 3, "width": 48, "threshold": 0.5, "steps": 5000, "records": 100}
SEEDS = 5
Optimiser = Literal["sgd", "adam"]
Initial = Literal["zero", "random"]
Numbers = dict[str, float | str | Interval]

CHOSEN = (
    "the dot-product threshold of the encodings: 0.4",
    "the loss that is plotted: that of equation (3), half of the squared error",
    r"$x_{\text{query}} = 0$, as in Section 3.1",
    "random initialization: entries of variance $1 / (d + d_e)$, which the paper calls a standard deviation",
)
TOGETHER = (
    "The thresholds of the rule (the fractions, the factors, the last half and the last tenth of a run) were first "
    "committed together with the verdict: nothing shows that they were chosen before the runs had been seen."
)
"""The history of the rules of Figures 1, 2 and 4."""
_COSINES = (
    TOGETHER,
    "Until 2026-11-17 only the cosines of $W$ and $V$ with the ground truth had to be above 0.99. When wrong "
    "neighbours became required, the position block had to have a cosine above 0.99 too. The verdict did not change.",
)
_LEVELS = (
    "The first verdict on record is 'holds', by the rule of Figure 4, lengths; from 2026-11-16 on it was 'fails as "
    "printed', with an erratum, since fixed encodings do not level off with Adam.",
    "Until 2026-11-17 fixed encodings had to level off here too, above half of their loss after a fifth of the run. "
    "That rule is ours, and the captions speak only of an advantage. It was dropped after we had seen that with Adam "
    "the advantage is larger and that fixed encodings do not level off.",
)
EXCHANGED = Neighbour(
    "the roles of stochastic and fixed encodings are exchanged", {"better": "fixed", "worse": "stochastic"}
)


def _apart(factor: float) -> Neighbour:
    return Neighbour(f"on every longer sequence fixed encodings end {factor:g} times higher", {"apart": factor})


def _below(part: float) -> Neighbour:
    return Neighbour(f"stochastic encodings end below {part:g} times their initial loss", {"most": part})


LENGTHS_AT_PAPER_SIZE = (EXCHANGED, _apart(20), _below(0.015))
"""Neighbours of Figures 2 and 4. The population recursion starts at 0.82 and ends at 0.0195 at T = 400."""


def _pair(sizes: dict[str, Any], optimiser: Optimiser, initial: Initial, batch: int, seeds: int) -> Iterator[Cell]:
    for encoding in ("stochastic", "fixed"):
        for seed in range(seeds):
            yield training.cell(
                seed=seed, encoding=encoding, optimiser=optimiser, initial=initial, batch=batch, **sizes
            )


def _stopped(cells: Sequence[CellResult]) -> Finding | None:
    """An undecided finding if a run diverged; otherwise None."""
    why = list(broken(cells))
    return Finding(Verdict.UNDECIDED, {"runs that diverged": len(why)}, why[0]) if why else None


_TOKENS = Neighbour("the token block of $W$ aligns with the identity", {"block": "tokens"})


def _turned(result: Any, block: str) -> float:
    """The cosine of the last W to the identity in the block of positions or of tokens."""
    W, d = np.asarray(result["W"], dtype=np.float64), len(result["V"])
    diagonal = np.diagonal(W)[d:] if block == "positions" else np.diagonal(W)[:d]
    return float(diagonal.sum() / (np.linalg.norm(W) * np.sqrt(len(diagonal))))


def converges(cells: Sequence[CellResult], least: float = 0.05, block: str = "positions") -> Finding:
    """Check Figure 1: the loss falls to `least` or below, its inverse grows linearly, and the cosines reach 1.

    The last half of a run has one learning rate. A line is fitted to the inverse loss there, averaged over ten
    intervals, and the unexplained share of the variance must be below 3%.
    """
    if stopped := _stopped(cells):
        return stopped
    numbers: Numbers = {}
    passed = True
    for cell in runs(cells, encoding="stochastic"):
        result = cell.result
        step, loss = result["step"][1:], result["loss"][1:]
        late = step > step[-1] / 2
        stretches = np.array_split(np.flatnonzero(late), min(10, late.sum()))
        x = np.array([step[part].mean() / step[-1] for part in stretches])
        y = np.array([1 / loss[part].mean() for part in stretches])
        line = np.polyfit(x, y, 1)
        left = float((y - np.polyval(line, x)).var() / y.var()) if y.var() > 0 else 1.0
        cosines = [float(result[name][-1]) for name in ("cosine_W", "cosine_V")]
        numbers |= {
            f"training loss at the end, seed {cell.seed}": float(loss[-1]),
            f"cosines to W* and V* at the end, seed {cell.seed}": f"{cosines[0]:.5f}, {cosines[1]:.5f}",
            f"variance of the inverse loss that a line leaves, seed {cell.seed}": left,
        }
        turned = min(*cosines, _turned(result, block))
        passed = passed and bool(loss[-1] <= least and turned > 0.99 and left < 0.03 and line[0] > 0)
    return comes_out(passed, numbers)


def _pairs(cells: Sequence[CellResult], better: str, worse: str) -> list[tuple[CellResult, CellResult]]:
    """The runs of two kinds of encodings, in pairs with the same seed."""
    return list(zip(runs(cells, encoding=better), runs(cells, encoding=worse), strict=True))


def _loss(cell: CellResult, task: str, at: int) -> float:
    """The validation loss on a task at one record of a run."""
    return float(cell.result["validation"][at, cell.result["tasks"].index(task)])


def _final_losses(
    pairs: Sequence[tuple[CellResult, CellResult]], tasks: Sequence[str], better: str, worse: str
) -> Numbers:
    """The final losses of both kinds on each task, with their intervals over the seeds if there are several."""
    numbers: Numbers = {}
    for task in tasks:
        for name, side in zip((better, worse), zip(*pairs, strict=True), strict=True):
            losses = [ends(cell)[task] for cell in side]
            numbers[f"{task}, {name}"] = interval(losses) if len(losses) > 1 else losses[0]
    return numbers


def lengthens(
    cells: Sequence[CellResult],
    apart: float = 5.0,
    most: float = 0.05,
    better: str = "stochastic",
    worse: str = "fixed",
    *,
    level: bool = True,
) -> Finding:
    """Check longer sequences (Figures 2 and 4 to 7, top): the loss of stochastic encodings ends below `most` times its
    start.

    Fixed encodings end above `apart` times that loss. With `level` they must also level off: the final loss is above
    half of the loss after a fifth of the run.
    """
    if stopped := _stopped(cells):
        return stopped
    pairs = _pairs(cells, better, worse)
    tasks = lengths(pairs[0][0])
    passed = all(
        ends(fixed)[task] > apart * ends(free)[task]
        and ends(free)[task] < most * _loss(free, task, 0)
        and (not level or ends(fixed)[task] > 0.5 * _loss(fixed, task, len(fixed.result["step"]) // 5))
        for free, fixed in pairs
        for task in tasks
    )
    return comes_out(passed, _final_losses(pairs, tasks, better, worse))


def enlarges(cells: Sequence[CellResult], better: str, worse: str, most: float = 0.1) -> Finding:
    """Check the bottom of Figures 4 to 7: on larger subsets the losses of both kinds of encodings end below `most`
    times their start, and those of stochastic encodings end lower.
    """
    if stopped := _stopped(cells):
        return stopped
    pairs = _pairs(cells, better, worse)
    tasks = subsets(pairs[0][0])
    passed = all(ends(free)[task] < ends(fixed)[task] for free, fixed in pairs for task in tasks)
    passed &= all(ends(cell)[task] < most * _loss(cell, task, 0) for pair in pairs for cell in pair for task in tasks)
    return comes_out(passed, _final_losses(pairs, tasks, better, worse))


def _small_cells() -> Iterator[Cell]:
    return _pair(SMALL, "sgd", "zero", 64, 1)


figure_1_small = claim(
    where="Figure 1",
    part="small",
    says="With stochastic encodings the training loss goes to zero, its inverse grows linearly, and $W$ and $V$ "
    "align with the ground truth; here at $T = 32$.",
    cells=_small_cells,
    figures=("training_loss", "ground_truth_cosines"),
    neighbours=(_TOKENS, Neighbour("the training loss falls below 0.005 in the same time", {"least": 0.005})),
    chosen=CHOSEN[:3],
    history=_COSINES,
)(converges)


@claim(
    where="Figure 2",
    part="small",
    says="On sequences longer than those of training, stochastic encodings converge and fixed ones do not; here at "
    "$T = 32$.",
    cells=_small_cells,
    figures=("length_tasks",),
    neighbours=(EXCHANGED, _apart(8), _below(0.05)),
    chosen=CHOSEN[:3],
    history=(TOGETHER,),
)
def figure_2_small(
    cells: Sequence[CellResult], better: str = "stochastic", worse: str = "fixed", apart: float = 2.0, most: float = 0.1
) -> Finding:
    return lengthens(cells, apart, most, better, worse)


@claim(
    where="Figure 1",
    says="With stochastic encodings the training loss goes to zero, its inverse grows linearly, and $W$ and $V$ "
    "align with the ground truth.",
    profile="full",
    cells=lambda: [
        *_pair(PAPER, "sgd", "zero", 256, 1),
        two_objectives.cell(seed=0, T=200, q=3, d=5, width=170, threshold=0.4, encodings=16),
    ],
    figures=("training_loss", "ground_truth_cosines"),
    neighbours=(_TOKENS, Neighbour("the loss ends at half of the value that the recursion gives", {"factor": 0.5})),
    chosen=CHOSEN[:3],
    history=_COSINES,
)
def figure_1(cells: Sequence[CellResult], block: str = "positions", factor: float = 1.0) -> Finding:
    """Check in addition that the final loss agrees with the population recursion to within a fifth."""
    finding = converges(cells, 0.005, block)
    if finding.verdict is Verdict.UNDECIDED:
        return finding
    predicted = next(cell.result["mean of the loss"]["last"] for cell in cells if "mean of the loss" in cell.result)
    reached = float(runs(cells, encoding="stochastic")[0].result["loss"][-1])
    numbers = {**finding.numbers, "the recursion for the mean of the loss ends at": predicted}
    far = abs(reached / (factor * predicted) - 1) > 0.2
    return Finding(Verdict.NOT_REPRODUCED if far else finding.verdict, numbers, finding.note)


figure_2 = claim(
    where="Figure 2",
    says="After training on sequences of 200 tokens in batches of 256, the loss on sequences of 250 to 400 tokens "
    "converges with stochastic encodings, and stays above a constant with fixed ones.",
    profile="full",
    cells=lambda: _pair(PAPER, "sgd", "zero", 256, 1),
    figures=("length_tasks",),
    neighbours=LENGTHS_AT_PAPER_SIZE,
    chosen=CHOSEN[:3],
    history=(TOGETHER,),
)(lengthens)

figure_4_lengths = claim(
    where="Figure 4",
    part="lengths",
    says="With SGD from zero initialization, batches of 128 and five seeds, the loss on longer sequences converges "
    "with stochastic encodings, and not with fixed ones.",
    profile="full",
    cells=lambda: _pair(PAPER, "sgd", "zero", 128, SEEDS),
    figures=("length_tasks",),
    neighbours=LENGTHS_AT_PAPER_SIZE,
    chosen=CHOSEN[:3],
    history=(TOGETHER,),
)(lengthens)


@claim(
    where="Figure 4",
    part="subsets",
    says="On subsets of 5 to 8 tokens both kinds of encodings converge, stochastic ones faster; fixed encodings are "
    "worse on larger subsets.",
    profile="full",
    cells=lambda: _pair(PAPER, "sgd", "zero", 128, SEEDS),
    figures=("subset_tasks",),
    neighbours=(
        EXCHANGED,
        Neighbour("both end below a hundredth of their initial loss", {"most": 0.01}),
        Neighbour("fixed ones are worse by 0.005 for each further token", {"steeper": 0.005}),
    ),
    chosen=CHOSEN[:3],
    history=(
        TOGETHER,
        "Until 2026-11-16 the mean loss of fixed encodings over the seeds had to grow with every step of $q$. From $q "
        "= 7$ to 8 it does not, within the noise of 128 points and five seeds. Since then the slope of a fitted line "
        "must be above zero, by a confidence interval over the seeds.",
    ),
)
def figure_4_subsets(
    cells: Sequence[CellResult],
    better: str = "stochastic",
    worse: str = "fixed",
    most: float = 0.1,
    steeper: float = 0.0,
) -> Finding:
    """Check in addition that the slope of the loss of fixed encodings in q is significantly positive."""
    finding = enlarges(cells, better, worse, most)
    if finding.verdict is not Verdict.HOLDS:
        return finding
    fixed = runs(cells, encoding="fixed")
    tasks = subsets(fixed[0])
    sizes = [int(task.removeprefix("q=")) for task in tasks]
    slope = interval([float(np.polyfit(sizes, [ends(cell)[task] for task in tasks], 1)[0]) for cell in fixed])
    numbers: Numbers = {**finding.numbers, "increase of the loss of fixed encodings per token of the subset": slope}
    if slope.low > steeper:
        return Finding(Verdict.HOLDS, numbers)
    return Finding(Verdict.NOT_REPRODUCED if slope.high < steeper else Verdict.UNDECIDED, numbers)


THRESHOLDS = (0.18, 0.2, 0.25, 0.3)


@claim(
    where="Figure 4",
    part="floor of fixed encodings",
    says="All validation losses of fixed encodings on longer sequences end at 0.15 or above.",
    profile="full",
    cells=lambda: [
        training.cell(
            seed=seed, encoding="fixed", optimiser="sgd", initial="zero", batch=128, **{**PAPER, "threshold": limit}
        )
        for seed, limit in [*((seed, PAPER["threshold"]) for seed in range(SEEDS)), *((0, x) for x in THRESHOLDS)]
    ],
    figures=("fixed_floor",),
    chosen=(
        "the dot-product threshold of the encodings: 0.4, and also 0.18, 0.2, 0.25 and 0.3",
        "the loss that is plotted: that of equation (3), half of the squared error; and also the squared error itself",
        CHOSEN[2],
    ),
    neighbours=(Neighbour("at 0.25 or above, if the squared error itself is plotted", {"floor": 0.25, "times": 2.0}),),
    history=(
        "Until 2026-11-17 a run that ends below 0.15 made the verdict 'fails as printed', with an erratum. But the "
        "floor depends on the threshold, which is not printed, and the caption does not say whether the plotted "
        "loss has the factor 1/2, so the erratum was withdrawn.",
    ),
)
def fixed_floor(cells: Sequence[CellResult], floor: float = 0.15, times: float = 1.0) -> Finding:
    """Compare the final losses of fixed encodings, by length and threshold, with 0.15.

    With `times` = 2 the loss is the squared error without the factor 1/2. A single run that ends below 0.15 decides:
    with seed 0 and threshold 0.4 the loss at T = 250 ends at 0.098, which is 0.196 without the factor 1/2.
    """
    if stopped := _stopped(cells):
        return stopped
    numbers: Numbers = {}
    fixed = runs(cells, encoding="fixed")
    least = min(ends(cell)[task] for cell in fixed for task in lengths(cell))
    for limit in sorted({cell.parameters["threshold"] for cell in fixed}):
        group = runs(cells, encoding="fixed", threshold=limit)
        for task in lengths(group[0]):
            losses = [ends(cell)[task] for cell in group]
            numbers[f"{task}, threshold {limit:g}"] = interval(losses) if len(losses) > 1 else losses[0]
    at_ours = min(ends(cell)[task] for cell in runs(cells, encoding="fixed", threshold=0.4) for task in lengths(cell))
    numbers["least end of a fixed run, 0.15 in the paper"] = least
    numbers["the same at the threshold 0.4"] = at_ours
    numbers["the same at the threshold 0.4, without the factor 1/2"] = 2 * at_ours
    if times * least >= floor:
        return Finding(Verdict.HOLDS, numbers)
    note = "The floor comes from the encodings of the new positions, a fifth of all at T = 250 and half at 400."
    return Finding(Verdict.NOT_REPRODUCED, numbers, note)


def _from_starts(optimiser: Optimiser, seeds: int, *initials: Initial) -> Iterator[Cell]:
    for initial in initials:
        yield from _pair(PAPER, optimiser, initial, 128, seeds)


_ONE = (*CHOSEN, "one seed")
_THREE = (*CHOSEN, "three seeds, with each of which the result must be reproduced")
_SEEDS = "Until 2026-11-17 there was one seed."
_LIKE = 3.0
"""The largest ratio of final losses at which runs from zero and from a random start count as "much the same"."""


def _advantage(
    cells: Sequence[CellResult], better: str = "stochastic", worse: str = "fixed", apart: float = 5.0
) -> Finding:
    """Check the advantage of Figure 4: by the factor `apart` on longer sequences, and any lead on larger subsets.

    Fixed encodings need not level off here; the claims record the history of this rule.
    """
    finding = lengthens(cells, apart, 0.05, better, worse, level=False)
    if finding.verdict is Verdict.UNDECIDED:
        return finding
    numbers: Numbers = dict(finding.numbers)
    larger = True
    for cell, opponent in _pairs(cells, better, worse):
        for task in subsets(cell):
            low, high = ends(cell)[task], ends(opponent)[task]
            numbers[f"{task}, {better} and {worse}, seed {cell.seed}"] = f"{low:.4g} and {high:.4g}"
            larger = larger and low < high
    left = []
    for cell in runs(cells, encoding="fixed"):
        fifth = len(cell.result["step"]) // 5
        left += [ends(cell)[task] / _loss(cell, task, fifth) for task in lengths(cell)]
    numbers["fixed: final loss / loss after a fifth of the run, least"] = min(left)
    ahead = finding.verdict is Verdict.HOLDS and larger
    return Finding(Verdict.HOLDS if ahead else Verdict.NOT_REPRODUCED, numbers, finding.note)


def _alike(
    cells: Sequence[CellResult],
    better: str = "stochastic",
    worse: str = "fixed",
    apart: float = 5.0,
    like: float = _LIKE,
) -> Finding:
    """Check the advantage from a random start, and that final losses are within a factor `like` of those from zero."""
    if stopped := _stopped(cells):
        return stopped
    finding = _advantage([cell for cell in cells if cell.parameters["initial"] == "random"], better, worse, apart)
    ratios = []
    for encoding in ("stochastic", "fixed"):
        starts = [runs(cells, encoding=encoding, initial=initial) for initial in ("zero", "random")]
        for zero, drawn in zip(*starts, strict=True):
            ratios += [ends(drawn)[task] / ends(zero)[task] for task in ends(zero)]
    numbers: Numbers = {
        **finding.numbers,
        "loss at the end, random start over zero, least": min(ratios),
        "loss at the end, random start over zero, largest": max(ratios),
    }
    alike = finding.verdict is Verdict.HOLDS and min(ratios) >= 1 / like and max(ratios) <= like
    return Finding(Verdict.HOLDS if alike else Verdict.NOT_REPRODUCED, numbers, finding.note)


figure_5 = claim(
    where="Figure 5",
    says="With Adam from zero initialization, stochastic encodings have an advantage on longer sequences as in "
    "Figure 4, and have the smaller loss on larger subsets.",
    profile="full",
    cells=lambda: _from_starts("adam", 3, "zero"),
    figures=("length_tasks", "subset_tasks"),
    neighbours=(EXCHANGED, _apart(300)),
    chosen=_THREE,
    history=(*_LEVELS, _SEEDS),
)(_advantage)


figure_6 = claim(
    where="Figure 6",
    says="With SGD from random initialization the results are much the same as from zero initialization, with the "
    "same advantage of stochastic encodings.",
    profile="full",
    cells=lambda: _from_starts("sgd", 1, "random", "zero"),
    figures=("length_tasks", "subset_tasks"),
    neighbours=(
        EXCHANGED,
        _apart(20),
        Neighbour("every loss is within a twentieth of the loss from zero initialization", {"like": 1.05}),
    ),
    chosen=_ONE,
    history=(
        "Until 2026-11-17 the rule was that of Figure 4, and there was no comparison with a run from zero "
        "initialization, which the caption mentions.",
    ),
)(_alike)


figure_7 = claim(
    where="Figure 7",
    says="With Adam from random initialization the results are much the same as from zero initialization: stochastic "
    "encodings have an advantage on longer sequences as in Figure 4, and the smaller loss on larger subsets.",
    profile="full",
    cells=lambda: _from_starts("adam", 3, "random", "zero"),
    figures=("length_tasks", "subset_tasks"),
    neighbours=(
        EXCHANGED,
        _apart(300),
        Neighbour("every loss is within a twentieth of the loss from zero initialization", {"like": 1.05}),
    ),
    chosen=_THREE,
    history=(*_LEVELS, _SEEDS, "Since 2026-11-17 the run from zero initialization is compared as well."),
)(_alike)
