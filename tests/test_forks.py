"""The properties that a fork of an interpreter with torch shares with a fresh interpreter."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.forks import Forks

TELL = """
import atexit, os, sys
atexit.register(print, "at the end")
print(__name__, sys.argv, os.getcwd(), os.environ["GIVEN"], sys.stdin.read() == "", sys.warnoptions, sep="|")
print(*sorted(name for name in sys.modules if name.startswith(("separatrix", "tests", "pytest"))))
"""


def test_a_fork_is_as_good_as_a_fresh_interpreter(run, forked, tmp_path: Path) -> None:
    fresh, fork = (start(TELL, "one", "two", GIVEN="value") for start in (run, forked))
    assert (fork.returncode, fork.stdout, fork.stderr) == (0, fresh.stdout, fresh.stderr)
    assert fork.stdout.startswith(f"__main__|['-c', 'one', 'two']|{tmp_path}|value|True|")
    assert fork.stdout.endswith("\n\nat the end\n"), "something of ours is loaded"


@pytest.mark.parametrize(
    ("code", "status", "said"),
    [
        ("import sys; sys.exit(3)", 3, ""),
        ("import sys; sys.exit()", 0, ""),
        ("import sys; sys.exit('a sentence')", 1, "a sentence"),
        ("1 / 0", 1, "ZeroDivisionError"),
        ("import os; os.kill(os.getpid(), 9)", -9, ""),
        ("left = open('/dev/null')", 0, "ResourceWarning: unclosed file"),
        ("import threading; threading.Timer(0.1, print, ['a thread']).start(); print('the program')", 0, ""),
    ],
)
def test_it_ends_as_a_program_does(run, forked, code: str, status: int, said: str) -> None:
    fresh, fork = run(code), forked(code)
    assert fresh.returncode == fork.returncode == status
    assert fork.stdout == fresh.stdout
    assert fork.stderr.splitlines()[-1:] == fresh.stderr.splitlines()[-1:]
    assert said in fork.stderr


def test_forks_share_nothing_but_torch(forked) -> None:
    change = "import os, sys, torch; torch.set_num_threads(2); os.environ['LEFT'] = sys.argv[1]; sys.left = True"
    assert forked(change, "behind").returncode == 0
    process = forked("import os, sys; print('torch' in sys.modules, 'LEFT' in os.environ, hasattr(sys, 'left'))")
    assert process.stdout == "True False False\n"


def test_a_server_that_was_stopped_is_started_again(tmp_path: Path) -> None:
    forks = Forks(imported=())
    ask = ("print(1)", (), tmp_path, dict(os.environ))
    assert forks.run(*ask).stdout == "1\n"
    assert isinstance(forks.server, subprocess.Popen)
    forks.server.kill()
    with pytest.raises((ValueError, BrokenPipeError)):
        forks.run(*ask)
    assert forks.run(*ask).stdout == "1\n"
    forks.end()
    assert forks.server is None
