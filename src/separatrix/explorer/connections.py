"""Limits on the connections of the server: their number, and how slow a client may be.

A connection waits for its client while a request arrives, while a response is sent, and in between. Connections that
transfer too few bytes in a period are closed; if there are too many connections, the one that has waited longest is
closed. So slow clients cannot block the server.
"""

from __future__ import annotations

import socket
import time
from typing import Any

from waitress.channel import HTTPChannel  # type: ignore[import-untyped]
from waitress.server import TcpWSGIServer  # type: ignore[import-untyped]

MOST = 200
"""The largest number of connections at a time; `select`, which waitress uses, supports 1024."""
GRACE_SECONDS, BYTES_A_SECOND = 10.0, 16 * 1024
"""The rate at which a client must transfer bytes, after a grace period."""
IDLE_SECONDS = 60
"""The seconds after which an idle connection is closed."""


class Connection(HTTPChannel):  # type: ignore[misc]
    """A connection that records since when it has waited for its client, and how many bytes were transferred since."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.since = time.monotonic()
        self.arrived = 0
        self.owed = 0
        super().__init__(*arguments, **options)

    def received(self, data: bytes) -> bool:
        """Receive bytes from the client; the first bytes of a request restart the clock."""
        if self.request is None:
            self.since, self.arrived = time.monotonic(), 0
        self.arrived += len(data)
        return bool(super().received(data))

    def service(self) -> None:
        """Answer a request, and restart the clock for sending the response."""
        super().service()
        self.since, self.arrived, self.owed = time.monotonic(), 0, self.total_outbufs_len

    @property
    def waits(self) -> bool:
        """Whether the server waits for the client."""
        return not self.requests

    def overdue(self, now: float) -> bool:
        """Whether the client is too slow in the middle of a request or a response."""
        idle = self.request is None and not self.total_outbufs_len
        moved = self.arrived + max(0, self.owed - self.total_outbufs_len)
        # An idle connection, such as a preconnection of a browser, is limited by `IDLE_SECONDS` instead.
        return self.waits and not idle and now - self.since > GRACE_SECONDS + moved / BYTES_A_SECOND


class Server(TcpWSGIServer):  # type: ignore[misc]
    """A waitress server whose connections are of the class `Connection`."""

    channel_class = Connection

    def maintenance(self, now: float) -> None:
        """Close idle and slow connections; waitress calls this every second."""
        super().maintenance(now)
        for connection in self.active_channels.values():
            if connection.overdue(time.monotonic()):
                connection.will_close = True

    def readable(self) -> bool:
        """Whether a new connection is accepted: there are few enough, or one can be closed for it."""
        return bool(super().readable()) and (len(self.active_channels) < MOST or self._slowest() is not None)

    def handle_accept(self) -> None:
        """Accept a connection; if there are too many, close the one that has waited longest for its client.

        The new connection is accepted before the old one is closed, so that it does not get the same file descriptor.
        """
        super().handle_accept()
        if len(self.active_channels) > MOST and (slowest := self._slowest()) is not None:
            slowest.handle_close()

    def _slowest(self) -> Connection | None:
        waiting = [connection for connection in self.active_channels.values() if connection.waits]
        return min(waiting, key=lambda connection: connection.since, default=None)


def serving(application: Any, listening: socket.socket, **options: Any) -> Server:
    """A server on a bound socket; `options` are those of waitress."""
    address = (listening.family, listening.type, listening.proto, listening.getsockname())
    return Server(
        application,
        _sock=listening,
        bind_socket=False,
        sockinfo=address,
        channel_timeout=IDLE_SECONDS,
        cleanup_interval=1,
        connection_limit=10 * MOST,  # ours comes first
        **options,
    )
