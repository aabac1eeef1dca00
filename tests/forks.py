"""Interpreters that have imported torch: forks of a server that imported it once, otherwise like fresh ones.

Importing torch takes 1.5 s of CPU time; a fork of a process that has done it takes milliseconds. The modules that torch
imports at the first backward pass and the first optimiser step take as long again: the server imports them too, and
SciPy.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

IMPORTED = ("torch", "torch.fx.experimental.symbolic_shapes", "torch._dynamo", "scipy.stats")
SERVER = """
import atexit, gc, importlib, json, os, sys, threading

for name in sys.argv[1:]:
    importlib.import_module(name)
gc.collect()
gc.freeze()

def serve():
    while line := sys.stdin.readline():
        if not (child := os.fork()):
            return json.loads(line)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    sys.exit()

def become(code, arguments, folder, environment, *files):
    for number, name in enumerate(files):
        os.dup2(os.open(name, os.O_RDWR | os.O_CREAT), number)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["-c", *arguments]
    return compile(code, "<string>", "exec")

def status_of(program):
    world = {"__name__": "__main__"}
    try:
        exec(program, world)
    except SystemExit as asked:
        if asked.code is None or isinstance(asked.code, int):
            return asked.code or 0
        print(asked.code, file=sys.stderr)
        return 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
        return 1
    finally:
        threading._shutdown()
        atexit._run_exitfuncs()
        world.clear()
        gc.collect()
    return 0

status = status_of(become(*serve()))
sys.stdout.flush()
sys.stderr.flush()
os._exit(status)
"""
"""The server forks for each line that it reads, and writes the exit status; a fork leaves the loop, and exits like a
program.

It joins its threads, runs its exit handlers and frees its own objects, but does not tear down the imported modules,
which takes a second.
"""


class Forks:
    """A server in its own process, which starts when it is first needed."""

    def __init__(self, imported: Sequence[str] = IMPORTED) -> None:
        self.imported = imported
        self.server: subprocess.Popen[str] | None = None

    def run(
        self, code: str, arguments: tuple[str, ...], folder: Path, environment: Mapping[str, str]
    ) -> subprocess.CompletedProcess[str]:
        """Run code as `python -W error -c` does, in a folder, in a process that has already imported torch.

        Environment variables that are read while torch is imported, such as the number of threads, are those of the
        server.
        """
        with TemporaryDirectory() as made:
            files = [os.devnull, *(str(Path(made, name)) for name in ("out", "err"))]
            status = self._asked(json.dumps([code, arguments, str(folder), dict(environment), *files]))
            out, err = (Path(file).read_text() for file in files[1:])
        return subprocess.CompletedProcess([sys.executable, "-c", code, *arguments], status, out, err)

    def _asked(self, request: str) -> int:
        if self.server is None:
            command = [sys.executable, "-W", "error", "-c", SERVER, *self.imported]
            self.server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.server.stdin is not None
        assert self.server.stdout is not None
        try:
            print(request, file=self.server.stdin, flush=True)
            return int(self.server.stdout.readline())
        except BaseException:  # a test that is interrupted here leaves a response that the next one would read
            self.end()
            raise

    def end(self) -> None:
        """Stop the server; a running fork does not prevent it."""
        if self.server is not None:
            self.server.kill()
            self.server.communicate()
            self.server = None
