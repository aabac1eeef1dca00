"""Section 4 and Appendix F of Wang, Wei, Hsu and Lee: what their training runs show, at their sizes and at small ones.

Their sizes are T = 200, q = 3, d = 5, d_e = 170 and 100,000 steps; batches of 128 as in Appendix F, and of 256 as in
Section 4: the paper says both. The dot-product threshold, which it does not give, is 0.4. A random start has entries of
variance 1 / (d + d_e), which Appendix F calls a standard deviation. The small runs show the same in seconds.

The captions speak of curves, and of settings that are not all printed. What does not come out with ours is not
reproduced, which is no misprint.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np

from separatrix.claims.ledger import Finding, Found, Interval, Neighbour, Verdict, claim
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
    "a random start: entries of variance $1 / (d + d_e)$, which the paper calls a standard deviation",
)
TOGETHER = (
    "The numbers of the rule (the parts, the factors, the last half and the last tenth of a run) were first committed "
    "together with the verdict: nothing shows that they were chosen before the runs had been seen."
)
"""What is on record of the rules of Figures 1, 2 and 4."""
_COSINES = (
    TOGETHER,
    "Until 2026-11-17 only the cosines of W and V with the ground truth had to be above 0.99. When wrong neighbours "
    "became required, the rule was added that the cosine of the block of the positions is above 0.99 too; the "
    "verdict stayed.",
)
_LEVELS = (
    "The first verdict on record is 'holds', by the rule of Figure 4, lengths; from 2026-11-16 on it was 'fails as "
    "printed', with an erratum, since fixed encodings do not level off with Adam.",
    "Until 2026-11-17 fixed encodings had to level off here too, above half of what they had after a fifth of the "
    "run. That rule is ours, and the captions speak only of an advantage. It was dropped after we had seen that "
    "with Adam the advantage is larger and that fixed encodings do not level off.",
)
EXCHANGED = Neighbour("stochastic and fixed encodings change places", {"better": "fixed", "worse": "stochastic"})


def _apart(factor: float) -> Neighbour:
    return Neighbour(f"on every longer sequence fixed encodings end {factor:g} times higher", {"apart": factor})


def _below(part: float) -> Neighbour:
    return Neighbour(f"stochastic encodings end below {part:g} of their start", {"most": part})


LENGTHS_AT_PAPER_SIZE = (EXCHANGED, _apart(20), _below(0.015))
"""Neighbours of Figures 2 and 4. The population's recursion ends at 0.0195 at T = 400, where the start is 0.82."""


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


_TOKENS = Neighbour("$W$ turns to the identity in the block of the tokens", {"block": "tokens"})


def _turned(result: Any, block: str) -> float:
    """The cosine of the last W to the identity in one block, of the positions or of the tokens."""
    W, d = np.asarray(result["W"], dtype=np.float64), len(result["V"])
    diagonal = np.diagonal(W)[d:] if block == "positions" else np.diagonal(W)[:d]
    return float(diagonal.sum() / (np.linalg.norm(W) * np.sqrt(len(diagonal))))


def converges(found: Sequence[Found], least: float, block: str = "positions") -> Finding:
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
        turned = min(*cosines, _turned(result, block))
        held = held and bool(loss[-1] <= least and turned > 0.99 and left < 0.03 and line[0] > 0)
    return comes_out(held, numbers)


def lengthens(
    found: Sequence[Found], apart: float, most: float, better: str, worse: str, *, level: bool = True
) -> Finding:
    """Figures 2 and 4 to 7, top: on every longer length stochastic encodings end below the part `most` of their start.

    Fixed ones end at more than `apart` times that, and, where they are said not to go below a constant, they level off:
    they end above half of what they had after a fifth of the run.
    """
    if stopped := _stopped(found):
        return stopped
    numbers: Numbers = {}
    held = True
    pairs = list(zip(runs(found, encoding=better), runs(found, encoding=worse), strict=True))
    for task in lengths(pairs[0][0]):
        values = [[ends(one)[task] for one in side] for side in zip(*pairs, strict=True)]
        for name, losses in zip((better, worse), values, strict=True):
            numbers[f"{task}, {name}"] = interval(losses) if len(losses) > 1 else losses[0]
        held = held and all(fixed > apart * free for free, fixed in zip(*values, strict=True))
        for free, fixed in pairs:
            at = free.result["tasks"].index(task)
            start = free.result["validation"][0, at]
            early = fixed.result["validation"][len(fixed.result["step"]) // 5, at]
            held = held and bool(ends(free)[task] < most * start)
            held = held and bool(not level or ends(fixed)[task] > 0.5 * early)
    return comes_out(held, numbers)


def enlarges(found: Sequence[Found], better: str, worse: str, most: float = 0.1) -> Finding:
    """Figures 4 to 7, bottom: on every larger subset both end below a tenth of the start, stochastic ones lower.

    `most` is that tenth.
    """
    if stopped := _stopped(found):
        return stopped
    numbers: Numbers = {}
    held = True
    pairs = list(zip(runs(found, encoding=better), runs(found, encoding=worse), strict=True))
    for task in subsets(pairs[0][0]):
        values = [[ends(one)[task] for one in side] for side in zip(*pairs, strict=True)]
        for name, losses in zip((better, worse), values, strict=True):
            numbers[f"{task}, {name}"] = interval(losses) if len(losses) > 1 else losses[0]
        held = held and all(free < fixed for free, fixed in zip(*values, strict=True))
        for one in [one for pair in pairs for one in pair]:
            start = one.result["validation"][0, one.result["tasks"].index(task)]
            held = held and bool(ends(one)[task] < most * start)
    return comes_out(held, numbers)


def _small_cells() -> Iterator[Cell]:
    return _pair(SMALL, "sgd", "zero", 64, 1)


@claim(
    paper="selection",
    where="Figure 1",
    part="small",
    says="With stochastic encodings the training loss goes to zero, its inverse grows linearly, and $W$ and $V$ "
    "turn to the ground truth; here at $T = 32$.",
    cells=_small_cells,
    figures=("training_loss", "ground_truth_cosines"),
    neighbours=(_TOKENS, Neighbour("the training loss falls below 0.005 in the same time", {"least": 0.005})),
    chosen=CHOSEN[:3],
    history=_COSINES,
)
def figure_1_small(found: Sequence[Found], least: float = 0.05, block: str = "positions") -> Finding:
    return converges(found, least, block)


@claim(
    paper="selection",
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
    found: Sequence[Found], better: str = "stochastic", worse: str = "fixed", apart: float = 2.0, most: float = 0.1
) -> Finding:
    return lengthens(found, apart, most, better, worse)


@claim(
    paper="selection",
    where="Figure 1",
    says="With stochastic encodings the training loss goes to zero, its inverse grows linearly, and $W$ and $V$ "
    "turn to the ground truth.",
    profile="full",
    cells=lambda: [
        *_pair(PAPER, "sgd", "zero", 256, 1),
        two_objectives.cell(seed=0, T=200, q=3, d=5, width=170, threshold=0.4, encodings=16),
    ],
    figures=("training_loss", "ground_truth_cosines"),
    neighbours=(
        _TOKENS,
        Neighbour("the loss ends at half of what the recursion has", {"factor": 0.5}),
    ),
    chosen=CHOSEN[:3],
    history=_COSINES,
)
def figure_1(found: Sequence[Found], block: str = "positions", factor: float = 1.0) -> Finding:
    """Also: the loss at the end is that of the population's recursion, to a fifth."""
    finding = converges(found, 0.005, block)
    if finding.verdict is Verdict.UNDECIDED:
        return finding
    predicted = next(one.result["mean of the loss"]["last"] for one in found if "mean of the loss" in one.result)
    reached = float(runs(found, encoding="stochastic")[0].result["loss"][-1])
    numbers = {**finding.numbers, "the recursion for the mean of the loss ends at": predicted}
    far = abs(reached / (factor * predicted) - 1) > 0.2
    return Finding(Verdict.NOT_REPRODUCED if far else finding.verdict, numbers, finding.note)


@claim(
    paper="selection",
    where="Figure 2",
    says="After training on sequences of 200 tokens in batches of 256, the loss on sequences of 250 to 400 tokens "
    "converges with stochastic encodings, and stays above a constant with fixed ones.",
    profile="full",
    cells=lambda: _pair(PAPER, "sgd", "zero", 256, 1),
    figures=("length_tasks",),
    neighbours=LENGTHS_AT_PAPER_SIZE,
    chosen=CHOSEN[:3],
    history=(TOGETHER,),
)
def figure_2(
    found: Sequence[Found], better: str = "stochastic", worse: str = "fixed", apart: float = 5.0, most: float = 0.05
) -> Finding:
    return lengthens(found, apart, most, better, worse)


@claim(
    paper="selection",
    where="Figure 4",
    part="lengths",
    says="With SGD from zero, batches of 128 and five seeds, the loss on longer sequences converges with stochastic "
    "encodings, and not with fixed ones.",
    profile="full",
    cells=lambda: _pair(PAPER, "sgd", "zero", 128, SEEDS),
    figures=("length_tasks",),
    neighbours=LENGTHS_AT_PAPER_SIZE,
    chosen=CHOSEN[:3],
    history=(TOGETHER,),
)
def figure_4_lengths(
    found: Sequence[Found], better: str = "stochastic", worse: str = "fixed", apart: float = 5.0, most: float = 0.05
) -> Finding:
    return lengthens(found, apart, most, better, worse)


@claim(
    paper="selection",
    where="Figure 4",
    part="subsets",
    says="On subsets of 5 to 8 tokens both kinds of encodings converge, stochastic ones faster; fixed encodings are "
    "worse on larger subsets.",
    profile="full",
    cells=lambda: _pair(PAPER, "sgd", "zero", 128, SEEDS),
    figures=("subset_tasks",),
    neighbours=(
        EXCHANGED,
        Neighbour("both end below a hundredth of their start", {"most": 0.01}),
        Neighbour("fixed ones are worse by 0.005 for each further token", {"steeper": 0.005}),
    ),
    chosen=CHOSEN[:3],
    history=(
        TOGETHER,
        "Until 2026-11-16 the mean loss of fixed encodings over the seeds had to grow with every step of q. From q "
        "= 7 to 8 it does not, within the noise of 128 points and five seeds. Since then the slope of a fitted line "
        "must be above zero, by a confidence interval over the seeds.",
    ),
)
def figure_4_subsets(
    found: Sequence[Found], better: str = "stochastic", worse: str = "fixed", most: float = 0.1, steeper: float = 0.0
) -> Finding:
    """Also: the fixed encodings' loss grows with q, by the slope of a line, an interval over seeds."""
    finding = enlarges(found, better, worse, most)
    if finding.verdict is not Verdict.HOLDS:
        return finding
    fixed = runs(found, encoding="fixed")
    tasks = subsets(fixed[0])
    sizes = [int(task.removeprefix("q=")) for task in tasks]
    slope = interval([float(np.polyfit(sizes, [ends(one)[task] for task in tasks], 1)[0]) for one in fixed])
    numbers: Numbers = {**finding.numbers, "loss of fixed encodings a further token of the subset": slope}
    if slope.low > steeper:
        return Finding(Verdict.HOLDS, numbers)
    return Finding(Verdict.NOT_REPRODUCED if slope.high < steeper else Verdict.UNDECIDED, numbers)


THRESHOLDS = (0.18, 0.2, 0.25, 0.3)


@claim(
    paper="selection",
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
        "the dot-product threshold of the encodings: 0.4, and 0.18, 0.2, 0.25 and 0.3 beside it",
        "the loss that is plotted: that of equation (3), half of the squared error; the whole square beside it",
        CHOSEN[2],
    ),
    neighbours=(Neighbour("at 0.25 or above, if the whole square is plotted", {"floor": 0.25, "times": 2.0}),),
    history=(
        "Until 2026-11-17 a run that ends below 0.15 made the verdict 'fails as printed', with an erratum. But the "
        "floor depends on the threshold, which is not printed, and the caption does not say whether the plotted "
        "loss has the factor 1/2, so the erratum was withdrawn.",
    ),
)
def fixed_floor(found: Sequence[Found], floor: float = 0.15, times: float = 1.0) -> Finding:
    """The ends of fixed runs by length and threshold, beside 0.15; `times` 2 is the whole square.

    One run that ends below 0.15 decides: with seed 0 and the threshold 0.4 the loss at T = 250 ends at 0.098, which is
    0.196 without the factor 1/2.
    """
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
    at_ours = min(ends(one)[task] for one in runs(found, encoding="fixed", threshold=0.4) for task in lengths(one))
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
_THREE = (*CHOSEN, "three seeds, each of which must come out")
_SEEDS = "Until 2026-11-17 there was one seed."
_LIKE = 3.0
"""Runs from zero and from a random start are much the same if no loss ends at more than so many times the other's."""


def _advantage(found: Sequence[Found], better: str, worse: str, apart: float) -> Finding:
    """The advantage of Figure 4: on longer sequences by the factor `apart`, and ahead on larger subsets.

    That fixed encodings level off is not asked here; the claims keep the history of the rule.
    """
    finding = lengthens(found, apart, 0.05, better, worse, level=False)
    if finding.verdict is Verdict.UNDECIDED:
        return finding
    numbers: Numbers = dict(finding.numbers)
    larger = True
    for one, other in zip(runs(found, encoding=better), runs(found, encoding=worse), strict=True):
        for task in subsets(one):
            low, high = ends(one)[task], ends(other)[task]
            numbers[f"{task}, {better} and {worse}, seed {one.seed}"] = f"{low:.4g} and {high:.4g}"
            larger = larger and low < high
    left = []
    for one in runs(found, encoding="fixed"):
        fifth = one.result["validation"][len(one.result["step"]) // 5]
        left += [ends(one)[task] / fifth[one.result["tasks"].index(task)] for task in lengths(one)]
    numbers["fixed: last tenth over a fifth of the run, least"] = min(left)
    ahead = finding.verdict is Verdict.HOLDS and larger
    return Finding(Verdict.HOLDS if ahead else Verdict.NOT_REPRODUCED, numbers, finding.note)


def _alike(found: Sequence[Found], better: str, worse: str, apart: float, like: float) -> Finding:
    """The advantage from a random start, and every loss where it ends from zero, to a factor of `like`."""
    if stopped := _stopped(found):
        return stopped
    finding = _advantage([one for one in found if one.parameters["initial"] == "random"], better, worse, apart)
    ratios = []
    for encoding in ("stochastic", "fixed"):
        starts = [runs(found, encoding=encoding, initial=initial) for initial in ("zero", "random")]
        for zero, drawn in zip(*starts, strict=True):
            ratios += [ends(drawn)[task] / ends(zero)[task] for task in ends(zero)]
    numbers: Numbers = {
        **finding.numbers,
        "loss at the end, random start over zero, least": min(ratios),
        "loss at the end, random start over zero, largest": max(ratios),
    }
    alike = finding.verdict is Verdict.HOLDS and min(ratios) >= 1 / like and max(ratios) <= like
    return Finding(Verdict.HOLDS if alike else Verdict.NOT_REPRODUCED, numbers, finding.note)


@claim(
    paper="selection",
    where="Figure 5",
    says="With Adam from zero, stochastic encodings have an advantage on longer sequences as in Figure 4, and have "
    "the smaller loss on larger subsets.",
    profile="full",
    cells=lambda: _from_starts("adam", 3, "zero"),
    figures=("length_tasks", "subset_tasks"),
    neighbours=(EXCHANGED, _apart(300)),
    chosen=_THREE,
    history=(*_LEVELS, _SEEDS),
)
def figure_5(found: Sequence[Found], better: str = "stochastic", worse: str = "fixed", apart: float = 5.0) -> Finding:
    return _advantage(found, better, worse, apart)


@claim(
    paper="selection",
    where="Figure 6",
    says="With SGD from a random start the results are much the same as from zero, with the same advantage of "
    "stochastic encodings.",
    profile="full",
    cells=lambda: _from_starts("sgd", 1, "random", "zero"),
    figures=("length_tasks", "subset_tasks"),
    neighbours=(
        EXCHANGED,
        _apart(20),
        Neighbour("every loss is within a twentieth of the loss from zero", {"like": 1.05}),
    ),
    chosen=_ONE,
    history=(
        "Until 2026-11-17 the rule was that of Figure 4, and there was no comparison with a run from zero, of which "
        "the caption speaks.",
    ),
)
def figure_6(
    found: Sequence[Found], better: str = "stochastic", worse: str = "fixed", apart: float = 5.0, like: float = _LIKE
) -> Finding:
    return _alike(found, better, worse, apart, like)


@claim(
    paper="selection",
    where="Figure 7",
    says="With Adam from a random start the results are much the same as from zero: stochastic encodings have an "
    "advantage on longer sequences as in Figure 4, and the smaller loss on larger subsets.",
    profile="full",
    cells=lambda: _from_starts("adam", 3, "random", "zero"),
    figures=("length_tasks", "subset_tasks"),
    neighbours=(
        EXCHANGED,
        _apart(300),
        Neighbour("every loss is within a twentieth of the loss from zero", {"like": 1.05}),
    ),
    chosen=_THREE,
    history=(
        *_LEVELS,
        _SEEDS,
        "Since 2026-11-17 the run from zero is compared as well.",
    ),
)
def figure_7(
    found: Sequence[Found], better: str = "stochastic", worse: str = "fixed", apart: float = 5.0, like: float = _LIKE
) -> Finding:
    return _alike(found, better, worse, apart, like)
