"""The frame and the server: what they show, and what they refuse."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from dash import html
from dash.dependencies import Input, Output
from plotly.offline import get_plotlyjs

from separatrix.errors import ArgumentError
from separatrix.explorer import controls, server
from separatrix.explorer.alerts import OURS, callback_with_alert
from separatrix.explorer.app import make_app
from separatrix.explorer.claims import tab as claims_tab
from separatrix.explorer.context import REQUEST_BYTES
from separatrix.explorer.scripts import PLOTLY, called_at_once, plotly_script
from separatrix.explorer.separate import tab as separate_tab
from separatrix.explorer.server import Endpoint, bound, guard
from tests.explorer.reader import reader, texts

PAGES = {"separate": separate_tab, "claims": claims_tab}
POST = "/_dash-update-component"


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory):
    new_app = make_app(tmp_path_factory.mktemp("results"), pages=PAGES)
    guard(new_app, Endpoint("127.0.0.1", 8050))
    return new_app


@pytest.fixture
def client(app):
    return visitor(app, "127.0.0.1:8050")


def visitor(app, host: str):
    """A client that asks for the server by this name."""
    client = app.server.test_client()
    asks = client.open
    client.open = lambda *path, **options: asks(*path, **{"base_url": f"http://{host}", **options})
    return client


def test_the_page_needs_nobody_else(client) -> None:
    page = client.get("/").text
    linked = re.findall(r'(?:src|href)="([^"]*)"', page)
    assert linked
    assert all(one.startswith(("/", "data:")) and not one.startswith("//") for one in linked)
    for link in linked:
        if link.startswith("/"):
            assert client.get(link.partition("?")[0], buffered=True).status_code == 200


def test_plotly_is_asked_for_at_once_where_the_tab_begins_with_a_figure(client) -> None:
    asked = f'<link rel="preload" href="{PLOTLY}" as="script">'
    for view in ("/", "/?tab=learn", "/?tab=phlogiston"):
        page = client.get(view).text
        assert page.count(PLOTLY) == 1
        assert page.index(asked) < page.index("<script")
    assert PLOTLY not in client.get("/?tab=claims").text


def test_plotly_is_sent_as_a_function_that_is_called_at_once(client) -> None:
    installed, sent = get_plotlyjs(), client.get(PLOTLY)
    assert sent.mimetype == "text/javascript"
    assert sent.text == plotly_script()
    again = client.get(PLOTLY, headers={"If-None-Match": sent.headers["ETag"]})
    assert (again.status_code, again.get_data()) == (304, b"")
    assert len(sent.text) == len(installed) + 2, "the installed Plotly has another form, and its first figure is slow"
    assert sent.text.replace(": this, (() =>", ": this, () =>").removesuffix(")));") + "));" == installed


def test_the_script_of_another_plotly_stays_as_it_is() -> None:
    for script in ("", "window.Plotly = {};", get_plotlyjs() + "\n"):
        assert called_at_once(script) == script


def test_answers_forbid_other_scripts_and_frames(client) -> None:
    for path in ("/", "/report.css", "/nothing"):
        headers = client.get(path).headers
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe-inline" not in policy.partition("script-src")[2].partition(";")[0]
        assert "unsafe-eval" not in policy
        assert headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("name", ["127.0.0.1:8050", "localhost:8050", "[::1]:8050", "127.0.0.1", "LOCALHOST"])
def test_its_own_names_are_let_in(client, name: str) -> None:
    assert client.get("/", headers={"Host": name}).status_code == 200


@pytest.mark.parametrize(
    "name",
    ["evil.example", "127.0.0.1.evil.example", "192.168.0.7:8050", "localhost.evil.example:8050", "0.0.0.0", "", "["],
)
def test_another_name_is_refused(client, name: str) -> None:
    answer = client.get("/", headers={"Host": name})
    assert answer.status_code == 403
    assert "open the address that it printed" in answer.text


def test_the_host_that_it_is_bound_to_is_let_in(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Endpoint("127.0.0.2", 8050).knows("127.0.0.2:8050")
    assert not Endpoint("127.0.0.1", 8050).knows("127.0.0.2:8050")
    assert Endpoint("Box.Example", 8050).knows("BOX.example:8050")
    asked: list[str] = []
    monkeypatch.setattr(server.socket, "gethostname", lambda: "Machine")
    monkeypatch.setattr(server.socket, "getfqdn", lambda: asked.append("") or "Machine.Example")
    server._machine_names.cache_clear()
    try:
        endpoint = Endpoint("0.0.0.0", 8050)
        assert [endpoint.knows(name) for name in ("machine", "MACHINE.example:8050", "else")] == [True, True, False]
    finally:
        server._machine_names.cache_clear()
    assert len(asked) == 1


def test_another_sites_page_may_not_ask(client) -> None:
    sent = {"json": {}, "headers": {"Origin": "http://evil.example"}}
    assert client.post(POST, **sent).status_code == 403
    for origin in ("null", "http://127.0.0.1:9999", "http://[", "ftp://127.0.0.1:8050", "127.0.0.1:8050"):
        assert client.get("/_dash-layout", headers={"Origin": origin}).status_code == 403
    assert client.get("/_dash-layout", headers={"Origin": "http://127.0.0.1:8050"}).status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd", "/../../../../etc/passwd", "/assets/../app.py",
        "/assets/..%2fapp.py", "/assets/%2e%2e/server.py",
        "/assets//etc/passwd", "/_dash-component-suites/dash/../../../../etc/passwd", "/static/x", "/store.sqlite",
        "/_dash-component-suites/separatrix/explorer/app.py", "/_dash-component-suites/os/path", "/_reload-hash",
        "/report.html", "/index.html", "/.git/config", "/_dash-component-suites/dash/dash.py",
        "/_dash-component-suites/dash/%00", "/_dash-component-suites/%ff/%fe.js", "/_dash-component-suites/dash/[.v",
    ],
)  # fmt: skip
def test_no_file_of_the_server_can_be_read(client, path: str) -> None:
    answer = client.get(path, buffered=True)
    assert answer.status_code in (400, 404), path
    assert "root:" not in answer.text
    assert "import " not in answer.text
    assert "Traceback" not in answer.text


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"null", b'{"output": "nothing.here"}', b'{"output": 3}',
     b'{"output":"panel.children","inputs":9}',
     b'{"output":"..a.b..","outputs":[],"inputs":[{"id":"url","property":"search","value":{"__proto__":1}}]}'],
)  # fmt: skip
def test_malformed_requests_get_no_details(client, caplog: pytest.LogCaptureFixture, body: bytes) -> None:
    answer = client.post(POST, data=body, content_type="application/json")
    assert answer.status_code == 400
    assert caplog.records == []
    assert answer.text.count("\n") == 1
    assert "Traceback" not in answer.text
    assert ".py" not in answer.text


def test_a_request_is_bounded(client) -> None:
    assert client.post(POST, data=b" " * (REQUEST_BYTES + 1), content_type="application/json").status_code == 413
    assert client.post(POST, data="{}", content_type="text/plain").status_code == 415


def test_there_is_no_debugger(app, client) -> None:
    assert not app.server.debug
    assert not app.server.testing
    assert "<title>Separatrix" in client.get("/?__debugger__=yes&cmd=resource&f=debugger.js").text
    assert client.get("/console").status_code == 404


def test_a_token_is_asked_for_shown_once_and_kept_by_the_browser(tmp_path: Path) -> None:
    app = make_app(tmp_path, pages=PAGES)
    guard(app, Endpoint("0.0.0.0", 8050, "correct-horse-battery"))
    friend, other = (visitor(app, "192.168.0.7:8050") for _ in range(2))
    for path in (
        "/",
        "/?token=",
        "/?token=correct-horse-batterz",
        "/_dash-layout?token=correct-horse-battery",
        "/report.css",
    ):
        refused = friend.get(path)
        assert refused.status_code == 403
        assert "open the whole address that <code>separatrix explore</code> printed" in refused.text
        assert "correct-horse" not in refused.text
        assert "frame-ancestors 'none'" in refused.headers["Content-Security-Policy"]
        assert "Set-Cookie" not in refused.headers
    shown = friend.get("/?token=correct-horse-battery&tab=claims")
    entry = re.search(r'data-key="([^"]+)" data-to="([^"]+)"', shown.text)
    assert entry is not None
    assert entry[2] == "/?tab=claims"
    assert (shown.status_code, shown.headers["Cache-Control"]) == (200, "no-store")
    cookie = shown.headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert "correct-horse" not in cookie + shown.text
    assert entry[1] not in cookie
    assert friend.get("/").status_code == 200
    assert friend.get("/_dash-layout", headers={"X-Separatrix-Key": entry[1]}).status_code == 200
    assert friend.get("/", headers={"Host": "evil.example"}).status_code == 403
    other.set_cookie(cookie.partition("=")[0], "guess", domain="192.168.0.7")
    assert other.get("/").status_code == 403
    # A program at another port of the host is sent the cookie too, but not what the page has stored.
    thief = visitor(app, "192.168.0.7:8050")
    thief.set_cookie(*cookie.partition(";")[0].split("=", 1), domain="192.168.0.7")
    for guess in ({}, {"X-Separatrix-Key": "guess"}):
        for path in ("/_dash-layout", "/_dash-dependencies"):
            assert thief.get(path, headers=guess).status_code == 403
        assert thief.post(POST, json={}, headers=guess).status_code == 403


def test_the_address_chooses_the_tab(client) -> None:
    page = reader(client).open("?tab=claims")
    assert page['{"kind":"tab","of":"claims"}.aria-selected'] == "true"
    assert page['{"kind":"tab","of":"separate"}.tabIndex'] == -1
    page = reader(client).open("")
    assert page['{"kind":"tab","of":"separate"}.aria-selected'] == "true"


def test_what_is_wrong_with_the_address_is_told(client) -> None:
    messages = texts(reader(client).open("?tab=nowhere&n=5")["panel.children"])
    assert "tab: expected separate or claims, got 'nowhere'. separate is used instead." in messages
    messages = texts(reader(client).open("?tab=separate&n=1&x=2&d=7&d=8")["panel.children"])
    assert "n: expected a whole number from 2 to 10^100, got '1'. 1e6 is used instead." in messages
    assert "x: this tab has no such value." in messages
    assert "The address has d more than once: the first is used." in messages


def test_an_address_that_is_no_text_is_told(client, caplog: pytest.LogCaptureFixture) -> None:
    seen = reader(client)
    seen.open("")
    [show] = [callback for callback in client.get("/_dash-dependencies").json if "panel.children" in callback["output"]]
    found = seen._ask(show, {"url": {"a": 1}})
    assert found == {"page-alert.children": "address: expected a text, got dict."}
    assert caplog.records == []


def faulty(error: Exception) -> SimpleNamespace:
    """A tab whose callback raises."""

    def register(app, context) -> None:
        @callback_with_alert(
            app, "faulty-alert", {"out": Output("out", "children")}, {"n": Input("button", "n_clicks")}
        )
        def fails(n: object) -> dict[str, object]:
            raise error

    def layout(state, context):
        return html.Div([controls.alert("faulty-alert"), html.Button(id="button"), html.P("as it was", id="out")])

    return SimpleNamespace(TITLE="Faulty", FIELDS=(), COMPARES=False, layout=layout, register=register)


def test_an_error_is_a_sentence_and_a_bug_is_logged_and_not_told(tmp_path: Path, caplog) -> None:
    wrong = ArgumentError("n", expected="less", got=7)
    page = reader(make_app(tmp_path, pages={"f": faulty(wrong)}).server.test_client()).open("")
    assert page["faulty-alert.children"] == str(wrong)
    assert "out.children" not in page
    assert caplog.records == []
    bug = RuntimeError("a secret path")
    page = reader(make_app(tmp_path, pages={"f": faulty(bug)}).server.test_client()).open("")
    assert page["faulty-alert.children"] == OURS
    assert "a secret path" in caplog.text
    assert "secret" not in json.dumps(page)


def test_a_port_that_is_taken_is_told(tmp_path: Path) -> None:
    server, address = bound(make_app(tmp_path, pages=PAGES), Endpoint("127.0.0.1", 0))
    try:
        port = int(re.fullmatch(r"http://127\.0\.0\.1:(\d+)/", address).group(1))
        with pytest.raises(ArgumentError, match="free"):
            bound(make_app(tmp_path, pages=PAGES), Endpoint("127.0.0.1", port))
    finally:
        server.close()
