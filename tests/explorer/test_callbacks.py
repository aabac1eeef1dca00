"""Requests to callbacks that the page's own script would not send: status 400, or an error message on the page."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

from separatrix.explorer import callbacks
from separatrix.explorer.alerts import OURS
from separatrix.explorer.app import make_app
from separatrix.explorer.tabs import NAMES
from tests.explorer.reader import Reader

POST = "/_dash-update-component"
HOSTILE = [None, True, -1, 2**70, 1e308, "", "x" * 300, "\ud800", "../../etc/passwd", [], [[]], {}, {"a": [1]}]
"""The replacements for a part of a request, or for a value."""


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory):
    return make_app(tmp_path_factory.mktemp("results")).server.test_client()


@pytest.fixture(scope="module")
def genuine(client) -> list[dict[str, Any]]:
    """A request to every callback, as the page sends it; no file is planned and no run is started."""
    sent: list[dict[str, Any]] = []

    def post(body: dict[str, Any]) -> dict[str, Any]:
        sent.append(copy.deepcopy(body))
        answer = client.post(POST, json=body)
        assert answer.status_code in (200, 204), answer.text
        return answer.get_json() if answer.status_code == 200 else {}

    dependencies, frame = client.get("/_dash-dependencies").get_json(), client.get("/_dash-layout").get_json()
    for name in NAMES:
        Reader(dependencies, frame, post).open(f"?tab={name}")
    return list({body["output"]: body for body in sent}.values())


def places(part: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths to all parts of a request, including the request itself."""
    yield path
    items = part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else ()
    for key, item in items:
        yield from places(item, (*path, key))


def replaced(body: Any, path: tuple[Any, ...], value: Any) -> Any:
    """The request with the part at a path replaced, or removed if the value is `...`."""
    if not path:
        return value
    body = copy.deepcopy(body)
    part = body
    for key in path[:-1]:
        part = part[key]
    if value is ...:
        del part[path[-1]]
    else:
        part[path[-1]] = value
    return body


def test_every_callback_of_the_page_is_tried(client, genuine: list[dict[str, Any]]) -> None:
    declared = client.get("/_dash-dependencies").get_json()
    served = {callback["output"] for callback in declared if not callback.get("clientside_function")}
    assert {body["output"] for body in genuine} == served


def test_no_request_causes_a_server_error(
    client, genuine: list[dict[str, Any]], caplog: pytest.LogCaptureFixture
) -> None:
    """Forty times per callback, a random part of the request, half the time a value, is replaced or removed."""
    chance = random.Random(0)
    seen: dict[int, int] = {}
    for body in genuine:
        ways = list(places(body))
        values = [path for path in ways if path and path[-1] == "value"]
        for k in range(40):
            path = chance.choice(values if k % 2 and values else ways)
            value = chance.choice([*HOSTILE, ...]) if path else chance.choice(HOSTILE)
            sent = json.dumps(replaced(body, path, value))
            answer = client.post(POST, data=sent, content_type="application/json")
            said = f"{path} of {body['output'][:80]} as {value!r}"
            assert answer.status_code in (200, 204, 400), said
            assert OURS not in answer.text, said
            seen[answer.status_code] = seen.get(answer.status_code, 0) + 1
    assert caplog.records == []
    assert seen[400] > seen[200] > 0


def fields(genuine: list[dict[str, Any]]) -> dict[str, Any]:
    return json.loads(
        json.dumps(next(callback for callback in genuine if callback["output"].startswith("..separate-alert")))
    )


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda body: body["state"][0].pop(), "its patterns do not match the same fields"),
        (lambda body: body["outputs"][1].pop(), "its patterns do not match the same fields"),
        (lambda body: body["inputs"][0].reverse(), "its patterns do not match the same fields"),
        (lambda body: body["inputs"][0][0]["id"].update(tab="learn"), "does not match"),
        (lambda body: body["inputs"][0][0]["id"].update(of=["ALL"]), "does not match"),
        (lambda body: body["state"][0][0]["value"].update(of="m"), "is not its own"),
        (lambda body: body["inputs"][0][0].update(property="id"), "is missing"),
        (lambda body: body["inputs"].append({}), "inputs is no list of 1"),
        (lambda body: body.update(changedPropIds=[{}]), "changedPropIds is no list of texts"),
        (lambda body: body.update(output="url.search"), "the page has no such callback"),
        (lambda body: body.update(output="written.data"), "the page has no such callback"),
        (lambda body: body.update(inputs=[[{}] * 2000]), "no list of at most 1000 components"),
    ],
)
def test_mismatched_sizes_are_reported(client, genuine: list[dict[str, Any]], spoil: Any, why: str) -> None:
    body = fields(genuine)
    assert client.post(POST, json=body).status_code == 200
    spoil(body)
    answer = client.post(POST, json=body)
    assert answer.status_code == 400
    assert answer.text.startswith("This is not a valid request of the explorer's page: ")
    assert why in answer.text


def test_a_count_is_a_count(client, genuine: list[dict[str, Any]]) -> None:
    body = copy.deepcopy(next(body for body in genuine if body["output"].startswith("..act-alert")))
    for value in ("1", 1.5, True, -1, [1], 2**60):
        body["inputs"][0]["value"] = value
        assert "n_clicks of run-start is no count" in client.post(POST, json=body).text


def test_a_request_of_many_parts_is_not_taken_apart(client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seven million empty lists would take 500 MB as Python objects."""
    monkeypatch.setattr(json, "loads", lambda *_, **__: pytest.fail("it was taken apart"))
    for body in (b"[" + b"[]," * 10**6 + b"[]]", b"[" * 10**5, b'{"a":' * 10**5):
        answer = client.post(POST, data=body, content_type="application/json")
        assert (answer.status_code, "more than 20,000 parts" in answer.text) == (400, True)


def test_a_request_that_is_nested_too_deeply(client) -> None:
    for body in (b"[" * 15_000 + b"]" * 15_000, b"[" * 15_000):
        answer = client.post(POST, data=body, content_type="application/json")
        assert answer.status_code == 400
        assert "Traceback" not in answer.text


def test_a_file_is_one_part(client, genuine: list[dict[str, Any]]) -> None:
    """The largest allowed request is not refused for its size, and reaches the file reader."""
    body = copy.deepcopy(next(body for body in genuine if body["output"].startswith("..file-alert")))
    body["inputs"][0]["value"] = "data:application/octet-stream;base64," + "AAAA" * (16 * 2**20 // 3)
    answer = client.post(POST, json=body)
    assert answer.status_code == 200
    assert "expected a safetensors file" in answer.text
    assert callbacks.MOST_PARTS < 10**5
