"""The settings of a training run that is to be started from the page, its name, and the equivalent command."""

from __future__ import annotations

from dataclasses import dataclass

from separatrix.runs.cells import name_of
from separatrix.selection.settings import TrainingSettings

THRESHOLD, BATCH = 0.5, 64
RECORDS, CHECKPOINTS = 100, 20


@dataclass(frozen=True)
class RunChoices:
    """The settings of a run that the page lets a visitor choose.

    `run_fields` has the range of each number, and checks them.
    """

    T: int
    q: int
    d: int
    width: int
    eta: float
    steps: int
    seed: int

    def arguments(self) -> list[str]:
        """The arguments of the equivalent `separatrix` command, without the store."""
        settings = self.settings()
        numbers = {"T": self.T, "q": self.q, "d": self.d, "d-e": self.width, "threshold": THRESHOLD, "lr": self.eta}
        numbers |= {"batch": BATCH, "steps": self.steps, "seed": self.seed, "validate-every": settings.validate_every}
        numbers |= {"checkpoint-every": self.checkpoint_every}
        words = [word for name, value in numbers.items() for word in (f"--{name}", repr(value))]
        for name, tasks in (("T", settings.validation_T), ("q", settings.validation_q)):
            words += [word for task in tasks for word in (f"--validation-{name}", str(task))]
        return ["train", "selection", *words]

    def settings(self) -> TrainingSettings:
        """The training settings of the run; a `SeparatrixError` if they are invalid."""
        return TrainingSettings(
            T=self.T,
            q=self.q,
            d=self.d,
            width=self.width,
            threshold=THRESHOLD,
            lr=((0, self.eta),),
            batch=BATCH,
            steps=self.steps,
            seed=self.seed,
            validate_every=max(1, self.steps // RECORDS),
            validation_T=(2 * self.T,),
            validation_q=(min(self.q + 2, self.T),),
        )

    @property
    def checkpoint_every(self) -> int:
        """The number of steps between checkpoints."""
        return max(1, self.steps // CHECKPOINTS)

    def name(self) -> str:
        """The run's name in the store; runs with equal settings have the same name."""
        return name_of(self.settings(), self.checkpoint_every)

    def command(self) -> str:
        """The equivalent command."""
        return f"separatrix {' '.join(self.arguments())}"

    def python(self) -> str:
        """The equivalent Python program."""
        settings = self.settings()
        chosen = ("T", "q", "d", "width", "threshold", "lr", "batch", "steps", "seed", "validate_every")
        words = [f"{name}={getattr(settings, name)!r}" for name in (*chosen, "validation_T", "validation_q")]
        lines = ["from separatrix.selection import TrainingSettings, train", "", "settings = TrainingSettings("]
        lines += [f"    {', '.join(words[at : at + 6])}," for at in range(0, len(words), 6)]
        return "\n".join([*lines, ")", "for record in train(settings):", "    print(record.step, record.loss)"])
