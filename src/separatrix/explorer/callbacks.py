"""What a request to a callback may be: what the page's own script would send, and nothing else.

Dash takes a request apart by the callback it names and trusts that it fits. Here it is compared with the callback's own
declaration first, so that a request which does not fit is refused as the sender's fault. Values are not checked here:
the fields read them, and refuse what they cannot read in a sentence.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NoReturn

from flask import Request, abort

from separatrix.checks import is_whole

MOST_PARTS = 20_000
"""Commas, brackets and colons in a request: a page has some hundreds of controls, and a file in base64 has none."""
MOST_MATCHES = 1000
"""Components that a pattern may match."""
_COUNTS = frozenset({"n_clicks", "n_intervals"})
"""Properties that count what happened: no field reads them."""


def checked(request: Request, callbacks: Mapping[str, Mapping[str, Any]]) -> None:
    """Refuse a request with status 400, in a sentence, unless one of the callbacks could be called with it."""
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
    dependencies = [(one["id"], one["property"]) for one in (*declared["inputs"], *declared["state"])]
    given = [*_listed(body, "inputs", declared["inputs"]), *_listed(body, "state", declared["state"])]
    outputs = [tuple(one.rsplit(".", 1)) for one in output.removeprefix("..").removesuffix("..").split("...")]
    told = [*_listed(body, "outputs", outputs)]
    matched: list[str] | None = None
    for (id, name), one in zip([*dependencies, *outputs], [*given, *told], strict=True):
        found = _fitting(id, name, one)
        # Texts, ids and notes are of the same fields in the same order: the callback pairs them.
        if found is not None and (matched := found if matched is None else matched) != found:
            _refuse("its patterns do not match the same fields")
    changed = body.get("changedPropIds", [])
    if not isinstance(changed, list) or not all(isinstance(one, str) for one in changed):
        _refuse("changedPropIds is no list of texts")


def _listed(body: Mapping[str, Any], name: str, declared: Sequence[Any]) -> list[Any]:
    found = body.get(name, [])
    if not isinstance(found, list) or len(found) != len(declared):
        _refuse(f"{name} is no list of {len(declared)}")
    return found


def _fitting(id: str, name: str, one: object) -> list[str] | None:
    """What the components that a request has for a pattern are `of`, or None where the id is no pattern."""
    pattern = _pattern(id)
    if not isinstance(pattern, dict) or ["ALL"] not in pattern.values():
        if not isinstance(one, dict) or (one.get("id"), one.get("property")) != (pattern, name):
            _refuse(f"{name} of {id} is missing")
        count = one.get("value")
        if name in _COUNTS and not (count is None or is_whole(count, low=0, high=2**53 - 1)):
            _refuse(f"{name} of {id} is no count")
        return None
    if not isinstance(one, list) or len(one) > MOST_MATCHES:
        _refuse(f"{id} is no list of at most {MOST_MATCHES} components")
    found = []
    for each in one:
        own = each.get("id") if isinstance(each, dict) and each.get("property") == name else None
        if not isinstance(own, dict) or own.keys() != pattern.keys():
            _refuse(f"{name} of {id} is missing")
        if not all(isinstance(own[key], str) and want in (["ALL"], own[key]) for key, want in pattern.items()):
            _refuse(f"{id} does not match")
        if name == "id" and each.get("value") != own:
            _refuse(f"an id of {id} is not its own")
        found.append(own["of"])
    return found


@lru_cache(maxsize=1024)
def _pattern(id: str) -> Any:
    return json.loads(id) if id.startswith("{") else id


def _refuse(why: str) -> NoReturn:
    abort(400, f"This is no request of the explorer's page: {why[:200]}.")
