"""Learned weights: y, or y and X, trained on the data of Deng, Song, Yuan and Zhou for both mechanisms."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from statistics import mean
from typing import Any

from separatrix.claims.cell_grid import cell_grid
from separatrix.claims.ledger import CellResult, Claim, Finding, Interval, Neighbour, Profile, Verdict, claim
from separatrix.errors import ArgumentError
from separatrix.lab.cell import Cell
from separatrix.lab.registry import experiment
from separatrix.separation.cross_attention import CrossAttention
from separatrix.separation.decimals import log_width
from separatrix.separation.learned import by_hand, learn
from separatrix.separation.self_attention import SelfAttention
from separatrix.separation.softmax_regression import SoftmaxRegression
from separatrix.studies.seeds import paired

SETTINGS = ("self-attention, identity", "self-attention, ones", "cross-attention")
MECHANISMS = ("softmax", "linear")
TRAINED = ("y", "y and X")
FACTORS = (1, 4, 16)
_SEEDS = 5


def setting_of(name: str, n: int, classes: int) -> SelfAttention | CrossAttention:
    """The setting with this name, with b = 0.2, c = 0.8 and the paper's m.

    D0 has a in [0, 0.09], D1 has a in [1, 2], or [1.01, 2.01] in cross-attention.
    """
    if name not in SETTINGS:
        raise ArgumentError("setting", expected=" or ".join(SETTINGS), got=repr(name))
    if name == "cross-attention":
        return CrossAttention(n, classes + 1, log_width(n, "0.01"), a0="0.09", a1="1.01")
    weights = name.removeprefix("self-attention, ")
    return SelfAttention(n, classes + 2, log_width(n, "0.01", 15), a0="0.09", a1=1, b="0.2", c="0.8", weights=weights)


@experiment(version=1, name="beyond.learned")
def learned(
    setting: str, mechanism: str, trained: str, n: int, classes: int, examples: int, steps: int, seeds: int, seed: int
) -> dict[str, Any]:
    """Return the accuracies of several seeds: with random signs, on training examples, and held out at each length."""
    models = learn(
        setting_of(setting, n, classes), mechanism, trained,  # type: ignore[arg-type]
        examples=examples, steps=steps, seeds=range(seed, seed + seeds), factors=FACTORS,
    )  # fmt: skip
    return {
        "signs": [model.signs.value for model in models],
        "train": [model.train.value for model in models],
        "held_out": [[model.held_out[at].value for model in models] for at in range(len(FACTORS))],
        "size": [model.size for model in models],
    }


@experiment(version=1, name="beyond.learned_regression")
def regression(mechanism: str, n: int, examples: int, steps: int, seeds: int, seed: int) -> dict[str, Any]:
    """Return the accuracies of several seeds in softmax regression, where only y is trained and there is one length."""
    models = learn(
        SoftmaxRegression(n, log_width(n)), mechanism, "y",  # type: ignore[arg-type]
        examples=examples, steps=steps, seeds=range(seed, seed + seeds),
    )  # fmt: skip
    return {
        "signs": [model.signs.value for model in models],
        "train": [model.train.value for model in models],
        "held_out": [model.held_out[0].value for model in models],
        "size": [model.size for model in models],
    }


@experiment(version=1, name="beyond.by_hand")
def hand(setting: str, mechanism: str, n: int, classes: int, seed: int) -> dict[str, Any]:
    """Return K, the largest first coordinates of the output for y = K e_1, and the smallest K that fires on D1."""
    weights = by_hand(setting_of(setting, n, classes), mechanism)  # type: ignore[arg-type]
    least = setting_of(setting, n, classes).threshold / weights.on_d1
    return {"on_d0": weights.on_d0, "on_d1": weights.on_d1, "K": weights.K, "least": least}


def _attention(n: int, classes: int, examples: int, steps: int, seeds: int) -> Iterator[Cell]:
    sizes = {"n": n, "classes": classes}
    for setting in SETTINGS:
        for mechanism in MECHANISMS:
            for trained in TRAINED:
                case = {"setting": setting, "mechanism": mechanism, "trained": trained}
                yield learned.cell(seed=0, examples=examples, steps=steps, seeds=seeds, **case, **sizes)


def _regression(n: int, examples: int, steps: int, seeds: int) -> Iterator[Cell]:
    for mechanism in MECHANISMS:
        yield regression.cell(seed=0, mechanism=mechanism, n=n, examples=examples, steps=steps, seeds=seeds)


def over_seeds(values: Sequence[float]) -> str:
    """The mean over the seeds and the range, as text.

    Example:
        >>> over_seeds([1.0, 0.5])
        '0.75 (0.5 to 1)'
    """
    return f"{mean(values):.3g} ({min(values):.3g} to {max(values):.3g})"


def _of(cells: Sequence[CellResult], mechanism: str, trained: str) -> list[CellResult]:
    return [
        cell for cell in cells if (cell.parameters["mechanism"], cell.parameters["trained"]) == (mechanism, trained)
    ]


def _judge(cells: Sequence[CellResult], strong: str, weak: str, right: float, weights: str) -> Finding:
    """The claim holds if softmax is right at every length, and linear attention only near the training length.

    Linear attention must be better than random signs at n and, if only y is trained, at chance level at 16 n. `right`
    is the accuracy required of softmax, and `weights` names the trained weights of linear attention.
    """
    numbers: dict[str, float | str | Interval] = {}
    for cell in cells:
        label = f"{cell.parameters['setting']}, {cell.parameters['mechanism']}, {cell.parameters['trained']}"
        numbers |= {
            f"{label}: held out at n": over_seeds(cell.result["held_out"][0]),
            f"{label}: at {FACTORS[-1]} n": over_seeds(cell.result["held_out"][-1]),
        }
    softly = [min(map(mean, cell.result["held_out"])) for cell in _of(cells, strong, "y")]
    only_y = _of(cells, weak, weights)
    gains = [mean(cell.result["held_out"][0]) - mean(cell.result["signs"]) for cell in only_y]
    longer = [mean(cell.result["held_out"][-1]) for cell in only_y]
    both = [mean(cell.result["held_out"][0]) for cell in _of(cells, "linear", "y and X")]
    numbers |= {
        "softmax, y, least at any length": min(softly),
        "linear, y, gain over random signs at n, least": min(gains),
        f"linear, y, at {FACTORS[-1]} n, most": max(longer),
        "linear, y and X, at n, least": min(both),
    }
    passed = min(softly) > right and min(gains) > 0.1 and max(longer) < 0.6
    note = (
        "Linear attention's signal is the special key's share of the weight, about 1/n. A learned y is inversely "
        "proportional to that share, and so fits one length. A learned X can increase the share itself, and this "
        "carries over in part to other lengths. Where the seeds differ much, weights exist that are better than "
        "those training has found; with a trained X this can happen to softmax too."
    )
    return Finding(Verdict.HOLDS if passed else Verdict.FAILS_AS_PRINTED, numbers, note)


_SAYS = (
    "With a trained $y$, linear attention learns to distinguish the data sets at the length it was trained on{}, "
    "though not from every initialization, and does no better than guessing at sixteen times that length. Softmax "
    "attention is right at both lengths."
)


_EXCHANGED = Neighbour(
    "the roles of softmax and linear attention are exchanged", {"strong": "linear", "weak": "softmax"}
)
_BOTH = Neighbour(
    "with both $y$ and $X$ trained, too, it does no better than guessing at sixteen times the length",
    {"weights": "y and X"},
)


def _claim(
    part: str, profile: Profile, where: str, cells: Callable[[], Iterator[Cell]], *neighbours: Neighbour
) -> Callable[[Callable[..., Finding]], Claim]:
    return claim(
        where="Learned weights",
        part=part,
        says=_SAYS.format(where),
        cells=cells,
        profile=profile,
        figures=("learned_accuracy",),
        neighbours=(_EXCHANGED, *neighbours),
    )


@_claim(
    "attention",
    "quick",
    "",
    lambda: _attention(200, 10, 24, 400, _SEEDS),
    _BOTH,
    Neighbour("softmax attention is right on all but a thousandth at both", {"right": 0.999}),
)
def attention(
    cells: Sequence[CellResult], strong: str = "softmax", weak: str = "linear", right: float = 0.95, weights: str = "y"
) -> Finding:
    return _judge(cells, strong, weak, right, weights)


@_claim(
    "attention, wider",
    "full",
    ", with more tokens and classes too",
    lambda: _attention(1_000, 20, 32, 1_000, 10),
    _BOTH,
)
def wider(
    cells: Sequence[CellResult], strong: str = "softmax", weak: str = "linear", right: float = 0.95, weights: str = "y"
) -> Finding:
    return _judge(cells, strong, weak, right, weights)


@claim(
    where="Learned weights",
    part="by hand",
    says="There is always a $y$ with which linear attention separates the data sets: $K e_1$, for the right $K$. But "
    r"the least $K$ with which it fires on $\mathcal{D}_1$ grows as $n$, and that of softmax attention does not grow.",
    cells=cell_grid(
        hand, {"setting": SETTINGS, "mechanism": MECHANISMS, "n": (200, 2_000, 20_000, 200_000)}, classes=10
    ),
    figures=("weights_by_hand",),
    neighbours=(
        Neighbour("the least $K$ of linear attention grows as $n^{1.2}$", {"power": 1.2}),
        Neighbour("the least $K$ of linear attention grows as $n^{0.8}$", {"power": 0.8}),
    ),
)
def first_coordinate(cells: Sequence[CellResult], power: float = 1.0) -> Finding:
    numbers: dict[str, float | str | Interval] = {}
    separable = [cell.result["K"] is not None for cell in cells]
    for setting in SETTINGS:
        for mechanism in MECHANISMS:
            line = [
                cell
                for cell in cells
                if (cell.parameters["setting"], cell.parameters["mechanism"]) == (setting, mechanism)
            ]
            least = [cell.result["least"] for cell in line]
            longer = (line[-1].parameters["n"] / line[0].parameters["n"]) ** power
            label = f"{setting}, {mechanism}: least K, from n = {line[0].parameters['n']}"
            numbers[f"{label} to {line[-1].parameters['n']}"] = f"{least[0]:.3g} to {least[-1]:.3g}"
            grows = least[-1] / least[0]
            separable.append(longer / 2 < grows < 2 * longer if mechanism == "linear" else grows < 1.1)
    ratios = [cell.result["on_d1"] / cell.result["on_d0"] for cell in cells if cell.parameters["mechanism"] == "linear"]
    numbers["linear: that coordinate on D1 over D0, least"] = min(ratios)
    return Finding(Verdict.HOLDS if all(separable) else Verdict.FAILS_AS_PRINTED, numbers)


def _judge_regression(
    cells: Sequence[CellResult], strong: str = "softmax", weak: str = "linear", right: float = 0.95, guess: float = 0.75
) -> Finding:
    """The claim holds if softmax is right on more than `right` of the held-out data, linear on less than `guess`."""
    result = {cell.parameters["mechanism"]: cell.result for cell in cells}
    numbers: dict[str, float | str | Interval] = {
        f"{mechanism}, {label}": over_seeds(result[mechanism][entry])
        for mechanism in MECHANISMS
        for entry, label in (("signs", "random signs"), ("train", "examples seen"), ("held_out", "held out"))
    }
    passed = min(result[strong]["held_out"]) > right and max(result[weak]["held_out"]) < guess
    note = (
        "Here learning does not close the gap. The special token moves linear attention's output by about 2/n, and "
        "the random other tokens by about 0.1 / sqrt(n), equally in every direction of y."
    )
    return Finding(Verdict.HOLDS if passed else Verdict.FAILS_AS_PRINTED, numbers, note)


def _short_regression() -> Iterator[Cell]:
    return _regression(100, 512, 300, _SEEDS)


@claim(
    where="Learned weights",
    part="softmax regression",
    says="In softmax regression a trained $y$ does not make linear attention succeed: it learns only some of its "
    "examples, and is little better than guessing on new ones. Softmax with a trained $y$ is right on nearly all "
    "new examples.",
    cells=_short_regression,
    figures=("learned_regression",),
    neighbours=(
        _EXCHANGED,
        Neighbour("softmax with a trained $y$ is right on all but a thousandth", {"right": 0.999}),
        Neighbour("linear attention is right on less than 0.6 of the new ones", {"guess": 0.6}),
    ),
)
def softmax_regression(
    cells: Sequence[CellResult], strong: str = "softmax", weak: str = "linear", right: float = 0.95, guess: float = 0.75
) -> Finding:
    return _judge_regression(cells, strong, weak, right, guess)


@claim(
    where="Learned weights",
    part="softmax regression, longer",
    says="In softmax regression with 300 tokens and four times the examples, the accuracy of linear attention with "
    "a trained $y$ is still nearer to that of guessing.",
    cells=lambda: (*_regression(300, 2_048, 600, _SEEDS), *_short_regression()),
    profile="full",
    figures=("learned_regression",),
    neighbours=(
        Neighbour("farther from guessing", {"nearer": False}),
        Neighbour("nearer to guessing by a factor of 3.4", {"times": 3.4}),
    ),
    history=(
        "Until 2026-11-17 the runs at $n = 100$ were not among the cells of the claim, and nothing was compared with "
        "them: the rule required only that softmax be above 0.95 and linear attention below 0.75. The comparison was "
        "added after the runs had been seen. The verdict did not change.",
        "Until 2026-11-17 the means over the seeds were compared, and the neighbour had a factor of five. Now the 95% "
        "interval of the differences, seed by seed, must be above zero; the measured factor is 3.3.",
    ),
)
def longer_regression(cells: Sequence[CellResult], nearer: bool = True, times: float = 1.0) -> Finding:
    """The claim holds if, in addition, linear attention is closer to one half on held-out examples than at 100 tokens.

    The difference is the distance from one half at 100 tokens minus `times` the distance at the larger n, paired by
    seed. The claim fails if its mean is not above zero, and is undecided if the mean is above zero but the 95% interval
    is not.
    """
    most = max(cell.parameters["n"] for cell in cells)
    judged = _judge_regression([cell for cell in cells if cell.parameters["n"] == most])
    long, short = (
        [abs(share - 0.5) for share in cell.result["held_out"]]
        for cell in sorted(cells, key=lambda cell: -int(cell.parameters["n"]))
        if cell.parameters["mechanism"] == "linear"
    )
    apart = paired(short, [times * x for x in long])
    if not nearer:
        apart = Interval(-apart.value, -apart.high, -apart.low, apart.confidence)
    numbers: dict[str, float | str | Interval] = {
        **judged.numbers,
        "linear, held out, from one half, n = 300": mean(long),
        "linear, held out, from one half, n = 100": mean(short),
        "how much nearer, seed by seed": apart,
    }
    if judged.verdict is not Verdict.HOLDS or apart.value <= 0:
        return Finding(Verdict.FAILS_AS_PRINTED, numbers, judged.note)
    if apart.low <= 0:
        return Finding(Verdict.UNDECIDED, numbers, "The interval of the differences includes zero.")
    return Finding(Verdict.HOLDS, numbers, judged.note)
