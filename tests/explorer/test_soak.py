"""Fifty readers at once for a minute: every tab, good values and bad, without an error and without growth."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest

from separatrix.explorer.alerts import OURS
from separatrix.explorer.fields import Field
from separatrix.explorer.tabs import tabs
from tests.explorer.bad_values import bad_values
from tests.explorer.reader import Reader

CLIENTS, SECONDS = 50, 60
GROWTH = 48 * 2**20
"""Caches fill in the first third; what comes after must stay below this, in bytes."""


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[str, int]]:
    """The command itself, in a process of its own: its address and its id."""
    command = [sys.executable, "-W", "error::ResourceWarning", "-m", "separatrix",
               "explore", "--port", "0", "--store", str(tmp_path / "results")]  # fmt: skip
    log = (tmp_path / "log").open("w+")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, cwd=tmp_path) as process:
        assert process.stdout is not None
        address = process.stdout.readline().removeprefix("The explorer: ").strip()
        assert address.startswith("http://127.0.0.1:"), (tmp_path / "log").read_text()
        yield address, process.pid
        process.terminate()
        process.wait(30)
    log.close()
    assert (tmp_path / "log").read_text() == "", "the server complained"


def resident(pid: int) -> int:
    """The memory of a process, in bytes."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def some_text(field: Field, chance: random.Random) -> str:
    """A value of a field: mostly a good one."""
    if chance.random() < 0.1:
        return chance.choice(bad_values(field))
    if field.choices:
        return chance.choice(field.choices)[0]
    if field.scale is None or field.scale.log:
        return field.default
    return f"{chance.uniform(field.scale.low, field.scale.high):.2f}"


def read(address: str, seed: int, until: float) -> Counter[str]:
    """One reader: views of every tab, and changes in them, until it is time."""
    chance = random.Random(seed)
    host = urlsplit(address)
    connection = HTTPConnection(host.hostname or "", host.port, timeout=60)
    done: Counter[str] = Counter()

    def ask(method: str, path: str, sent: dict[str, Any] | None = None) -> Any:
        body = None if sent is None else json.dumps(sent)
        connection.request(method, path, body, {"Content-Type": "application/json", "Cookie": cookie})
        answer = connection.getresponse()
        text = answer.read().decode()
        assert answer.status in (200, 204), f"{answer.status}: {text[:300]}"
        assert OURS not in text
        done["requests"] += 1
        return json.loads(text) if answer.status == 200 else {}

    connection.request("GET", f"{host.path}?{host.query}")  # the link that carries the token
    shown = connection.getresponse()
    shown.read()
    cookie = shown.headers["Set-Cookie"].partition(";")[0]
    dependencies, frame = ask("GET", "/_dash-dependencies"), ask("GET", "/_dash-layout")
    view = Reader(dependencies, frame, lambda sent: ask("POST", "/_dash-update-component", sent))
    pages = tabs()
    while time.monotonic() < until:
        name = chance.choice(list(pages))
        fields = pages[name].FIELDS
        state = {one.name: some_text(one, chance) for one in chance.sample(list(fields), min(3, len(fields)))}
        view.open(f"?{urlencode({'tab': name, **state})}")
        done[name] += 1
        for _ in range(3):
            one = chance.choice(list(fields))
            view.changed(**{one.name: some_text(one, chance)})
    connection.close()
    return done


@pytest.mark.soak
@pytest.mark.timeout(300)
def test_fifty_readers_for_a_minute(served: tuple[str, int]) -> None:
    address, pid = served
    read(address, 0, time.monotonic() + 5)  # what is imported on first use is
    with ThreadPoolExecutor(CLIENTS) as crowd:
        start = time.monotonic()
        readers = [crowd.submit(read, address, seed, start + SECONDS) for seed in range(CLIENTS)]
        time.sleep(SECONDS / 3)
        early = resident(pid)
        done = sum((reader.result() for reader in readers), Counter())
    late = resident(pid)
    print(f"{dict(done)}; {early / 2**20:.0f} MiB after {SECONDS // 3} s, {late / 2**20:.0f} MiB at the end")
    assert done["requests"] > CLIENTS * 4
    assert all(done[name] for name in tabs())
    assert late - early < GROWTH
