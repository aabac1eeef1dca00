"""The torchrun example, on four processes at a small size, by the command of its page."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest


def on_the_page(root: Path) -> list[str]:
    (line,) = re.findall(r"^```bash\n(torchrun .*)\n```$", (root / "docs" / "guide" / "torchrun.md").read_text(), re.M)
    return shlex.split(line)


@pytest.mark.timeout(2400)  # four processes on a busy machine
def test_the_example_of_torchrun(root: Path, tmp_path: Path) -> None:
    words = on_the_page(root)
    assert words[-2:] == ["--tokens", "250000"]
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", *words[1:-1], "3000"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "error"}
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "4 ranks x 3,000 tokens, order 3, d = 8" in done.stdout
    sent = re.findall(r"sent by a rank with ([\d,]+) tokens: ([\d,]+) bytes", done.stdout)
    assert [tokens for tokens, _ in sent] == ["300", "3,000"]
    assert sent[0][1] == sent[1][1]
    assert done.stdout.endswith("all checks passed\n")
    assert "NOT" not in done.stdout
