"""Validation of requests to callbacks: only requests that the page's own script could send are accepted.

Dash parses a request by the callback that it names, and does not validate it. Here a request is first compared with the
declaration of the callback, so that a malformed request gets status 400. Values are not checked here: the fields parse
them, and invalid values raise an `ArgumentError`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NoReturn

from flask import Request, abort

from separatrix.checks import is_whole

MOST_PARTS = 20_000
"""The largest number of commas, brackets and colons in a request: a page has some hundred controls, and base64 has none
of these characters."""
MOST_MATCHES = 1000
"""The largest number of components that a pattern may match."""
_COUNTS = frozenset({"n_clicks", "n_intervals"})
"""Properties that count events; no field parses them."""


def checked(request: Request, callbacks: Mapping[str, Mapping[str, Any]]) -> None:
    """Abort with status 400 and a message unless the request is valid for one of the callbacks."""
    data = request.get_data(cache=True)
    if sum(map(data.count, (b",", b"[", b"{", b":"))) > MOST_PARTS:
        _refuse(f"it has more than {MOST_PARTS:,} parts")
    try:
        body = request.get_json()
    except RecursionError:
        _refuse("it is nested too deeply")
    if not isinstance(body, dict):
        _refuse("it is no object")
    output = body.get("output")
    declared = callbacks.get(output) if isinstance(output, str) else None
    if not isinstance(output, str) or declared is None or "callback" not in declared:
        _refuse("the page has no such callback")
    dependencies = [(entry["id"], entry["property"]) for entry in (*declared["inputs"], *declared["state"])]
    given = [*_listed(body, "inputs", declared["inputs"]), *_listed(body, "state", declared["state"])]
    outputs = [tuple(entry.rsplit(".", 1)) for entry in output.removeprefix("..").removesuffix("..").split("...")]
    named_outputs = [*_listed(body, "outputs", outputs)]
    matched: list[str] | None = None
    for (id, name), entry in zip([*dependencies, *outputs], [*given, *named_outputs], strict=True):
        fields = _fitting(id, name, entry)
        # Texts, ids and notes must be of the same fields in the same order, because callbacks pair them.
        if fields is not None and (matched := fields if matched is None else matched) != fields:
            _refuse("its patterns do not match the same fields")
    changed = body.get("changedPropIds", [])
    if not isinstance(changed, list) or not all(isinstance(id, str) for id in changed):
        _refuse("changedPropIds is no list of texts")


def _listed(body: Mapping[str, Any], name: str, declared: Sequence[Any]) -> list[Any]:
    entries = body.get(name, [])
    if not isinstance(entries, list) or len(entries) != len(declared):
        _refuse(f"{name} is no list of {len(declared)}")
    return entries


def _fitting(id: str, name: str, entry: object) -> list[str] | None:
    """The fields (`of`) of the components that match a pattern id in a request; None if the id is not a pattern."""
    pattern = _pattern(id)
    if not isinstance(pattern, dict) or ["ALL"] not in pattern.values():
        if not isinstance(entry, dict) or (entry.get("id"), entry.get("property")) != (pattern, name):
            _refuse(f"{name} of {id} is missing")
        count = entry.get("value")
        if name in _COUNTS and not (count is None or is_whole(count, low=0, high=2**53 - 1)):
            _refuse(f"{name} of {id} is no count")
        return None
    if not isinstance(entry, list) or len(entry) > MOST_MATCHES:
        _refuse(f"{id} is no list of at most {MOST_MATCHES} components")
    fields = []
    for component in entry:
        own = component.get("id") if isinstance(component, dict) and component.get("property") == name else None
        if not isinstance(own, dict) or own.keys() != pattern.keys():
            _refuse(f"{name} of {id} is missing")
        if not all(isinstance(own[key], str) and want in (["ALL"], own[key]) for key, want in pattern.items()):
            _refuse(f"{id} does not match")
        if name == "id" and component.get("value") != own:
            _refuse(f"an id of {id} is not its own")
        fields.append(own["of"])
    return fields


@lru_cache(maxsize=1024)
def _pattern(id: str) -> Any:
    return json.loads(id) if id.startswith("{") else id


def _refuse(why: str) -> NoReturn:
    abort(400, f"This is not a valid request of the explorer's page: {why[:200]}.")
