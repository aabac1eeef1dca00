"""Experiments for the tests, registered under `tests.`; the workers import this file."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np

from separatrix.lab import experiment


@experiment(version=1, name="tests.walk")
def walk(steps: int, drift: float = 0.0, pause: float = 0.0, *, seed: int) -> dict[str, Any]:
    """A random walk, without torch: a few numbers and an array."""
    time.sleep(pause)
    path = np.cumsum(np.random.default_rng(seed).normal(drift, 1.0, steps))
    return {"end": path[-1], "largest": {"value": float(path.max()), "at": int(path.argmax())}, "path": path}


@experiment(version=1, name="tests.number")
def number(x: float, *, seed: int) -> dict[str, float]:
    """Return a single number."""
    return {"y": x + seed}


@experiment(version=1, name="tests.fails")
def fails(when: int, *, seed: int) -> dict[str, int]:
    """Raise an error for some seeds."""
    if seed == when:
        raise ZeroDivisionError(f"seed {seed} was told to fail")
    return {"seed": seed}


@experiment(version=1, name="tests.kills_worker")
def kills_worker(folder: str, times: int, victim: int = 0, pause: float = 0.0, *, seed: int) -> dict[str, int]:
    """Kill its own process the first `times` times if the seed is the victim's; count the runs."""
    with Path(folder, f"{seed}.runs").open("a") as file:
        file.write("run\n")
    if seed == victim and len(Path(folder, f"{seed}.runs").read_text().split()) <= times:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(pause)
    return {"seed": seed}


@experiment(version=1, name="tests.interrupts_worker")
def interrupts_worker(seed: int) -> dict[str, int]:
    """Send its own process the signal that Ctrl-C sends to all processes of a terminal."""
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.01)
    return {"seed": seed}


@experiment(version=1, name="tests.counts_runs")
def counts_runs(folder: str, pause: float = 0.0, *, seed: int) -> dict[str, int]:
    """Append a line to a file for each run."""
    with Path(folder, f"{seed}.runs").open("a") as file:
        file.write("run\n")
    time.sleep(pause)
    return {"seed": seed}


@experiment(version=1, name="tests.leaves_traces")
def leaves_traces(folder: str, pause: float, *, seed: int) -> dict[str, int]:
    """Record the process that starts it, and whether it ended."""
    with Path(folder, f"{seed}.begun").open("a") as file:
        file.write(f"{os.getpid()}\n")
    time.sleep(pause)
    Path(folder, f"{seed}.ended").touch()
    return {"seed": seed}


@experiment(version=1, name="tests.matmul")
def matmul(n: int, *, seed: int) -> dict[str, Any]:
    """Sums whose order depends on the number of threads, in torch and in numpy."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    a, b = torch.randn(2, n, n, generator=generator)
    x = np.random.default_rng(seed).normal(size=(n, n))
    return {
        "product": (a @ b)[:2],
        "sum": a.sum().item(),
        "numpy": (x @ x.T)[:2],
        "trace": float(np.trace(np.linalg.inv(x))),
        "threads": torch.get_num_threads(),
    }
