"""Training the transformer as Section 4 and Appendix F of Wang, Wei, Hsu and Lee do: one experiment for every run.

The experiment returns the records of a run as arrays, with one row per record: the losses, the cosines to the ground
truth, and the validation losses on longer sequences and larger subsets. It also returns the last W and V.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from separatrix.claims.ledger import CellResult, Finding, Interval, Verdict
from separatrix.lab.registry import experiment
from separatrix.selection.settings import TrainingSettings
from separatrix.selection.training import Record, train

Floats = npt.NDArray[np.float64]

LENGTHS = (1.25, 1.5, 1.75, 2.0)
"""The validation lengths as multiples of T: 250, 300, 350 and 400 for the paper's T = 200."""
_LAST = 0.1
"""The final share of a run over which validation losses are averaged."""


@experiment(version=1, name="selection.training")
def training(
    T: int,
    q: int,
    d: int,
    width: int,
    threshold: float,
    encoding: Literal["stochastic", "fixed"],
    optimiser: Literal["sgd", "adam"],
    initial: Literal["zero", "random"],
    batch: int,
    steps: int,
    records: int,
    seed: int,
) -> dict[str, object]:
    """Train with the paper's rates: for SGD 1, and 1/3 in the second half; for Adam 0.001."""
    settings = TrainingSettings(
        T=T,
        q=q,
        d=d,
        width=width,
        threshold=threshold,
        encoding=encoding,
        optimiser=optimiser,
        initial=initial,
        batch=batch,
        steps=steps,
        lr=((0, 1.0), (steps // 2, 1 / 3)) if optimiser == "sgd" else ((0, 1e-3),),
        validate_every=max(1, steps // records),
        validation_T=tuple(round(T * times) for times in LENGTHS),
        validation_q=tuple(range(q + 2, q + 6)),
        snapshots=(steps,),
        seed=seed,
    )
    return tabulated(list(train(settings)))


def tabulated(records: Sequence[Record]) -> dict[str, object]:
    """The records of a run as arrays; missing values are nan. `stopped` says why a run ended early."""

    def column(name: str) -> Floats:
        values = [getattr(record, name) for record in records]
        return np.array([np.nan if value is None else value for value in values])

    tasks = list(records[0].validation)
    weights = records[-1].weights
    result: dict[str, object] = {
        "step": np.array([record.step for record in records]),
        "loss": column("loss"),
        "cosine_W": column("cosine_W"),
        "cosine_V": column("cosine_V"),
        "tasks": tasks,
        "validation": np.array([[record.validation.get(task, np.nan) for task in tasks] for record in records]),
        "stopped": records[-1].stopped,
    }
    if weights is not None:
        result |= {"W": weights[0], "V": weights[1]}
    return result


def runs(cells: Sequence[CellResult], **wanted: Any) -> list[CellResult]:
    """The training runs with these parameters, by seed."""
    chosen = [
        cell
        for cell in cells
        if "validation" in cell.result and all(cell.parameters[name] == value for name, value in wanted.items())
    ]
    return sorted(chosen, key=lambda cell: cell.seed)


def ends(cell: CellResult) -> dict[str, float]:
    """The mean of each task's validation losses over the last tenth of a run."""
    step, losses = cell.result["step"], cell.result["validation"]
    late = step >= (1 - _LAST) * step[-1]
    return dict(zip(cell.result["tasks"], losses[late].mean(0).tolist(), strict=True))


def lengths(cell: CellResult) -> list[str]:
    """The names of the tasks on longer sequences."""
    return [task for task in cell.result["tasks"] if task.startswith("T=")]


def subsets(cell: CellResult) -> list[str]:
    """The names of the tasks on larger subsets."""
    return [task for task in cell.result["tasks"] if task.startswith("q=")]


def interval(values: Sequence[float]) -> Interval:
    """The mean over seeds with its 95% interval by Student's t.

    >>> str(interval([1.0, 2.0, 3.0]))
    '2 (-0.484138 to 4.48414 at 95%)'
    """
    from scipy.stats import t  # type: ignore[import-untyped]

    mean, count = float(np.mean(values)), len(values)
    half = float(t.ppf(0.975, count - 1) * np.std(values, ddof=1) / np.sqrt(count))
    return Interval(mean, mean - half, mean + half, 0.95)


def broken(cells: Sequence[CellResult]) -> Iterator[str]:
    """The reasons why runs ended before their last step."""
    for cell in cells:
        if cell.result.get("stopped"):
            yield str(cell.result["stopped"])


def comes_out(passed: bool, numbers: Mapping[str, float | str | Interval]) -> Finding:
    """The finding on a caption whose settings are not all printed: *holds* or `not reproduced`.

    >>> comes_out(False, {}).verdict.value
    'not reproduced'
    """
    return Finding(Verdict.HOLDS if passed else Verdict.NOT_REPRODUCED, numbers)
