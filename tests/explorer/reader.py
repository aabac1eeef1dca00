"""A client without a browser: it opens a view, and requests the callbacks of the page, as Dash's script does."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

Post = Callable[[dict[str, Any]], dict[str, Any]]

CLIENTSIDE = "clientside_function"


def components(layout: Any) -> Iterator[dict[str, Any]]:
    """All components of a layout in JSON, in the order of the page."""
    if isinstance(layout, list):
        for one in layout:
            yield from components(one)
    elif isinstance(layout, dict) and "props" in layout:
        yield layout
        yield from components(layout["props"].get("children"))


def texts(layout: Any) -> str:
    """All text of a layout."""
    if isinstance(layout, list):
        return " ".join(map(texts, layout))
    if isinstance(layout, dict):
        return texts(layout.get("props", {}).get("children"))
    return "" if layout is None else str(layout)


def spelled(id: Any) -> str:
    """An id in Dash's format."""
    return id if isinstance(id, str) else json.dumps(id, sort_keys=True, separators=(",", ":"))


def matches(pattern: Any, id: Any) -> bool:
    """Whether an id matches the pattern of a dependency, where ["ALL"] matches anything."""
    if isinstance(pattern, str) or isinstance(id, str):
        return bool(pattern == id)
    return set(pattern) == set(id) and all(want in (["ALL"], ["MATCH"], id[key]) for key, want in pattern.items())


class Reader:
    """One view: `open` loads it, `changed` sets values and requests the callbacks; both return the outputs."""

    def __init__(self, dependencies: list[dict[str, Any]], frame: Any, post: Post) -> None:
        self._callbacks = [one for one in dependencies if not one.get(CLIENTSIDE)]
        self._post = post
        self._frame = frame
        self._shown: list[dict[str, Any]] = []
        self.state: dict[str, Any] = {}

    def open(self, search: str) -> dict[str, Any]:
        """The view of an address: the callback of the frame, then all callbacks of the view."""
        self._shown = list(components(self._frame))
        found = self._ask(next(one for one in self._callbacks if "panel.children" in one["output"]), {"url": search})
        self._shown += components(found["panel.children"])
        return {**found, **self.changed()}

    def changed(self, *, changed: str | None = None, **values: Any) -> dict[str, Any]:
        """Set fields by their names in the address, and request every callback; `changed` is what triggers them."""
        found: dict[str, Any] = {}
        for one in self._callbacks:
            if "panel.children" not in one["output"] and self._applies(one):
                found |= self._ask(one, values, [changed] if changed else [])
        return found

    def fields(self) -> dict[str, Any]:
        """The values of the controls by their names in the address."""
        ids = [one["props"] for one in self._shown if isinstance(one["props"].get("id"), dict)]
        return {props["id"]["of"]: props.get("value") for props in ids if props["id"].get("kind") == "field"}

    def _applies(self, callback: dict[str, Any]) -> bool:
        wanted = [json.loads(one["id"]) if one["id"].startswith("{") else one["id"] for one in callback["inputs"]]
        return any(self._with(pattern) for pattern in wanted) and all(
            self._with(one) for one in wanted if isinstance(one, str)
        )

    def _with(self, pattern: Any) -> list[dict[str, Any]]:
        return [one["props"] for one in self._shown if matches(pattern, one["props"].get("id", ""))]

    def _resolved(self, dependency: dict[str, Any], values: dict[str, Any]) -> Any:
        pattern = json.loads(dependency["id"]) if dependency["id"].startswith("{") else dependency["id"]
        name = dependency["property"]

        def one(props: dict[str, Any]) -> dict[str, Any]:
            id = props["id"]
            key = id if isinstance(id, str) else id.get("of")
            value = values[key] if key in values and name in ("value", "search") else props.get(name)
            if name == "id":
                value = id
            return {"id": id, "property": name, "value": value}

        found = [one(props) for props in self._with(pattern)]
        wild = not isinstance(pattern, str) and ["ALL"] in pattern.values()
        return found if wild else found[0]

    def _ask(self, callback: dict[str, Any], values: dict[str, Any], changed: Sequence[str] = ()) -> dict[str, Any]:
        outputs = []
        for text in callback["output"].strip(".").split("..."):
            id, _, name = text.rpartition(".")
            pattern = json.loads(id) if id.startswith("{") else id
            wild = not isinstance(pattern, str) and ["ALL"] in pattern.values()
            fitting = [{"id": props["id"], "property": name} for props in self._with(pattern)]
            outputs.append(fitting if wild else (fitting or [{"id": pattern, "property": name}])[0])
        sent = {
            "output": callback["output"],
            "outputs": outputs,
            "inputs": [self._resolved(one, values) for one in callback["inputs"]],
            "state": [self._resolved(one, values) for one in callback.get("state", [])],
            "changedPropIds": list(changed),
        }
        answer = self._post(sent).get("response", {})
        return {f"{id}.{name}": value for id, props in answer.items() for name, value in props.items()}


def reader(client: Any) -> Reader:
    """A reader of the explorer's page through the test client of its Flask app."""

    def post(sent: dict[str, Any]) -> dict[str, Any]:
        answer = client.post("/_dash-update-component", json=sent)
        if answer.status_code == 204:
            return {}
        assert answer.status_code == 200, answer.text
        return answer.get_json()

    return Reader(client.get("/_dash-dependencies").get_json(), client.get("/_dash-layout").get_json(), post)
