"""A small causal language model of characters, the last of its four layers of order 3: trained, kept and sampled.

    python examples/language_model.py --folder run

The text is what Python's `help` prints about the language. Three layers are ordinary attention; the last attends pairs
of tokens, of which the first is among the last 512 and the second among the last 32. `--order 2` trains four ordinary
layers with as many parameters instead: which of the two has the smaller loss at equal compute is the claim
`beyond/language-model/at-equal-compute`.

Ctrl-C stops after the step that it finds; the same command goes on from there, or after a kill from the last
checkpoint, to the same weights bit for bit. At the end text is sampled through the layers' caches. The model itself is
in `separatrix/studies/learning/models.py`.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TextIO

import torch
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor
from torch.nn.functional import cross_entropy

from separatrix.errors import SeparatrixError
from separatrix.files import write_whole
from separatrix.studies.learning.compute import step_flops
from separatrix.studies.learning.language_model import RATES, sizes_of
from separatrix.studies.learning.mechanisms import LAYERED
from separatrix.studies.learning.models import Model
from separatrix.studies.learning.tasks.text import alphabet, digest, text_task, tokens_of
from separatrix.studies.learning.training import judged
from separatrix.training import generator_for

KINDS = dict(zip((2, 3), LAYERED.values(), strict=True))
DATA, HELD_OUT, WEIGHTS, SAMPLE = range(4)
LINE_SECONDS = 10.0
"""The least time between two lines of progress."""
INTERRUPTED = 130
"""The exit code after Ctrl-C: 128 plus the number of SIGINT, as in shells."""
Show = Callable[[int, float], None]


@dataclass(frozen=True)
class Settings:
    """What decides the weights after any number of steps; a checkpoint of other settings is refused.

    Attributes:
        order: The order of the last layer's attention.
        length: Characters of a window.
        width: The dimension of the embedding.
        heads: The heads of each layer.
        batch: The windows of a batch.
        lr: The learning rate.
        seed: What the batches and the first weights are drawn from.
        text: The SHA-256 of the text.
    """

    order: int
    length: int
    width: int
    heads: int
    batch: int
    lr: float
    seed: int
    text: str


class Run:
    """A training run: the model, Adam's moments, the generator of batches, and the steps done."""

    def __init__(self, settings: Settings) -> None:
        self.settings, self.step = settings, 0
        self.task = text_task(settings.length, text=settings.text)
        self.sizes, self.kind = sizes_of(self.task, settings.width, settings.heads), KINDS[settings.order]
        self.model = Model(self.task, self.sizes, self.kind, generator=generator_for(settings.seed, WEIGHTS))
        self.optimiser = torch.optim.Adam(self.model.parameters(), lr=settings.lr)
        self.data = generator_for(settings.seed, DATA)

    def update(self) -> float:
        """Take a step, and return the loss of its batch."""
        batch = self.task.training(self.settings.batch, self.data)
        loss = cross_entropy(self.model(batch.tokens).flatten(0, 1), batch.answers.flatten())
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()
        self.step += 1
        return loss.item()

    def tensors(self) -> dict[str, Tensor]:
        """All that the rest of the run depends on, by name."""
        kept = {f"model.{name}": x for name, x in self.model.state_dict().items()}
        for name, weight in self.model.named_parameters():
            for what, x in self.optimiser.state[weight].items():
                kept[f"adam.{name}.{what}"] = x
        return {**kept, "data": self.data.get_state(), "step": torch.tensor(self.step)}

    def save(self, path: Path) -> None:
        """Write a checkpoint: a reader finds the old one or the new one, and never a part of one."""
        write_whole(path, save(self.tensors(), {"settings": json.dumps(asdict(self.settings))}))

    def load(self, path: Path) -> None:
        """Go on from a checkpoint of the same settings."""
        with safe_open(path, "pt") as file:
            stored, ours = json.loads((file.metadata() or {}).get("settings", "{}")), asdict(self.settings)
            if stored != ours:
                other = ", ".join(f"{name} = {stored.get(name)}" for name in ours if stored.get(name) != ours[name])
                raise SeparatrixError(
                    f"{path} is of a run with {other}. Choose another --folder, or the same settings."
                )
            kept = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (it is no mapping)
        self.model.load_state_dict({name[6:]: x for name, x in kept.items() if name.startswith("model.")})
        for name, weight in self.model.named_parameters():
            start = f"adam.{name}."
            state = {key.removeprefix(start): x for key, x in kept.items() if key.startswith(start)}
            self.optimiser.state[weight] = state
        self.data.set_state(kept["data"])
        self.step = int(kept["step"])


def train(run: Run, steps: int, path: Path, every: int, show: Show) -> bool:
    """Train until so many steps are done, with a checkpoint after every few; False if Ctrl-C came before."""
    interrupts: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: interrupts.append(number))
    try:
        while run.step < steps and not interrupts:
            loss = run.update()
            show(run.step, loss)
            if run.step % every == 0 or run.step == steps or interrupts:
                run.save(path)
    finally:
        signal.signal(signal.SIGINT, before)
    return run.step == steps


@contextmanager
def progress(steps: int, start: int, stream: TextIO) -> Iterator[Show]:
    """Shows the steps and the loss: by a bar on a terminal, by a line now and then elsewhere."""
    if not stream.isatty():
        last = float("-inf")

        def line(step: int, loss: float) -> None:
            nonlocal last
            if (now := time.monotonic()) - last >= LINE_SECONDS or step == steps:
                last = now
                print(f"step {step:,} of {steps:,}   loss {loss:.3f}", file=stream, flush=True)

        yield line
        return

    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    left = TextColumn("steps,"), TimeRemainingColumn(), TextColumn("left   loss {task.fields[loss]:.3f}")
    with Progress(BarColumn(), MofNCompleteColumn(), *left, console=Console(file=stream)) as bar:
        task = bar.add_task("", total=steps, completed=start, loss=float("nan"))
        yield lambda step, loss: bar.update(task, completed=step, loss=loss)


def sample(model: Model, prompt: str, count: int, temperature: float, generator: torch.Generator) -> str:
    """Text that goes on from a prompt: one call for all of it, then one call for each character that was drawn."""
    caches = model.caches(batch=1)
    said, new = prompt, prompt
    with torch.inference_mode():
        for _ in range(count):
            logits = model.decode(tokens_of(new, start=len(said) - len(new)), caches)[0, -1]
            drawn = torch.multinomial(torch.softmax(logits / temperature, -1), 1, generator=generator)
            new = alphabet()[int(drawn)]
            said += new
    return said


def options(given: Sequence[str] | None) -> argparse.Namespace:
    """The options of the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--folder", type=Path, default=Path("language-model"), help="where the checkpoint is kept")
    parser.add_argument("--steps", type=int, default=240)
    parser.add_argument("--order", type=int, choices=KINDS, default=3, help="of the last layer")
    parser.add_argument("--length", type=int, default=512, help="characters of a window")
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--lr", type=float, help="the learning rate; that of the claim if left out")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--checkpoint-every", type=int, default=20, help="steps between two checkpoints")
    parser.add_argument("--held-out", type=int, default=32, help="windows that the end is judged by")
    parser.add_argument("--prompt", default='The "with" statement')
    parser.add_argument("--sample", type=int, default=400, help="characters to sample at the end")
    parser.add_argument("--temperature", type=float, default=0.7)
    options = parser.parse_args(given)
    if options.lr is None:
        options.lr = dict(zip(KINDS, RATES["compute_steps"].values(), strict=True))[options.order]
    for name in ("steps", "checkpoint_every", "held_out", "temperature"):
        if getattr(options, name) <= 0:
            parser.error(f"--{name.replace('_', '-')} must be above 0")
    if not 0 < len(options.prompt) <= len(options.prompt) + options.sample <= options.length:
        parser.error(f"a prompt and what is sampled must fit in --length, {options.length} characters")
    return options


def main(given: Sequence[str] | None = None) -> int:
    """Train, or go on training, and sample; the exit code."""
    asked = options(given)
    names = ("order", "length", "width", "heads", "batch", "lr", "seed")
    run = Run(Settings(**{name: getattr(asked, name) for name in names}, text=digest()))
    path = asked.folder / "checkpoint.safetensors"
    try:
        if path.exists():
            run.load(path)
            print(f"goes on from step {run.step:,}", file=sys.stderr)
        with progress(asked.steps, run.step, sys.stderr) as show:
            done = run.step >= asked.steps or train(run, asked.steps, path, asked.checkpoint_every, show)
    except SeparatrixError as error:
        print(error, file=sys.stderr)
        return 2
    if not done:
        print(f"Stopped after step {run.step:,}. The same command goes on from there.", file=sys.stderr)
        return INTERRUPTED
    points = run.task.held_out(asked.held_out, generator_for(asked.seed, HELD_OUT))
    accuracy, loss = judged(run.model, points, asked.batch)
    flops = run.step * step_flops(run.task, run.sizes, run.kind, asked.batch)
    weights = sum(weight.numel() for weight in run.model.parameters())
    print(f"{weights:,} weights, {run.step:,} steps, {flops:.2e} flops")
    print(f"on text that was held out: {loss:.3f} nats a character, {accuracy:.1%} guessed right")
    generator = generator_for(asked.seed, SAMPLE)
    print(f"\n{sample(run.model, asked.prompt, asked.sample, asked.temperature, generator)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
