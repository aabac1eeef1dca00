"""The state of a view in its URL: ``/?tab=separate&n=1e6&d=12``, with a second setting as ``n.2=1e9``.

An invalid value is replaced by the default, and the page shows a message.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import parse_qsl

from separatrix.errors import SeparatrixError
from separatrix.explorer.context import ADDRESS_CHARACTERS
from separatrix.explorer.fields import Field

SECOND = ".2"
"""The suffix of the names of the second setting."""


@dataclass(frozen=True)
class AddressTexts:
    """The valid texts by name, and a message for each invalid one."""

    state: Mapping[str, str]
    notes: tuple[str, ...]


def query(search: str | None) -> tuple[dict[str, str], tuple[str, ...]]:
    """The parameters of a URL, the first of each name, and messages about what is wrong with it.

    >>> query("?tab=learn&T=5&T=6")
    ({'tab': 'learn', 'T': '5'}, ('The address has T more than once: the first is used.',))
    """
    text = (search or "").removeprefix("?")
    if len(text) > ADDRESS_CHARACTERS:
        return {}, (f"The address is longer than {ADDRESS_CHARACTERS} characters: its settings were ignored.",)
    parameters: dict[str, str] = {}
    again: list[str] = []
    for name, value in parse_qsl(text, keep_blank_values=True, errors="replace"):
        if name in parameters:
            again.append(name)
        else:
            parameters[name] = value
    notes = [f"The address has {_short(name)} more than once: the first is used." for name in dict.fromkeys(again)]
    return parameters, tuple(notes)


def read(parameters: Mapping[str, str], fields: Sequence[Field], *, compares: bool) -> AddressTexts:
    """The state of a tab: the texts of its fields and, if any name ends with `SECOND`, those of a second setting.

    Values that the second setting leaves out are those of the first.

    >>> from separatrix.explorer.fields import whole
    >>> d = whole("d", "d", "The width.", "Definition D.1", low=3, high=402, default="12")
    >>> read({"d": "2", "e": "1"}, [d], compares=False).notes
    ("d: expected a whole number from 3 to 402, got '2'. 12 is used instead.", 'e: this tab has no such value.')
    >>> read({"d.2": "22"}, [d], compares=True).state
    {'d': '12', 'd.2': '22'}
    """
    state: dict[str, str] = {}
    notes: list[str] = []

    def take(field: Field, name: str, default: str) -> None:
        text = parameters.get(name, default)
        try:
            field.read(text)
        except SeparatrixError as error:
            message = str(error).removeprefix(field.name)
            notes.append(f"{name}{message} {default or 'Nothing'} is used instead.")
            text = default
        state[name] = text

    for field in fields:
        take(field, field.name, field.default)
    if compares and any(name.endswith(SECOND) for name in parameters):
        for field in fields:
            if not field.shared:
                take(field, field.name + SECOND, state[field.name])
    # The button that opens a second setting copies all values, including those that both settings share.
    known = {*state, "tab", "token", *(field.name + SECOND for field in fields if field.shared)}
    notes += [f"{_short(name)}: this tab has no such value." for name in parameters if name not in known]
    return AddressTexts(state, tuple(notes))


def side(state: Mapping[str, str], second: bool) -> dict[str, str]:
    """The texts of one setting by their names without the suffix; shared fields are in both settings.

    >>> side({"d": "12", "d.2": "22", "along": "n"}, second=True)
    {'d': '22', 'along': 'n'}
    """
    plain = {name: text for name, text in state.items() if not name.endswith(SECOND)}
    if second:
        plain |= {name.removesuffix(SECOND): text for name, text in state.items() if name.endswith(SECOND)}
    return plain


def compares(state: Mapping[str, str]) -> bool:
    """Whether there is a second setting."""
    return any(name.endswith(SECOND) for name in state)


def _short(name: str) -> str:
    return name if len(name) <= 40 else f"{name[:40]}..."
