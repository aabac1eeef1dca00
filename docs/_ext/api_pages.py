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
    shown = names(page)
    homes = list(dict.fromkeys(one.home for one in shown))
    ordered = sorted(shown, key=lambda one: homes.index(one.home))
    sections = []
    for home, group in groupby(ordered, key=lambda one: one.home):
        lines = [f".. automodule:: {home}", "   :no-members:"]
        # A file may be called like the function it defines, which then has the name.
        lines += ["   :no-index:", ""] if home in {one.full for one in shown} else [""]
        for one in group:
            lines += _entry(one)
        sections.append("\n".join([f"## {home.removeprefix('separatrix.')}", "", "```{eval-rst}", *lines, "```", ""]))
    return "\n".join(sections)


def _entry(one: Name) -> list[str]:
    value = one.value
    if inspect.isclass(value):
        return [f".. autoclass:: {one.full}", "   :members:", ""]
    if inspect.isroutine(value):
        # Overloads say once more, without the defaults, what the last signature says.
        signature = str(inspect.signature(value)) if get_overloads(value) else ""
        return [f".. autofunction:: {one.full}{signature}", ""]
    described = ModuleAnalyzer.for_module(one.home).find_attr_docs().get(("", one.name), [])
    text = rst([*described, "", *_contents(value)], links(one.home))
    return [f".. py:data:: {one.name}", f"   :module: {one.module}", "", *(f"   {line}" for line in text), ""]


def _contents(value: object) -> list[str]:
    """What a constant holds, as far as it has names."""
    if isinstance(value, Mapping):
        return [f"A mapping with the keys {', '.join(f'`{key!r}`' for key in value)}."]
    if isinstance(value, tuple):
        return [f"{len(value)} of `{type(value[0]).__name__}`."]
    return [f"`{str(value).replace('collections.abc.', '').replace('torch.', '')}`"]
