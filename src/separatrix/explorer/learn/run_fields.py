"""What a visitor may choose of a training run, and which run and step to look at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from separatrix.checks import is_number
from separatrix.errors import ArgumentError, SeparatrixError
from separatrix.explorer import controls
from separatrix.explorer.fields import Field, decimal, whole, words
from separatrix.explorer.learn.asked_run import RunChoices

PAPER = "Wang, Wei, Hsu and Lee"

NEW = (
    whole(
        "run_T",
        "T",
        "The number of tokens in a training sequence.",
        f"{PAPER}, Section 4",
        low=4,
        high=64,
        default="32",
        shared=True,
    ),
    whole("run_q", "q", "The size of a subset.", f"{PAPER}, Section 4", low=1, high=8, default="2", shared=True),
    whole("run_d", "d", "The dimension of a token.", f"{PAPER}, Section 4", low=1, high=16, default="3", shared=True),
    whole(
        "run_d_e",
        "dₑ",
        "The number of coordinates of an encoding: random signs, drawn anew at every step, nearly orthogonal.",
        f"{PAPER}, Section 3.2",
        low=8,
        high=96,
        default="48",
        shared=True,
    ),
    decimal(
        "run_eta",
        "η",
        "The learning rate of stochastic gradient descent, in batches of 64.",
        f"{PAPER}, Appendix F",
        low="0.01",
        high="3",
        default="1",
        places=4,
        log=True,
        shared=True,
    ),
    whole(
        "run_steps",
        "steps",
        "The number of updates of the run.",
        f"{PAPER}, Section 4",
        low=100,
        high=20_000,
        default="3000",
        log=True,
        shared=True,
    ),
    whole(
        "run_seed",
        "seed",
        "What decides every draw: equal seeds give equal runs.",
        "",
        low=0,
        high=999_999,
        default="0",
        shared=True,
    ),
)
RUN = words("run", "run", "The run to look at.")
BESIDE = words("beside", "beside it", "Other runs, whose losses are drawn beside it: their names, with commas between.")
MOST_BESIDE = 4
STEP = whole(
    "at",
    "step",
    "The step whose W and V are shown: those kept at this step, or the last before it.",
    f"{PAPER}, Figures 3 and 8",
    low=0,
    high=10**6,
    default="1e6",
    shared=True,
)


def asked(state: Mapping[str, Any]) -> RunChoices:
    """The run that the controls ask for."""
    read = controls.values(NEW, state)
    T, q = read["run_T"], read["run_q"]
    if q > T:
        raise ArgumentError("run_q", expected=f"at most T = {T}", got=q)
    return RunChoices(T, q, read["run_d"], read["run_d_e"], float(read["run_eta"]), read["run_steps"], read["run_seed"])


def asked_in(numbers: Mapping[str, Any] | None, name: str) -> RunChoices:
    """The run whose numbers a file of a store has, each checked as one that a visitor types is.

    Args:
        numbers: what the file has; it may come from somebody else.
        name: the name of the run, which follows from its numbers.

    Raises:
        SeparatrixError: if these are not the numbers of a run of this name.
    """
    names = {"T": "run_T", "q": "run_q", "d": "run_d", "width": "run_d_e", "eta": "run_eta", "steps": "run_steps"}
    names["seed"] = "run_seed"
    if numbers is not None and numbers.keys() == names.keys() and all(map(is_number, numbers.values())):
        run = asked({names[field]: repr(number) for field, number in numbers.items()})
        if run.name() == name:
            return run
    raise SeparatrixError(
        f"{name} cannot go on: the store does not have the numbers of a run of this name. Choose them above, and start "
        "it: equal numbers are the same run, which goes on from its last checkpoint."
    )


def others(value: object) -> list[str]:
    """The names of the runs that stand beside the one that is looked at, from the address or from the page.

    >>> others("run-1,run-2"), others(["run-3"]), others(None)
    (['run-1', 'run-2'], ['run-3'], [])
    """
    found = value if isinstance(value, list) else str(value or "").split(",")
    return list(dict.fromkeys(str(one) for one in found if one))[:MOST_BESIDE]


FIELDS: tuple[Field, ...] = (*NEW, RUN, BESIDE, STEP)
