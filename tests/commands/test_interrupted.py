"""Ctrl-C while a command imports, before it starts and after it ends: one message, status 130, no traceback."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest
import typer

from separatrix.commands.ending import in_a_sentence
from separatrix.lab import Store

PRESS = """
import atexit, signal, sys
from separatrix.commands.main import main

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have set it to be ignored
at = int(sys.argv.pop(1))

class Press:
    '''Presses Ctrl-C in the middle of an import.'''
    seen = 0

    def find_spec(self, name, path=None, target=None):
        Press.seen += 1
        if Press.seen == at:
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, Press())
if not at:
    atexit.register(lambda: print(Press.seen, file=sys.stderr))
main()
"""
HEAD = """
import signal, sys
from separatrix.commands.main import main

signal.signal(signal.SIGINT, signal.default_int_handler)
"""
STOPPED = (130, "", "Stopped. Finished work is saved.\n")


def pressed(run, at: int, *words: str) -> subprocess.CompletedProcess[str]:
    return run(PRESS, str(at), *words)


@pytest.mark.parametrize(
    ("words", "moments"), [(("store", "ls"), 6), (("plan", "--n", "9", "--d", "2", "--bound", "1"), 4)]
)
def test_during_any_import(run, tmp_path: Path, words: tuple[str, ...], moments: int) -> None:
    Store.create(tmp_path / "results").close()
    whole = pressed(run, 0, *words)
    assert whole.returncode == 0, whole.stderr
    imports = int(whole.stderr.split()[-1])
    assert imports > 50
    for k in range(moments):
        done = pressed(run, 1 + k * (imports - 1) // (moments - 1), *words)
        assert (done.returncode, done.stdout, done.stderr) == STOPPED


AT_A_LINE = f"""{HEAD}
name = sys.argv.pop(1)

def trace(frame, event, argument):
    if frame.f_code.co_name == name:
        sys.settrace(None)
        signal.raise_signal(signal.SIGINT)

sys.settrace(trace)
main()
"""


@pytest.mark.parametrize("name", ["parse_args", "invoke", "_print_version"])
def test_where_no_command_has_begun(run, name: str) -> None:
    """The signal arrives in the command-line library, which prints nothing and has its own exit status."""
    done = run(AT_A_LINE, name, "--version" if name == "_print_version" else "claims")
    assert (done.returncode, done.stdout, done.stderr) == STOPPED


def test_in_a_command(run, tmp_path: Path) -> None:
    Store.create(tmp_path / "results").close()
    done = run(AT_A_LINE, "counts", "store", "ls")
    assert (done.returncode, done.stdout) == (130, "")
    assert (
        done.stderr == "Stopped. Finished work is saved. To continue, run the same command again: separatrix store ls\n"
    )


def test_when_it_is_over(run) -> None:
    """The cleanup of the interpreter at exit is not interrupted."""
    code = HEAD + (
        "class Late:\n    def __del__(self, press=signal.raise_signal, number=signal.SIGINT): press(number)\nsys.late "
        "= Late()\nmain()"
    )
    done = run(code, "--version")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("separatrix ")


def test_a_ctrl_c_that_python_can_raise_nowhere(run) -> None:
    """In a finaliser, for example, Python prints an exception and continues."""
    code = HEAD + (
        "from separatrix.commands.app import app\nfrom separatrix.commands.ending import in_a_sentence\nclass "
        "Dropped:\n    def __del__(self):\n        "
        "signal.raise_signal(signal.SIGINT)\n@app.command()\n@in_a_sentence\ndef drop() -> None:\n    Dropped()\n    "
        "print('went on')\nmain()"
    )
    done = run(code, "drop")
    assert (done.returncode, done.stdout, done.stderr) == STOPPED


def test_a_ctrl_c_that_a_library_makes_into_another_error(run) -> None:
    code = HEAD + (
        "from separatrix.commands.app import app\nfrom separatrix.commands.ending import "
        "in_a_sentence\n@app.command()\n@in_a_sentence\ndef convert() -> None:\n    try: "
        "signal.raise_signal(signal.SIGINT)\n    except BaseException: raise SystemError('error return without "
        "exception set') from None\nmain()"
    )
    done = run(code, "convert")
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr.startswith("Stopped. Finished work is saved. To continue")
    assert done.stderr.count("\n") == 1


def test_a_command_that_is_interrupted_outside_a_run_says_how_to_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    @in_a_sentence
    def command() -> None:
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(typer.Exit) as ended:
        command()
    assert ended.value.exit_code == 130
    assert (
        "Stopped. Finished work is saved. To continue, run the same command again: separatrix"
        in capsys.readouterr().err
    )
