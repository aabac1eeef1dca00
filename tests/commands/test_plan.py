"""`separatrix plan`."""

from __future__ import annotations

import pytest

from tests.commands.invoked import invoke

MAIN = "from separatrix.commands.main import main; main()"


def test_plan(run) -> None:
    done = run(MAIN, "plan", "--n", "1000000", "--d", "8", "--bound", "0.9", "--order", "3", "--tolerance", "1e-3")
    assert done.returncode == 0
    assert all(word in done.stdout for word in ("polynomial", "rank 495", "any", "(ln n)^(1/k)"))


@pytest.mark.parametrize("n", ["1e6", "10^6", "1000000", "1.0e+06"])
def test_a_whole_number_is_written_in_any_way(n: str) -> None:
    done = invoke("plan", "--n", n, "--d", "8", "--bound", "0.9")
    assert done.exit_code == 0, done.output
    assert "n = 1,000,000" in done.stdout


@pytest.mark.parametrize("n", ["1e-3", "1.5", "ten", "nan", "1e99999", ""])
def test_noninteger_values_are_refused(n: str) -> None:
    done = invoke("plan", "--n", n, "--d", "8", "--bound", "0.9")
    assert done.exit_code == 2
    assert "expected a whole number, such as 1000, 1e6 or 10^6" in " ".join(done.stderr.replace("│", " ").split())


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
