"""The small GPT of the examples learns, and imports only the library and torch."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import torch


def test_it_learns(root: Path, capsys) -> None:
    state = torch.get_rng_state()
    try:
        losses = runpy.run_path(str(root / "examples" / "tiny_gpt.py"))["train"](30, length=32, batch=8)
    finally:
        torch.set_rng_state(state)
    assert losses[0] > 4
    assert sum(losses[-5:]) / 5 < 3.4, "the frequencies of characters alone give less"
    assert "step 20: loss" in capsys.readouterr().out


def test_it_imports_the_library_alone(root: Path) -> None:
    source = (root / "examples" / "tiny_gpt.py").read_text()
    assert set(re.findall(r"^(?:from|import) (\w+)", source, re.MULTILINE)) == {"pydoc_data", "torch", "separatrix"}
