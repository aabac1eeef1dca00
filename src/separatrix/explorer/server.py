"""The server: what a request may be, who may send it, and what an answer may do in a browser."""

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
"""What tells or does something; the rest are the page's scripts and styles."""
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
"""The only rules of Flask's that are served; Dash has more, and one that answers to any path."""


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
<p>This page asks for a token: open the whole address that <code>separatrix explore</code> printed in its terminal,
with <code>?token=</code> in it. Each start of the explorer has a token of its own. If you have opened that address
before and followed a link to this one, enter this address by hand: other pages' links are not let in.</p>
</body>
</html>
"""
"""What anyone sees who has not shown the token."""

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
"""What a visitor gets who has shown the token, which leads on by itself. A browser that came by a link of another site
would send no cookie for this site's own pages along a redirection."""


@dataclass(frozen=True)
class Endpoint:
    """Where the server is bound, and the token that a visitor must know; None lets everyone in who reaches it."""

    host: str
    port: int
    token: str | None = None

    def knows(self, name: str) -> bool:
        """Whether a Host header names this server.

        A page elsewhere can make its own name point here (DNS rebinding), but cannot use an address or a name of ours.
        """
        try:
            host = urlsplit(f"//{name}").hostname or ""  # in lower case
        except ValueError:
            return False
        if host == self.host.lower():
            return True
        return host in _LOCAL if is_loopback(self.host) else host in _machine_names() or _is_address(host)


def is_loopback(host: str) -> bool:
    """Whether a host to bind to is this machine alone.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("::1"), is_loopback("0.0.0.0")
    (True, True, True, False)
    """
    return host == "localhost" or (_is_address(host) and ipaddress.ip_address(host).is_loopback)


@cache
def _machine_names() -> frozenset[str]:
    """The names of this machine, looked up once, since the answer may come from the network."""
    return frozenset({socket.gethostname().lower(), socket.getfqdn().lower()})


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def harden(app: Dash) -> None:
    """Limit what a request may be; a refusal says why in a sentence, and tells nothing else."""
    server: Flask = app.server
    server.config["MAX_CONTENT_LENGTH"] = REQUEST_BYTES
    style = Path(separatrix.report.__file__).with_name("assets") / "page.css"
    css = style.read_text("utf-8")

    @server.get("/report.css")
    def report_css() -> Response:
        return Response(css, mimetype="text/css")

    @server.get(PLOTLY)
    def plotly() -> Response:
        # A browser that has it asks whether it is still the same, and keeps what it compiled.
        answer = Response(plotly_script(), mimetype="text/javascript", headers={"Cache-Control": "no-cache"})
        answer.set_etag(plotly_hash())
        conditional: Response = answer.make_conditional(request)  # type: ignore[assignment]
        return conditional

    @server.before_request
    def known_routes() -> None:
        if str(request.url_rule) not in _ROUTES or not _is_registered(app, request.view_args or {}):
            abort(404, "There is no such page here.")
        origin = request.headers.get("Origin")
        if origin is not None and origin not in (f"http://{request.host}", f"https://{request.host}"):
            abort(403, "Another site's page may not ask this server for anything.")
        if request.path == _CALLBACK and request.method == "POST":
            checked(request, app.callback_map)

    @server.after_request
    def policy(response: Response) -> Response:
        hashes = " ".join(app.csp_hashes())
        # Plotly writes its styles into the page as it draws, and makes its images there.
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
            said, code = error.description or error.name, error.code or 500
        else:
            log.error("A request to the explorer failed", exc_info=error)
            said, code = "This is a fault of ours.", 500
        return Response(f"{said}\n", code, mimetype="text/plain")


def _is_registered(app: Dash, named: Mapping[str, str]) -> bool:
    """Whether the file of a package that a request names, if it does, is one that the page uses."""
    if "package_name" not in named:
        return True
    path, _ = check_fingerprint(named["fingerprinted_path"])  # type: ignore[no-untyped-call]
    return path in app.registered_paths.get(named["package_name"], ())


def guard(app: Dash, endpoint: Endpoint) -> None:
    """Let in only who asks for this server by its name and, if there is a token, has shown it.

    ``/?token=...`` shows it once. From then on a cookie of this process stands for it, and a key that the page stores.
    A browser sends a host's cookies to every port, where another user's program may read them; what a page has stored
    it shows to pages of the same port alone. So requests for data need both.
    """
    server: Flask = app.server
    in_cookie, stored = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
    # Ports share a host's cookies: the name tells two explorers apart.
    cookie = f"separatrix-{secrets.token_hex(4)}"

    def check() -> Response | None:
        if not endpoint.knows(request.host):
            abort(403, f"This server is not {request.host[:80]}: open it by the address that it printed.")
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

    # Before every other check: a stranger learns nothing of what is here.
    server.before_request_funcs.setdefault(None, []).insert(0, check)


def _same(given: str, secret: str) -> bool:
    return hmac.compare_digest(given.encode(), secret.encode())


def return_large_blocks() -> None:
    """Let the C library give back to the system what an upload took, as soon as it is freed; for the whole process.

    By default glibc raises the size from which on it does so to that of the largest block it has freed, up to 32 MiB,
    and keeps all smaller ones for each thread.
    """
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):
        library.mallopt(_M_MMAP_THRESHOLD, _LARGE_BLOCK)


def bound(app: Dash, endpoint: Endpoint, *, threads: int = 8) -> tuple[Any, str]:
    """Let the app listen at its endpoint; give the server, whose ``run`` serves and ``close`` ends it, and its address.

    The server is waitress, a plain one with a few threads, which limits what it reads and needs nothing but Python.
    """
    from separatrix.explorer.connections import serving

    guard(app, endpoint)
    # A browser asks for all of a page at once, so requests that wait in the queue are no reason for a warning.
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
    shown = socket.gethostname() if ipaddress.ip_address(host).is_unspecified else host
    name = f"[{shown}]" if ":" in shown else shown
    return server, f"http://{name}:{port}/" + (f"?{urlencode({'token': endpoint.token})}" if endpoint.token else "")
