"""Connections of the page's server: how many there may be, and for how long one may keep the server waiting.

A connection waits for its client while a request arrives, while an answer is taken, and in between. One that moves too
little meanwhile is closed; and when there are too many, the one that has waited longest makes room for a new one. So
slow connections, however many, keep nobody out.
"""

from __future__ import annotations

import socket
import time
from typing import Any

from waitress.channel import HTTPChannel  # type: ignore[import-untyped]
from waitress.server import TcpWSGIServer  # type: ignore[import-untyped]

MOST = 200
"""Connections at a time: `select`, which waitress waits by, takes 1024."""
GRACE_SECONDS, BYTES_A_SECOND = 10.0, 16 * 1024
"""What a client must move while it is waited for: anything in the first seconds, so much in every one after them."""
IDLE_SECONDS = 60
"""How long a connection is kept on which nothing is under way."""


class Connection(HTTPChannel):  # type: ignore[misc]
    """A connection that knows since when it has waited for its client, and how many bytes have moved since."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.since = time.monotonic()
        self.arrived = 0
        self.owed = 0
        super().__init__(*arguments, **options)

    def received(self, data: bytes) -> bool:
        """Bytes from the client; with the first of a request the time begins anew."""
        if self.request is None:
            self.since, self.arrived = time.monotonic(), 0
        self.arrived += len(data)
        return bool(super().received(data))

    def service(self) -> None:
        """Answer a request; then the client is waited for until it has taken the answer."""
        super().service()
        self.since, self.arrived, self.owed = time.monotonic(), 0, self.total_outbufs_len

    @property
    def waits(self) -> bool:
        """Whether it is the client that has to do something next."""
        return not self.requests

    def overdue(self, now: float) -> bool:
        """Whether the client, in the middle of something, has moved too little."""
        idle = self.request is None and not self.total_outbufs_len
        moved = self.arrived + max(0, self.owed - self.total_outbufs_len)
        # The first connection of a browser may say nothing for a while; `IDLE_SECONDS` are for those.
        return self.waits and not idle and now - self.since > GRACE_SECONDS + moved / BYTES_A_SECOND


class Server(TcpWSGIServer):  # type: ignore[misc]
    """waitress's server with these connections."""

    channel_class = Connection

    def maintenance(self, now: float) -> None:
        """Close what is idle or overdue; called every second."""
        super().maintenance(now)
        for connection in self.active_channels.values():
            if connection.overdue(time.monotonic()):
                connection.will_close = True

    def readable(self) -> bool:
        """Whether a new connection is taken: there is room, or one can make room."""
        return bool(super().readable()) and (len(self.active_channels) < MOST or self._slowest() is not None)

    def handle_accept(self) -> None:
        """Take a connection; where there are too many, the one that has waited longest for its client is closed.

        The new one is taken first: if the old one were closed before, its socket's number would go to the new one.
        """
        super().handle_accept()
        if len(self.active_channels) > MOST and (slowest := self._slowest()) is not None:
            slowest.handle_close()

    def _slowest(self) -> Connection | None:
        waiting = [one for one in self.active_channels.values() if one.waits]
        return min(waiting, key=lambda one: one.since, default=None)


def serving(application: Any, listening: socket.socket, **options: Any) -> Server:
    """A server on a socket that is bound already; `options` are waitress's."""
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
