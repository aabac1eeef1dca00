"""Slow modules are imported only by code that needs them.

The tests do not measure times.
"""

from __future__ import annotations

import pytest

MAIN = "from separatrix.commands.main import main; main()"
SLOW = {
    "dash", "dask", "distributed", "hypothesis", "mpmath", "numpy", "pandas", "plotly", "safetensors", "scipy",
    "sqlite3", "sympy", "torch", "transformers",
}  # fmt: skip


def watching(slow: set[str]) -> str:
    return f"import atexit, sys; atexit.register(lambda: print(*sorted({slow!r} & set(sys.modules)), file=sys.stderr));"


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["sweep", "--help"], ["doctor", "--help"]])
def test_help_loads_nothing_slow(run, arguments: list[str]) -> None:
    done = run(f"{watching(SLOW)}{MAIN}", *arguments)
    assert done.stdout
    assert done.stderr == "\n"


@pytest.mark.parametrize(
    ("arguments", "needed"),
    [
        (["claims", "--store", "nowhere"], {"sqlite3"}),
        (["claims", "--store", "nowhere", "--json", "--verdict", "holds"], {"sqlite3"}),
        (["separate", "--n", "1e6", "--d", "16"], {"mpmath", "numpy"}),
        (["plan", "--n", "1e6", "--d", "8", "--bound", "0.9"], {"numpy"}),
        (["plan", "--n", "1e6", "--d", "64", "--bound", "2"], {"numpy"}),
        (["plan", "--n", "100", "--d", "8", "--bound", "1", "--order", "2"], {"numpy"}),
    ],
)
def test_commands_that_only_print_load_no_more_than_they_need(run, arguments: list[str], needed: set[str]) -> None:
    """Recorded verdicts need no code of claims, and exact probabilities and plans for shapes need no tensor."""
    slow = SLOW | {"torch._dynamo", "separatrix.claims.kronecker.theorem_1_4", "separatrix.studies"}
    done = run(f"{watching(slow)}{MAIN}", *arguments)
    assert done.stdout
    assert set(done.stderr.split()) == needed


def test_operators_load_no_extra(run) -> None:
    """The operators need torch, and numpy for index sets, but no extras and no compiler."""
    use = (
        "import torch, separatrix as sx; sx.nn.TensorAttention; q, k, v = torch.rand(3, 9, 4); "
        "sx.tensor_attention(q, [k, k], [v, v]); sx.linear_attention(q, k, v); "
        "sx.certified_attention(q, [k, k], [v, v], tolerance=1e-2, method='polynomial')"
    )
    done = run(f"{watching((SLOW | {'torch._dynamo'}) - {'numpy', 'torch'})}{use}")
    assert (done.returncode, done.stderr) == (0, "\n")


EVERY_MODULE = """
import importlib, pkgutil, separatrix
skipped = ("__main__", "._kernels", ".programs")  # the command, what is no module, and what is written in Triton
found = (module.name for module in pkgutil.walk_packages(separatrix.__path__, "separatrix."))
names = [name for name in found if not any(part in name for part in skipped)]
"""
# Modules that others import, also after a check of the platform, are imported before the system is made to look like
# Windows.
OTHERS = f"""{EVERY_MODULE}
import sys
for name in names:
    importlib.import_module(name)
print(*(name for name in sys.modules if name.partition(".")[0] not in ("separatrix", "__main__")))
"""
ON_WINDOWS = """
import importlib, os, signal, sys
for name in sys.argv[1].split():
    importlib.import_module(name)
for name in ("fcntl", "grp", "posix", "pty", "pwd", "readline", "resource", "syslog", "termios", "tty"):
    sys.modules[name] = None  # so that importing it is an error
for name in ("fork", "getloadavg", "getuid", "killpg", "sched_getaffinity", "setsid", "O_DIRECTORY", "O_NONBLOCK"):
    delattr(os, name)
for name in ("SIGALRM", "SIGHUP", "SIGKILL", "SIGUSR1", "alarm", "pthread_sigmask", "setitimer"):
    delattr(signal, name)
there, sys.platform = sys.platform, "win32"
"""


@pytest.mark.timeout(2400)
def test_no_module_needs_a_unix_to_be_imported(forked) -> None:
    """The command's help needs no Unix either: modules that Windows does not have are imported where they are used."""
    others = forked(OTHERS)
    assert (others.returncode, others.stderr) == (0, "")
    imports = f"{EVERY_MODULE}\nfor name in names:\n    importlib.import_module(name)\nprint(len(names))\n"
    helped = "sys.platform, sys.argv = there, ['separatrix', '--help']\n"
    done = forked(f"{ON_WINDOWS}{imports}{helped}{MAIN}", others.stdout.strip())
    assert (done.returncode, done.stderr) == (0, "")
    count, _, told = done.stdout.partition("\n")
    assert int(count) > 300
    assert "Usage: separatrix" in told


def test_a_module_that_needs_a_unix_would_be_detected(forked) -> None:
    for needs in ("import fcntl", "import os; os.fork", "import signal; signal.SIGKILL"):
        done = forked(f"{ON_WINDOWS}{needs}", "")
        assert done.returncode == 1
        assert needs.split()[1].strip(";") in done.stderr
