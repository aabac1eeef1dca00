"""Fifty concurrent readers for a minute: every tab, good and bad values, without an error or memory growth."""

from __future__ import annotations

import base64
import json
import os
import random
import re
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
from separatrix.explorer.context import UPLOAD_BYTES
from separatrix.explorer.fields import Field
from separatrix.explorer.tabs import tabs
from tests.explorer.bad_values import bad_values
from tests.explorer.reader import Reader

CLIENTS, SECONDS = 50, 60
GROWTH = 48 * 2**20
"""Caches fill in the first third; growth after that must stay below this number of bytes."""


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[str, int]]:
    """Run the command in its own process; yield its address and its process id."""
    command = [sys.executable, "-W", "error::ResourceWarning", "-m", "separatrix",
               "explore", "--port", "0", "--store", str(tmp_path / "results")]  # fmt: skip
    log = (tmp_path / "log").open("w+")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, cwd=tmp_path) as process:
        assert process.stdout is not None
        address = process.stdout.readline().removeprefix("The explorer: ").strip()
        assert address.startswith("http://127.0.0.1:"), (tmp_path / "log").read_text()
        yield address, process.pid
        process.terminate()
        process.wait(1800)
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


class Asked:
    """A connection that has presented the token, and the number of its requests."""

    def __init__(self, address: str) -> None:
        host = urlsplit(address)
        self.connection = HTTPConnection(host.hostname or "", host.port, timeout=1800)
        self.count = 0
        self.connection.request("GET", f"{host.path}?{host.query}")  # the link with the token
        shown = self.connection.getresponse()
        [key] = re.findall('data-key="([^"]+)"', shown.read().decode())
        self.token = {"Cookie": shown.headers["Set-Cookie"].partition(";")[0], "X-Separatrix-Key": key}

    def __call__(self, method: str, path: str, sent: dict[str, Any] | None = None) -> Any:
        body = None if sent is None else json.dumps(sent)
        self.connection.request(method, path, body, {"Content-Type": "application/json", **self.token})
        answer = self.connection.getresponse()
        text = answer.read().decode()
        assert answer.status in (200, 204), f"{answer.status}: {text[:300]}"
        assert OURS not in text
        self.count += 1
        return json.loads(text) if answer.status == 200 else {}


def read(address: str, seed: int, until: float) -> Counter[str]:
    """One reader: views of every tab, and changes in them, until the time is over."""
    chance, ask = random.Random(seed), Asked(address)
    done: Counter[str] = Counter()
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
    ask.connection.close()
    done["requests"] = ask.count
    return done


@pytest.mark.soak
@pytest.mark.timeout(1500)
def test_fifty_readers_for_a_minute(served: tuple[str, int]) -> None:
    address, pid = served
    read(address, 0, time.monotonic() + 5)  # imports on first use are done
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


def upload(address: str) -> None:
    """Four of the largest files, one after the other; they contain no tensors."""
    ask = Asked(address)
    [plan] = [one for one in ask("GET", "/_dash-dependencies") if "file-found" in one["output"]]
    contents = "data:;base64," + base64.b64encode(bytes(UPLOAD_BYTES)).decode()

    def given(part: dict[str, str]) -> Any:
        if part["id"].startswith("{"):
            return []
        return {**part, "value": contents if part["property"] == "contents" else "name"}

    outputs = [one.rpartition(".")[::2] for one in plan["output"].strip(".").split("...")]
    sent = {
        "output": plan["output"],
        "outputs": [{"id": name, "property": value} for name, value in outputs],
        "changedPropIds": ["file.contents"],
        "inputs": [given(part) for part in plan["inputs"]],
        "state": [given(part) for part in plan["state"]],
    }
    for _ in range(4):
        assert "file-alert" in ask("POST", "/_dash-update-component", sent)["response"]
    ask.connection.close()


@pytest.mark.soak
@pytest.mark.timeout(1500)
def test_memory_is_given_back_after_uploads(served: tuple[str, int]) -> None:
    """Thirty-two files, eight at a time, in requests of 22 MB each; 550 MiB of them would be kept for each thread.

    Meanwhile some 200 MiB of libraries are imported.
    """
    address, pid = served
    read(address, 0, time.monotonic())
    before = resident(pid)
    with ThreadPoolExecutor(8) as crowd:
        for reader in [crowd.submit(upload, address) for _ in range(8)]:
            reader.result()
    # # Blocks are freed together with the objects of the last responses, which may happen shortly after this read.
    while resident(pid) - before > 400 * 2**20:
        time.sleep(0.5)
