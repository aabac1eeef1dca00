"""The server: which requests it accepts and from whom, and what a response may do in a browser."""

from __future__ import annotations

import ctypes
import hmac
import html
import ipaddress
import logging
import secrets
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from dash import Dash
from dash.fingerprint import check_fingerprint
from flask import Flask, Response, abort, request
from werkzeug.exceptions import HTTPException

import separatrix.report
from separatrix.errors import ArgumentError
from separatrix.explorer.callbacks import checked
from separatrix.explorer.context import REQUEST_BYTES
from separatrix.explorer.scripts import PLOTLY, plotly_hash, plotly_script

log = logging.getLogger("separatrix.explorer")

_M_MMAP_THRESHOLD = -3
_LARGE_BLOCK = 2**21

_LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})
_CALLBACK = "/_dash-update-component"
_DATA = frozenset({"/_dash-layout", "/_dash-dependencies", _CALLBACK})
"""The routes that return data or run callbacks; the others are scripts and styles."""
_ROUTES = frozenset(
    {
        "/",
        "/report.css",
        PLOTLY,
        "/assets/<path:filename>",
        "/_dash-layout",
        "/_dash-dependencies",
        _CALLBACK,
        "/_dash-component-suites/<string:package_name>/<path:fingerprinted_path>",
    }
)
"""The only routes that are served; Dash defines more, including one for all paths."""


_STRANGER = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="color-scheme" content="light dark">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>Separatrix: the explorer</title>
</head>
<body style="font: 1.1rem/1.5 system-ui, sans-serif; max-width: 40rem; margin: 4rem auto; padding: 0 1rem">
<h1>Separatrix</h1>
<p>This page needs a token: open the whole address that <code>separatrix explore</code> printed in its terminal,
with <code>?token=</code> in it. Each start of the explorer has a new token.</p>
<p>If somebody shared this address with you, ask them for the token, and add <code>&amp;token=</code> and the token to
the end of the address. If you have opened the printed address before and followed a link to this one, enter this
address by hand: links from other pages are not accepted.</p>
</body>
</html>
"""
"""The page for visitors without the token."""

_ENTRY = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<link rel="icon" href="data:,">
<title>Separatrix: the explorer</title>
</head>
<body><script src="/assets/entry.js" data-key="{key}" data-to="{to}"></script></body>
</html>
"""
"""The page after the token was accepted, which redirects by script.

After an HTTP redirect from a link of another site, a browser would not send the cookie.
"""


@dataclass(frozen=True)
class Endpoint:
    """The host and port of the server, and the token that visitors need; None allows access to everyone."""

    host: str
    port: int
    token: str | None = None

    def knows(self, name: str) -> bool:
        """Whether a Host header names this server.

        Another site can make its own domain point here (DNS rebinding), but cannot use the names of this machine.
        """
        try:
            host = urlsplit(f"//{name}").hostname or ""  # in lower case
        except ValueError:
            return False
        if host == self.host.lower():
            return True
        return host in _LOCAL if is_loopback(self.host) else host in _machine_names() or _is_address(host)


def is_loopback(host: str) -> bool:
    """Whether a host is a loopback address.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("::1"), is_loopback("0.0.0.0")
    (True, True, True, False)
    """
    return host == "localhost" or (_is_address(host) and ipaddress.ip_address(host).is_loopback)


@cache
def _machine_names() -> frozenset[str]:
    """The names of this machine, cached because the lookup may use the network."""
    return frozenset({socket.gethostname().lower(), socket.getfqdn().lower()})


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def harden(app: Dash) -> None:
    """Limit what requests may do; rejected requests get a short message and no other information."""
    server: Flask = app.server
    server.config["MAX_CONTENT_LENGTH"] = REQUEST_BYTES
    style = Path(separatrix.report.__file__).with_name("assets") / "page.css"
    css = style.read_text("utf-8")

    @server.get("/report.css")
    def report_css() -> Response:
        return Response(css, mimetype="text/css")

    @server.get(PLOTLY)
    def plotly() -> Response:
        # With an ETag a browser revalidates its copy, and keeps the compiled code.
        answer = Response(plotly_script(), mimetype="text/javascript", headers={"Cache-Control": "no-cache"})
        answer.set_etag(plotly_hash())
        conditional: Response = answer.make_conditional(request)  # type: ignore[assignment]
        return conditional

    @server.before_request
    def known_routes() -> None:
        if str(request.url_rule) not in _ROUTES or not _is_registered(app, request.view_args or {}):
            abort(404, "There is no such page.")
        origin = request.headers.get("Origin")
        if origin is not None and origin not in (f"http://{request.host}", f"https://{request.host}"):
            abort(403, "Cross-origin requests are not allowed.")
        if request.path == _CALLBACK and request.method == "POST":
            checked(request, app.callback_map)

    @server.after_request
    def policy(response: Response) -> Response:
        hashes = " ".join(app.csp_hashes())
        # Plotly adds styles and images to the page as it draws.
        response.headers["Content-Security-Policy"] = (
            f"default-src 'none'; script-src 'self' {hashes}; style-src 'self' 'unsafe-inline'; font-src 'self' data:; "
            "img-src 'self' data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
            "frame-ancestors 'none'"
        )
        response.headers["X-Content-Type-Options"] = "nosniff"
        response.headers["Referrer-Policy"] = "no-referrer"
        response.headers["Cross-Origin-Resource-Policy"] = "same-origin"
        response.headers["Cross-Origin-Opener-Policy"] = "same-origin"
        return response

    @server.errorhandler(Exception)
    def refuse(error: Exception) -> Response:
        if isinstance(error, HTTPException):
            message, code = error.description or error.name, error.code or 500
        else:
            log.error("A request to the explorer failed", exc_info=error)
            message, code = "This is a bug in Separatrix.", 500
        return Response(f"{message}\n", code, mimetype="text/plain")


def _is_registered(app: Dash, named: Mapping[str, str]) -> bool:
    """Whether a request for a file of a package names a file that the page uses."""
    if "package_name" not in named:
        return True
    path, _ = check_fingerprint(named["fingerprinted_path"])  # type: ignore[no-untyped-call]
    return path in app.registered_paths.get(named["package_name"], ())


def guard(app: Dash, endpoint: Endpoint) -> None:
    """Reject requests with another Host header and, if there is a token, of visitors who have not presented it.

    ``/?token=...`` presents the token once. From then on a cookie and a key in the local storage of the page replace
    the token. A browser sends the cookies of a host to every port, where another user's program may read them, but
    local storage is only accessible to pages of the same port. So requests for data need both.
    """
    server: Flask = app.server
    in_cookie, stored = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
    # Ports share the cookies of a host, so each explorer has its own cookie name.
    cookie = f"separatrix-{secrets.token_hex(4)}"

    def check() -> Response | None:
        if not endpoint.knows(request.host):
            abort(403, f"This server is not {request.host[:80]}: open the address that it printed.")
        if endpoint.token is None:
            return None
        if _same(request.cookies.get(cookie, ""), in_cookie):
            if request.path in _DATA and not _same(request.headers.get("X-Separatrix-Key", ""), stored):
                abort(403, "Open the whole address that separatrix explore printed, with ?token= in it.")
            return None
        if request.path != "/" or not _same(request.args.get("token", ""), endpoint.token):
            return Response(_STRANGER, 403, mimetype="text/html")
        rest = [(name, value) for name, value in request.args.items(multi=True) if name != "token"]
        to = html.escape(f"/?{urlencode(rest)}" if rest else "/")
        answer = Response(_ENTRY.format(key=stored, to=to), mimetype="text/html", headers={"Cache-Control": "no-store"})
        answer.set_cookie(cookie, in_cookie, httponly=True, samesite="Strict")
        return answer

    # This check comes before all others, so that visitors without the token learn nothing.
    server.before_request_funcs.setdefault(None, []).insert(0, check)


def _same(given: str, secret: str) -> bool:
    return hmac.compare_digest(given.encode(), secret.encode())


def return_large_blocks() -> None:
    """Make the C library return freed memory of uploads to the system immediately, for the whole process.

    By default glibc raises its mmap threshold to the size of the largest freed block, up to 32 MiB, and keeps smaller
    blocks for each thread.
    """
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):
        library.mallopt(_M_MMAP_THRESHOLD, _LARGE_BLOCK)


def bound(app: Dash, endpoint: Endpoint, *, threads: int = 8) -> tuple[Any, str]:
    """Bind the app to its endpoint; return the server, with methods ``run`` and ``close``, and its URL.

    The server is waitress, a pure Python server with a few threads and limits on requests.
    """
    from separatrix.explorer.connections import serving

    guard(app, endpoint)
    # Browsers request all parts of a page at once, so queued requests are not worth a warning.
    logging.getLogger("waitress.queue").setLevel(logging.ERROR)
    family = socket.AF_INET6 if ":" in endpoint.host else socket.AF_INET
    try:
        listening = socket.create_server((endpoint.host, endpoint.port), family=family)
    except OSError as error:
        wanted = "a host and a port of this machine that are free"
        raise ArgumentError(
            "--host, --port", expected=wanted, got=f"{endpoint.host}:{endpoint.port} ({error})"
        ) from error
    server = serving(
        app.server,
        listening,
        threads=threads,
        ident=None,
        max_request_body_size=REQUEST_BYTES,
        max_request_header_size=2**16,
    )
    host, port = listening.getsockname()[:2]
    host_name = socket.gethostname() if ipaddress.ip_address(host).is_unspecified else host
    name = f"[{host_name}]" if ":" in host_name else host_name
    return server, f"http://{name}:{port}/" + (f"?{urlencode({'token': endpoint.token})}" if endpoint.token else "")
