"""The pages of the API: a section for each file that defines public names, and in it the names."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from itertools import groupby
from typing import get_overloads

from sphinx.pycode import ModuleAnalyzer

from docs._ext.docstring_markup import rst
from docs._ext.public_names import Name, links, names


def api(page: str) -> str:
    """The sections of a page, in MyST."""
    public = names(page)
    homes = list(dict.fromkeys(name.home for name in public))
    ordered = sorted(public, key=lambda name: homes.index(name.home))
    sections = []
    for home, group in groupby(ordered, key=lambda name: name.home):
        lines = [f".. automodule:: {home}", "   :no-members:"]
        # A file may have the name of a function that it defines; the name then refers to the function.
        lines += ["   :no-index:", ""] if home in {name.full for name in public} else [""]
        for name in group:
            lines += _entry(name)
        sections.append("\n".join([f"## {home.removeprefix('separatrix.')}", "", "```{eval-rst}", *lines, "```", ""]))
    return "\n".join(sections)


def _entry(name: Name) -> list[str]:
    value = name.value
    if inspect.isclass(value):
        omitted = [f"   :exclude-members: {_INTERNAL[name.name]}"] if name.name in _INTERNAL else []
        return [f".. autoclass:: {name.full}", "   :members:", "   :member-order: groupwise", *omitted, ""]
    if inspect.isroutine(value):
        # Overloads repeat the last signature without its defaults.
        signature = str(inspect.signature(value)) if get_overloads(value) else ""
        return [f".. autofunction:: {name.full}{signature}", ""]
    described = ModuleAnalyzer.for_module(name.home).find_attr_docs().get(("", name.name), [])
    text = rst([*described, "", *_contents(value)], links(name.home))
    return [f".. py:data:: {name.name}", f"   :module: {name.module}", "", *(f"   {line}" for line in text), ""]


_INTERNAL = {
    "TensorAttentionState": "states, replace, held_states, own_states, hidden_counts, check_tokens, "
    "refuse_beyond_bound, flattened",
}
"""The members of classes that other modules of the library use, and users do not."""


def _contents(value: object) -> list[str]:
    """The entries of a constant that have names."""
    if isinstance(value, Mapping):
        return [f"A mapping with the keys {', '.join(f'`{key!r}`' for key in value)}."]
    if isinstance(value, tuple):
        return [f"{len(value)} of `{type(value[0]).__name__}`."]
    return [f"`{str(value).replace('collections.abc.', '').replace('torch.', '')}`"]
