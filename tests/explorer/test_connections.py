"""Slow connections to the page's server: a reader gets an answer, however many there are."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from urllib.parse import urlsplit

import pytest

from separatrix.explorer import connections
from separatrix.explorer.claims import tab as claims_tab
from separatrix.explorer.connections import BYTES_A_SECOND, GRACE_SECONDS, MOST, Connection


@pytest.fixture(scope="module")
def place(serve: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> tuple[str, int]:
    location = urlsplit(serve(tmp_path_factory.mktemp("results"), pages={"claims": claims_tab}))
    assert location.hostname
    assert location.port
    return location.hostname, location.port


@pytest.fixture
def slow(place: tuple[str, int]) -> Iterator[Callable[[bytes, int], list[socket.socket]]]:
    """Open connections that send only the beginning of a request."""
    opened: list[socket.socket] = []

    def open(beginning: bytes, count: int) -> list[socket.socket]:
        for _ in range(count):
            connection = socket.create_connection(place, timeout=900)
            connection.sendall(beginning)
            opened.append(connection)
        return opened

    yield open
    for one in opened:
        one.close()


def status(place: tuple[str, int], seconds: float = 900.0) -> int:
    reader = HTTPConnection(*place, timeout=seconds)
    try:
        reader.request("GET", "/")
        return reader.getresponse().status
    finally:
        reader.close()


def ended(one: socket.socket) -> bool:
    """Whether the server has closed a connection, possibly after a moment."""
    one.settimeout(900)
    try:
        return one.recv(1) == b""
    except ConnectionError:
        return True
    except TimeoutError:
        return False


@pytest.mark.parametrize(
    "beginning",
    [b"", b"GET / HTTP/1.1\r\nHost: ", b"POST /_dash-update-component HTTP/1.1\r\nContent-Length: 9999\r\n\r\n{"],
    ids=["silent", "in its header", "in its body"],
)
def test_many_slow_connections_block_no_reader(place: tuple[str, int], slow: Callable, beginning: bytes) -> None:
    """More connections than allowed: the oldest are closed, and a reader is answered immediately."""
    opened = slow(beginning, MOST + 10)
    assert status(place) == 200
    assert ended(opened[0])


def test_a_reader_who_is_being_served_is_never_closed(
    place: tuple[str, int], slow: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, may_end = [], []

    def held(self: Connection) -> None:
        begun.append(self)
        while not may_end:
            time.sleep(0.01)
        service(self)

    service = Connection.service
    monkeypatch.setattr(Connection, "service", held)
    reader = HTTPConnection(*place, timeout=900)
    reader.request("GET", "/report.css")
    while not begun:
        time.sleep(0.01)
    slow(b"GET", MOST + 10)
    may_end.append(True)
    assert reader.getresponse().status == 200
    reader.close()


class Waiting(Connection):
    """A connection without a socket that has waited for this number of seconds."""

    def __init__(
        self, seconds: float, *, arrived: int = 0, owed: int = 0, left: int = 0, partial: bool = False
    ) -> None:
        self.since, self.arrived, self.owed = -seconds, arrived, owed
        self.total_outbufs_len, self.requests = left, []
        self.request = object() if partial else None


@pytest.mark.parametrize(
    ("connection", "overdue"),
    [
        (Waiting(GRACE_SECONDS - 1, partial=True), False),
        (Waiting(GRACE_SECONDS + 1, partial=True), True),
        (Waiting(GRACE_SECONDS + 1, arrived=2 * BYTES_A_SECOND, partial=True), False),
        (Waiting(GRACE_SECONDS + 3, arrived=2 * BYTES_A_SECOND, partial=True), True),
        (Waiting(GRACE_SECONDS + 1, owed=10**6, left=10**6), True),
        (Waiting(GRACE_SECONDS + 1, owed=10**6, left=10**6 - 2 * BYTES_A_SECOND), False),
        (Waiting(GRACE_SECONDS + 1), False),
    ],
    ids=["young", "slow", "fast enough", "too slow", "takes nothing", "takes enough", "idle"],
)
def test_connections_with_too_little_progress(connection: Connection, overdue: bool) -> None:
    assert connection.overdue(0.0) == overdue


def test_an_overdue_connection_is_closed(
    place: tuple[str, int], slow: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "GRACE_SECONDS", 0.0)
    [one] = slow(b"GET / HT", 1)
    assert ended(one)


def test_a_connection_is_used_again(place: tuple[str, int]) -> None:
    reader = HTTPConnection(*place, timeout=900)
    for _ in range(3):
        reader.request("GET", "/report.css")
        answer = reader.getresponse()
        assert answer.status == 200
        answer.read()
    reader.close()


def test_closed_connections_are_not_logged(
    place: tuple[str, int], slow: Callable, caplog: pytest.LogCaptureFixture
) -> None:
    slow(b"GET", MOST + 30)
    assert status(place) == 200
    assert caplog.records == []
