"""`separatrix plan`."""

from __future__ import annotations

import pytest

from tests.commands.invoked import invoke

MAIN = "from separatrix.commands.main import main; main()"


def test_plan(run) -> None:
    done = run(MAIN, "plan", "--n", "1000000", "--d", "8", "--bound", "0.9", "--order", "3", "--tolerance", "1e-3")
    assert done.returncode == 0
    assert all(word in done.stdout for word in ("polynomial", "rank 495", "any", "(ln n)^(1/k)"))


@pytest.mark.parametrize(
    "bad", [("--n", "0"), ("--d", "-1"), ("--bound", "nan"), ("--tolerance", "0"), ("--order", "1")]
)
def test_plan_refuses(bad) -> None:
    right = {"--n": "100", "--d": "8", "--bound": "1", "--order": "3", "--tolerance": "1e-3"}
    arguments = [word for option in {**right, bad[0]: bad[1]}.items() for word in option]
    done = invoke("plan", *arguments)
    assert done.exit_code == 2
    assert f"{bad[0]}: expected" in done.stderr
    assert "Traceback" not in done.stderr
