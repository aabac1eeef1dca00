"""The example of a language model, small: stopped and gone on with, and sampled through its caches."""

from __future__ import annotations

import importlib.util
import io
import signal
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

from separatrix.studies.learning.tasks.text import alphabet, tokens_of
from separatrix.training import generator_for

SIZES = {"length": 24, "width": 8, "heads": 2, "batch": 2, "held-out": 4, "sample": 20, "checkpoint-every": 4}
SMALL = ["--prompt", "with", *(f"--{name}={number}" for name, number in SIZES.items())]


@pytest.fixture(scope="module")
def example(root: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("language_model_example", root / "examples" / "language_model.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def kept(folder: Path) -> bytes:
    return (folder / "checkpoint.safetensors").read_bytes()


def stopping_at(example: ModuleType, monkeypatch: pytest.MonkeyPatch, step: int, how: str) -> None:
    """Make the run be stopped in its update after so many others, by Ctrl-C or as a kill does: with nothing written."""
    update = example.Run.update

    def stopped(run) -> float:
        if run.step == step:
            if how == "a kill":
                raise SystemExit(137)
            signal.raise_signal(signal.SIGINT)
        return update(run)

    monkeypatch.setattr(example.Run, "update", stopped)


@pytest.mark.parametrize("order", ["2", "3"])
@pytest.mark.parametrize(("how", "reached"), [("Ctrl-C", 6), ("a kill", 4)])
def test_a_run_that_was_stopped_goes_on_to_the_same_bits(
    example: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    order: str,
    how: str,
    reached: int,
) -> None:
    """Ctrl-C lets the sixth step end and keeps it; after a kill in it the checkpoint of the fourth is there."""
    words = [*SMALL, "--order", order, "--steps", "9"]
    assert example.main([*words, "--folder", str(tmp_path / "whole")]) == 0
    whole = capsys.readouterr()
    again = [*words, "--folder", str(tmp_path / "stopped")]
    with monkeypatch.context() as patched:
        stopping_at(example, patched, 5, how)
        if how == "a kill":
            with pytest.raises(SystemExit):
                example.main(again)
        else:
            assert example.main(again) == 130
            assert "Stopped after step 6." in capsys.readouterr().err
    assert kept(tmp_path / "stopped") != kept(tmp_path / "whole")
    capsys.readouterr()
    assert example.main(again) == 0
    resumed = capsys.readouterr()
    assert f"goes on from step {reached}\n" in resumed.err
    assert resumed.out == whole.out
    assert kept(tmp_path / "stopped") == kept(tmp_path / "whole")
    assert [file.name for file in (tmp_path / "stopped").iterdir()] == ["checkpoint.safetensors"]


def test_a_longer_run_goes_on_from_a_shorter_one(example: ModuleType, tmp_path: Path) -> None:
    for name, lengths in (("once", [7]), ("twice", [3, 7])):
        for steps in lengths:
            assert example.main([*SMALL, "--steps", str(steps), "--folder", str(tmp_path / name)]) == 0
    assert kept(tmp_path / "once") == kept(tmp_path / "twice")


def test_other_settings_are_refused(example: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [*SMALL, "--steps", "1", "--folder", str(tmp_path)]
    assert example.main(words) == 0
    before = kept(tmp_path)
    assert example.main([*words, "--order", "2", "--lr", "0.5"]) == 2
    assert "is of a run with order = 3, lr = 0.008." in capsys.readouterr().err
    assert kept(tmp_path) == before


@pytest.mark.parametrize("order", [2, 3])
def test_sampling_through_the_caches_is_sampling_by_whole_calls(example: ModuleType, order: int) -> None:
    """Forty characters, beyond the shorter window: the same text, and the same logits at every one of them."""
    settings = example.Settings(order, 60, 8, 2, 2, 0.01, 0, example.digest())
    run = example.Run(settings)
    for _ in range(3):
        run.update()
    model, prompt = run.model.double(), "The with statement"
    drawn = example.sample(model, prompt, 40, 1.0, generator_for(0, 9))
    assert (drawn[: len(prompt)], len(drawn)) == (prompt, len(prompt) + 40)
    said, generator = prompt, generator_for(0, 9)
    with torch.no_grad():
        for _ in range(40):
            logits = model(tokens_of(said))[0, -1]
            said += alphabet()[int(torch.multinomial(torch.softmax(logits, -1), 1, generator=generator))]
        assert said == drawn
        caches = model.caches(1)
        pieces = [drawn[:18], *drawn[18:]]
        at = [sum(map(len, pieces[:i])) for i in range(len(pieces))]
        logits = torch.cat([model.decode(tokens_of(one, i), caches) for one, i in zip(pieces, at, strict=True)], 1)
        assert torch.allclose(logits, model(tokens_of(drawn)), rtol=0, atol=1e-10)


def test_a_terminal_gets_a_bar_and_a_file_gets_lines(example: ModuleType) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    for stream, told in ((Terminal(), "3/3"), (io.StringIO(), "step 3 of 3   loss 0.500")):
        with example.progress(3, 1, stream) as show:
            show(2, 1.5)
            show(3, 0.5)
        assert told in stream.getvalue()
        assert "loss 0.500" in stream.getvalue()


@pytest.mark.parametrize("words", [["--steps", "0"], ["--prompt", ""], ["--sample", "500"], ["--order", "4"]])
def test_bad_options(example: ModuleType, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        example.main([*words])
    assert ended.value.code == 2
    assert "error: " in capsys.readouterr().err
