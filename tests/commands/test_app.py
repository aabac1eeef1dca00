from __future__ import annotations

import pytest

import separatrix

MAIN = "from separatrix.commands.main import main; main()"


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["doctor", "--help"], ["reproduce", "--help"], []])
def test_help_does_not_import_torch(run, arguments: list[str]) -> None:
    end = "atexit.register(lambda: print(*sorted({'torch', 'numpy'} & set(sys.modules)), sep=',', file=sys.stderr))"
    done = run(f"import atexit, sys; {end}; {MAIN}", *arguments)
    assert done.stderr == "\n"
    assert done.stdout


def test_version(run) -> None:
    done = run(MAIN, "--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"separatrix {separatrix.__version__}\n", "")


def test_help_names_the_commands(run) -> None:
    done = run(MAIN, "--help")
    assert done.returncode == 0
    assert all(word in done.stdout for word in ("doctor", "reproduce", "--version"))


def test_without_the_extra_one_line_says_so(run) -> None:
    done = run(f"import sys; sys.modules['typer'] = None; {MAIN}", "--help")
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "pip install 'separatrix[lab]'" in done.stderr


def test_another_missing_module_is_not_blamed_on_the_extra(run) -> None:
    done = run(f"import sys; sys.modules['separatrix.commands.app'] = None; {MAIN}", "--help")
    assert done.returncode == 1
    assert "ModuleNotFoundError" in done.stderr
    assert "separatrix[lab]" not in done.stderr
