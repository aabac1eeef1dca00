"""The command `separatrix train selection`. Slow modules are imported when the command runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from separatrix.commands.ending import again, in_a_sentence
from separatrix.commands.options import RESULTS, StoreOption, whole_option
from separatrix.errors import ArgumentError, SeparatrixError
from separatrix.lab.interrupts import INTERRUPTED

if TYPE_CHECKING:
    from separatrix.commands.train.display import Display
    from separatrix.lab.lease import Lease
    from separatrix.selection.settings import TrainingSettings
    from separatrix.selection.training import Record

train_app = typer.Typer(no_args_is_help=True, help="Train the models of the papers; stopped runs are resumed.")


class Optimiser(StrEnum):
    """The optimiser."""

    SGD = "sgd"
    ADAM = "adam"


class Initial(StrEnum):
    """The initialisation of the weights."""

    ZERO = "zero"
    RANDOM = "random"


class Encoding(StrEnum):
    """Fixed or stochastic positional encodings."""

    STOCHASTIC = "stochastic"
    FIXED = "fixed"


PAPER_RATES = {Optimiser.SGD: ((0, 1.0), (50_000, 1 / 3)), Optimiser.ADAM: ((0, 1e-3),)}


@train_app.callback()
def root() -> None:
    """The group of subcommands, which has no options."""


@train_app.command()
@in_a_sentence
def selection(
    length: Annotated[int, whole_option("--T", help="Tokens of a sequence.")] = 200,
    q: Annotated[int, whole_option("--q", help="Tokens of a subset.")] = 3,
    d: Annotated[int, whole_option("--d", help="Dimension of a token.")] = 5,
    width: Annotated[int, whole_option("--d-e", "--width", help="Dimension of an encoding.")] = 170,
    encoding: Annotated[Encoding, typer.Option(help="Redrawn at each step, or drawn once.")] = Encoding.STOCHASTIC,
    threshold: Annotated[float, typer.Option(help="The largest |dot product| of two encodings.")] = 0.4,
    optimiser: Annotated[Optimiser, typer.Option(help="Plain gradient steps, or Adam.")] = Optimiser.SGD,
    lr: Annotated[
        list[str] | None,
        typer.Option(
            help="A rate, or STEP:RATE for the rate from a step on; may be repeated. The paper's if left out: 1 and "
            "from step 50,000 on 1/3 for sgd, 0.001 for adam.",
            metavar="[STEP:]RATE",
        ),
    ] = None,
    init: Annotated[Initial, typer.Option(help="Zero weights, or weights from a normal distribution.")] = Initial.ZERO,
    std: Annotated[
        float | None, typer.Option(help="The deviation of random weights; 1/sqrt(d + d_e) if left out.")
    ] = None,
    batch: Annotated[int, whole_option(help="Batch size.")] = 256,
    steps: Annotated[int, whole_option(help="Updates.")] = 100_000,
    seed: Annotated[int, whole_option(help="The seed of the first run.")] = 0,
    seeds: Annotated[int, whole_option(help="The number of runs, with consecutive seeds.")] = 1,
    validate_every: Annotated[int, whole_option(help="Steps between two records.")] = 100,
    validation_length: Annotated[
        list[int] | None,
        whole_option("--validation-T", help="A length to validate at; T times 1.25, 1.5, 1.75 and 2 if left out."),
    ] = None,
    validation_q: Annotated[
        list[int] | None,
        whole_option("--validation-q", help="A subset size to validate at; q + 2 to q + 5 if left out."),
    ] = None,
    store: StoreOption = RESULTS,
    checkpoint_every: Annotated[int, whole_option(help="Steps between two checkpoints.")] = 1000,
    tensorboard: Annotated[
        Path | None, typer.Option(help="A folder for TensorBoard's events.", metavar="DIR", show_default=False)
    ] = None,
) -> None:
    """Train the one-layer transformer on sparse token selection; the defaults are the settings of the paper."""
    from separatrix.checks import whole
    from separatrix.commands.train.display import display
    from separatrix.commands.train.tensorboard import summary_writer
    from separatrix.lab.interrupts import noted
    from separatrix.lab.lease import Lease
    from separatrix.lab.store import Store
    from separatrix.selection.settings import TrainingSettings

    whole("--seeds", seeds, low=1)
    whole("--checkpoint-every", checkpoint_every, low=1)
    longer = validation_length or [round(length * times) for times in (1.25, 1.5, 1.75, 2.0)]
    larger = validation_q or [size for size in range(q + 2, q + 6) if size <= length]
    runs = [
        TrainingSettings(
            T=length,
            q=q,
            d=d,
            width=width,
            encoding=encoding.value,
            threshold=threshold,
            optimiser=optimiser.value,
            lr=rates(lr) if lr else PAPER_RATES[optimiser],
            initial=init.value,
            std=std,
            batch=batch,
            steps=steps,
            seed=number,
            validate_every=validate_every,
            validation_T=tuple(longer),
            validation_q=tuple(larger),
        )
        for number in range(seed, seed + seeds)
    ]
    if tensorboard is not None:
        summary_writer()  # report a missing package before the first step, not after the last
    ends: list[str] = []
    try:
        with Store.create(store) as opened, noted(), Lease(opened) as lease, display() as progress:
            for settings in runs:
                ends.append(_train(settings, lease, checkpoint_every, tensorboard, progress))
    except OSError as error:
        raise SeparatrixError(
            f"{error.filename or tensorboard} could not be written ({error}). Results so far are saved; fix the "
            "cause and run the same command again."
        ) from error
    except KeyboardInterrupt:
        typer.echo(f"Stopped. Each run is saved in {store} up to its last checkpoint. To continue, {again()}", err=True)
        raise typer.Exit(INTERRUPTED) from None
    for settings, end in zip(runs, ends, strict=True):
        typer.echo(f"seed {settings.seed}: {end}")
    typer.echo(f"Records and weights: `separatrix store ls --experiment runs.selection --store {store}`.")
    if any("diverged" in end for end in ends):
        raise typer.Exit(1)


def rates(texts: Sequence[str]) -> tuple[tuple[int, float], ...]:
    """Parse the learning rate schedule of `--lr`.

    >>> rates(["1", "50000:0.25"])
    ((0, 1.0), (50000, 0.25))
    """
    schedule = []
    for text in texts:
        start, colon, rate = text.rpartition(":")
        try:
            schedule.append((int(start) if colon else 0, float(rate)))
        except ValueError:
            raise ArgumentError("--lr", expected="a RATE or STEP:RATE, such as 50000:0.25", got=repr(text)) from None
    return tuple(schedule)


def _train(settings: TrainingSettings, lease: Lease, every: int, tensorboard: Path | None, progress: Display) -> str:
    """Train one run, from its last checkpoint if there is one; return a sentence that says how it ended."""
    from separatrix.commands.train.display import record_line
    from separatrix.commands.train.tensorboard import board
    from separatrix.runs.train import kept, trained

    name = f"seed-{settings.seed}"
    start = kept(lease.store, settings, every)
    if start.over is not None:
        return start.over
    progress.begin(name, settings.steps, start.step)
    with ExitStack() as stack:
        logs: list[Callable[[Record], None]] = [progress.show]
        if tensorboard is not None:
            resumed_at = None if start.state is None else start.step
            logs.append(stack.enter_context(board(tensorboard / name, resumed_at)))
        records = stack.enter_context(closing(trained(lease, settings, every, start)))
        for record in records:
            for log in logs:
                log(record)
    return f"{record.stopped} The records before that are saved." if record.stopped else record_line(record)
