"""The fields of a new training run, and the fields that select a run and a step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from separatrix.checks import is_number
from separatrix.errors import ArgumentError, SeparatrixError
from separatrix.explorer import controls
from separatrix.explorer.fields import Field, decimal, whole, words
from separatrix.explorer.learn.run_choices import RunChoices

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
        "The number of coordinates of an encoding: random signs that are redrawn at every step and nearly orthogonal.",
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
        "The random seed: equal seeds give equal runs.",
        "",
        low=0,
        high=999_999,
        default="0",
        shared=True,
    ),
)
RUN = words("run", "run", "The run that is shown.")
BESIDE = words(
    "beside", "beside it", "The names of other runs whose losses are drawn in the same figure, separated by commas."
)
MOST_BESIDE = 4
STEP = whole(
    "at",
    "step",
    "The step whose W and V are shown: those of the last checkpoint up to this step.",
    f"{PAPER}, Figures 3 and 8",
    low=0,
    high=10**6,
    default="1e6",
    shared=True,
)


def asked(state: Mapping[str, Any]) -> RunChoices:
    """The run with the values of the controls."""
    read = controls.values(NEW, state)
    T, q = read["run_T"], read["run_q"]
    if q > T:
        raise ArgumentError("run_q", expected=f"at most T = {T}", got=q)
    return RunChoices(T, q, read["run_d"], read["run_d_e"], float(read["run_eta"]), read["run_steps"], read["run_seed"])


def asked_in(numbers: Mapping[str, Any] | None, name: str) -> RunChoices:
    """The run with the settings in a file of the store, which are checked like those of the controls.

    Args:
        numbers: the contents of the file, which may come from an untrusted source.
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
        f"{name} cannot be resumed: the store has no valid settings for it. Enter its settings above and "
        "start it: a run with equal settings resumes from its last checkpoint."
    )


def beside_names(value: object) -> list[str]:
    """The names of the runs that are compared with the selected run, from the address or from the page.

    >>> beside_names("run-1,run-2"), beside_names(["run-3"]), beside_names(None)
    (['run-1', 'run-2'], ['run-3'], [])
    """
    names = value if isinstance(value, list) else str(value or "").split(",")
    return list(dict.fromkeys(str(name) for name in names if name))[:MOST_BESIDE]


FIELDS: tuple[Field, ...] = (*NEW, RUN, BESIDE, STEP)
