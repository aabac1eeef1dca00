"""Section 4 and Appendix F of Wang, Wei, Hsu and Lee: what their training runs show, at their sizes and at small ones.

Their sizes are T = 200, q = 3, d = 5, d_e = 170 and 100,000 steps; batches of 128 as in Appendix F, and of 256 as in
Section 4: the paper says both. The dot-product threshold, which it does not give, is 0.4. A random start has entries of
variance 1 / (d + d_e), which Appendix F calls a standard deviation. The small runs show the same in seconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from separatrix.claims.ledger import Erratum, Finding, Found, Interval, Verdict, claim, holds_if
from separatrix.claims.selection.equation_4 import two_objectives
from separatrix.claims.selection.training import broken, ends, interval, lengths, runs, subsets, training
from separatrix.lab.cell import Cell

PAPER: dict[str, Any] = {"T": 200, "q": 3, "d": 5, "width": 170, "threshold": 0.4, "steps": 100_000, "records": 200}
SMALL: dict[str, Any] = {"T": 32, "q": 2, "d": 3, "width": 48, "threshold": 0.5, "steps": 5000, "records": 100}
SEEDS = 5
Optimiser = Literal["sgd", "adam"]
Initial = Literal["zero", "random"]
Numbers = dict[str, float | str | Interval]


def _pair(sizes: dict[str, Any], optimiser: Optimiser, initial: Initial, batch: int, seeds: int) -> Iterator[Cell]:
    for encoding in ("stochastic", "fixed"):
        for seed in range(seeds):
            yield training.cell(
                seed=seed, encoding=encoding, optimiser=optimiser, initial=initial, batch=batch, **sizes
            )


def _stopped(found: Sequence[Found]) -> Finding | None:
    """The finding that nothing is decided, if a run diverged; otherwise None."""
    why = list(broken(found))
    return Finding(Verdict.UNDECIDED, {"runs that diverged": len(why)}, why[0]) if why else None


def converges(found: Sequence[Found], least: float) -> Finding:
    """Figure 1: the loss falls to `least` or below, its inverse grows linearly, the cosines reach 1.

    The last half has one rate; a line is fitted to the inverse loss there, averaged over ten stretches, and the part of
    the variance that it leaves must be below 3%.
    """
    if stopped := _stopped(found):
        return stopped
    numbers: Numbers = {}
    held = True
    for one in runs(found, encoding="stochastic"):
        result = one.result
        step, loss = result["step"][1:], result["loss"][1:]
        late = step > step[-1] / 2
        stretches = np.array_split(np.flatnonzero(late), min(10, late.sum()))
        x = np.array([step[part].mean() / step[-1] for part in stretches])
        y = np.array([1 / loss[part].mean() for part in stretches])
        line = np.polyfit(x, y, 1)
        left = float((y - np.polyval(line, x)).var() / y.var()) if y.var() > 0 else 1.0
        cosines = [float(result[name][-1]) for name in ("cosine_W", "cosine_V")]
        numbers |= {
            f"training loss at the end, seed {one.seed}": float(loss[-1]),
            f"cosines to W* and V* at the end, seed {one.seed}": f"{cosines[0]:.5f}, {cosines[1]:.5f}",
            f"variance of the inverse loss that a line leaves, seed {one.seed}": left,
        }
        held = held and loss[-1] <= least and min(cosines) > 0.99 and left < 0.03 and line[0] > 0
    return holds_if(held, numbers)


def lengthens(found: Sequence[Found], apart: float, most: float) -> Finding:
    """Figures 2 and 4 to 7, top: on every longer length stochastic encodings end below the part `most` of their start.

    Fixed ones end at more than `apart` times that, and above half of what they had after a fifth of the run.
    """
    if stopped := _stopped(found):
        return stopped
    numbers: Numbers = {}
    held = True
    pairs = list(zip(runs(found, encoding="stochastic"), runs(found, encoding="fixed"), strict=True))
    for task in lengths(pairs[0][0]):
        values = [[ends(one)[task] for one in side] for side in zip(*pairs, strict=True)]
        for name, losses in zip(("stochastic", "fixed"), values, strict=True):
            numbers[f"{task}, {name}"] = interval(losses) if len(losses) > 1 else losses[0]
        held = held and all(fixed > apart * free for free, fixed in zip(*values, strict=True))
        for free, fixed in pairs:
            at = free.result["tasks"].index(task)
            start = free.result["validation"][0, at]
            early = fixed.result["validation"][len(fixed.result["step"]) // 5, at]
            held = held and bool(ends(free)[task] < most * start and ends(fixed)[task] > 0.5 * early)
    return holds_if(held, numbers)


def enlarges(found: Sequence[Found]) -> Finding:
    """Figures 4 to 7, bottom: on every larger subset both end below a tenth of the start, stochastic ones lower."""
    if stopped := _stopped(found):
        return stopped
    numbers: Numbers = {}
    held = True
    pairs = list(zip(runs(found, encoding="stochastic"), runs(found, encoding="fixed"), strict=True))
    for task in subsets(pairs[0][0]):
        values = [[ends(one)[task] for one in side] for side in zip(*pairs, strict=True)]
        for name, losses in zip(("stochastic", "fixed"), values, strict=True):
            numbers[f"{task}, {name}"] = interval(losses) if len(losses) > 1 else losses[0]
        held = held and all(free < fixed for free, fixed in zip(*values, strict=True))
        for one in [one for pair in pairs for one in pair]:
            start = one.result["validation"][0, one.result["tasks"].index(task)]
            held = held and bool(ends(one)[task] < 0.1 * start)
    return holds_if(held, numbers)


def _small_cells() -> Iterator[Cell]:
    return _pair(SMALL, "sgd", "zero", 64, 1)


@claim(
    paper="selection",
    where="Figure 1",
    part="small",
    says="With stochastic encodings the training loss goes to zero, its inverse grows linearly, and W and V turn to "
    "the ground truth; here at T = 32.",
    cells=_small_cells,
    figures=("training_loss", "ground_truth_cosines"),
)
def figure_1_small(found: Sequence[Found]) -> Finding:
    return converges(found, 0.05)


@claim(
    paper="selection",
    where="Figure 2",
    part="small",
    says="On sequences longer than those of training, stochastic encodings converge and fixed ones do not; here at "
    "T = 32.",
    cells=_small_cells,
    figures=("length_tasks",),
)
def figure_2_small(found: Sequence[Found]) -> Finding:
    return lengthens(found, 2.0, 0.1)


@claim(
    paper="selection",
    where="Figure 1",
    says="With stochastic encodings the training loss goes to zero, its inverse grows linearly, and W and V turn to "
    "the ground truth.",
    profile="full",
    cells=lambda: [
        *_pair(PAPER, "sgd", "zero", 256, 1),
        two_objectives.cell(seed=0, T=200, q=3, d=5, width=170, threshold=0.4, encodings=16),
    ],
    figures=("training_loss", "ground_truth_cosines"),
)
def figure_1(found: Sequence[Found]) -> Finding:
    """Also: the loss at the end is that of the population's recursion, to a fifth."""
    finding = converges(found, 0.005)
    if finding.verdict is Verdict.UNDECIDED:
        return finding
    predicted = next(one.result["mean of the loss"]["last"] for one in found if "mean of the loss" in one.result)
    reached = float(runs(found, encoding="stochastic")[0].result["loss"][-1])
    numbers = {**finding.numbers, "the recursion for the mean of the loss ends at": predicted}
    far = abs(reached / predicted - 1) > 0.2
    return Finding(Verdict.FAILS_AS_PRINTED if far else finding.verdict, numbers, finding.note)


@claim(
    paper="selection",
    where="Figure 2",
    says="On sequences of 250 to 400 tokens, stochastic encodings trained at 200 converge, and fixed ones stay above a "
    "constant; batches of 256.",
    profile="full",
    cells=lambda: _pair(PAPER, "sgd", "zero", 256, 1),
    figures=("length_tasks",),
)
def figure_2(found: Sequence[Found]) -> Finding:
    return lengthens(found, 5.0, 0.05)


@claim(
    paper="selection",
    where="Figure 4",
    part="lengths",
    says="SGD from zero, batches of 128, five seeds: stochastic encodings converge on longer sequences, fixed ones do "
    "not.",
    profile="full",
    cells=lambda: _pair(PAPER, "sgd", "zero", 128, SEEDS),
    figures=("length_tasks",),
)
def figure_4_lengths(found: Sequence[Found]) -> Finding:
    return lengthens(found, 5.0, 0.05)


@claim(
    paper="selection",
    where="Figure 4",
    part="subsets",
    says="On subsets of 5 to 8 tokens both converge, stochastic encodings faster; fixed ones are worse on larger ones.",
    profile="full",
    cells=lambda: _pair(PAPER, "sgd", "zero", 128, SEEDS),
    figures=("subset_tasks",),
)
def figure_4_subsets(found: Sequence[Found]) -> Finding:
    """Also: the fixed encodings' loss grows with q, by the slope of a line, an interval over seeds.

    That the means grow at every step was asked first; from q = 7 to 8 they do not, within the noise of 128 points and
    five seeds.
    """
    finding = enlarges(found)
    if finding.verdict is not Verdict.HOLDS:
        return finding
    fixed = runs(found, encoding="fixed")
    tasks = subsets(fixed[0])
    sizes = [int(task.removeprefix("q=")) for task in tasks]
    slope = interval([float(np.polyfit(sizes, [ends(one)[task] for task in tasks], 1)[0]) for one in fixed])
    numbers: Numbers = {**finding.numbers, "loss of fixed encodings a further token of the subset": slope}
    if slope.low > 0:
        return Finding(Verdict.HOLDS, numbers)
    return Finding(Verdict.FAILS_AS_PRINTED if slope.high < 0 else Verdict.UNDECIDED, numbers)


THRESHOLDS = (0.18, 0.2, 0.25, 0.3)


@claim(
    paper="selection",
    where="Figure 4",
    part="floor of fixed encodings",
    says="All validation losses of fixed encodings on longer sequences end at 0.15 or above.",
    profile="full",
    cells=lambda: [
        *_pair(PAPER, "sgd", "zero", 128, SEEDS),
        *(
            training.cell(
                seed=0, encoding="fixed", optimiser="sgd", initial="zero", batch=128, **{**PAPER, "threshold": limit}
            )
            for limit in THRESHOLDS
        ),
    ],
    figures=("fixed_floor",),
    errata=(
        Erratum(
            printed="Figure 4: all of the fixed encodings end up with validation loss at least 0.15.",
            right="At T = 250 they end lower, about 0.1 where encodings may have dot products up to 0.4.",
            why="The floor depends on the length and on the dot-product threshold, which is not given; it comes from "
            "the encodings of the new positions, a fifth of all at 250 and half at 400.",
            shown_by="a fixed run ends below 0.15",
        ),
    ),
)
def fixed_floor(found: Sequence[Found]) -> Finding:
    """The ends of fixed runs by length and threshold, beside 0.15."""
    if stopped := _stopped(found):
        return stopped
    numbers: Numbers = {}
    fixed = runs(found, encoding="fixed")
    least = min(ends(one)[task] for one in fixed for task in lengths(one))
    for limit in sorted({one.parameters["threshold"] for one in fixed}):
        group = runs(found, encoding="fixed", threshold=limit)
        for task in lengths(group[0]):
            losses = [ends(one)[task] for one in group]
            numbers[f"{task}, threshold {limit:g}"] = interval(losses) if len(losses) > 1 else losses[0]
    numbers["least end of a fixed run, 0.15 in the paper"] = least
    return holds_if(least >= 0.15, numbers, shows={"a fixed run ends below 0.15": least < 0.15})


def _one_seed(optimiser: Optimiser, initial: Initial) -> Iterator[Cell]:
    return _pair(PAPER, optimiser, initial, 128, 1)


_LEFT = "fixed: last tenth over a fifth of the run, least"


def _both(found: Sequence[Found]) -> Finding:
    """Longer sequences as in Figure 4; on larger subsets stochastic encodings end lower."""
    finding = lengthens(found, 5.0, 0.05)
    if finding.verdict is Verdict.UNDECIDED:
        return finding
    fixed_run = runs(found, encoding="fixed")[0]
    fifth = fixed_run.result["validation"][len(fixed_run.result["step"]) // 5]
    left = [ends(fixed_run)[task] / fifth[fixed_run.result["tasks"].index(task)] for task in lengths(fixed_run)]
    free, fixed = (ends(runs(found, encoding=encoding)[0]) for encoding in ("stochastic", "fixed"))
    larger = [task for task in free if task.startswith("q=")]
    numbers: Numbers = {**finding.numbers, _LEFT: min(left)}
    for task in larger:
        numbers[f"{task}, stochastic and fixed"] = f"{free[task]:.4g} and {fixed[task]:.4g}"
    ahead = all(free[task] < fixed[task] for task in larger)
    verdict = Verdict.FAILS_AS_PRINTED if finding.verdict is Verdict.HOLDS and not ahead else finding.verdict
    return Finding(verdict, numbers, finding.note)


@claim(
    paper="selection",
    where="Figure 5",
    says="Adam from zero, much as in Figure 4: on longer sequences stochastic encodings converge and fixed ones stay, "
    "on larger subsets stochastic ones are ahead.",
    profile="full",
    cells=lambda: _one_seed("adam", "zero"),
    figures=("length_tasks", "subset_tasks"),
    errata=(
        Erratum(
            printed="Figures 5 and 7: with Adam the advantage on longer sequences is similar to Figure 4, where fixed "
            "encodings are unable to converge.",
            right="The advantage is larger, but fixed encodings do not level off: from step 20,000 to the end their "
            "loss halves, and it still falls.",
            why="200 encodings span all of R^170, so nothing keeps W from the ground truth on positions never trained; "
            "SGD at these rates is slow to get there, Adam is not.",
            shown_by="fixed encodings halve their loss after a fifth of the run",
        ),
    ),
)
def figure_5(found: Sequence[Found]) -> Finding:
    finding = _both(found)
    least = finding.numbers.get(_LEFT)
    halved = isinstance(least, float) and least <= 0.5
    return replace(finding, shows={"fixed encodings halve their loss after a fifth of the run": halved})


@claim(
    paper="selection",
    where="Figure 6",
    says="SGD from a random start: much the same as from zero, with the same advantage of stochastic encodings.",
    profile="full",
    cells=lambda: _one_seed("sgd", "random"),
    figures=("length_tasks", "subset_tasks"),
)
def figure_6(found: Sequence[Found]) -> Finding:
    return _both(found)


@claim(
    paper="selection",
    where="Figure 7",
    says="Adam from a random start, much as in Figure 4: on longer sequences stochastic encodings converge and fixed "
    "ones stay, on larger subsets stochastic ones are ahead.",
    profile="full",
    cells=lambda: _one_seed("adam", "random"),
    figures=("length_tasks", "subset_tasks"),
)
def figure_7(found: Sequence[Found]) -> Finding:
    return _both(found)
