"""The generated parts of pages: the ledger, the commands, the API, notebooks.

A page marks the place of a generated part by a separate line. Sphinx fills in the API and the notebooks while it
builds, at a line ``<!-- made: api selection -->``. The papers' tables, the errata, the commands, the evidence, the
counts of the fuzz and the gallery are committed with their content, between ``<!-- made: table kronecker -->`` and
``<!-- end -->``; `python -m tests.docs.refresh` regenerates them, and a test fails when they are stale.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any

from sphinx.application import Sphinx

from docs._ext.api_pages import api
from docs._ext.authors_pages import authors_errata, authors_findings, authors_summary
from docs._ext.commands_page import commands
from docs._ext.docstring_markup import rst
from docs._ext.errata_pages import errata_counts, errata_left, errata_list, first_errata, ledger_counts, text_slip_list
from docs._ext.evidence import evidence
from docs._ext.fuzz_counts import fuzz_counts
from docs._ext.gallery import gallery
from docs._ext.ledger_pages import machine_checked_table, paper_heading, paper_table, verdicts_list
from docs._ext.notebook_pages import notebook
from docs._ext.public_names import links

_MARK = re.compile(r"^<!-- made: (?P<what>[\w-]+)(?P<given>(?: [\w-]+)*) -->$", re.MULTILINE)
_END = "<!-- end -->"
_COMMITTED_PART = re.compile(rf"{_MARK.pattern}\n(?:.*?^)??{_END}$", re.MULTILINE | re.DOTALL)
_BUILT: Mapping[str, Callable[..., str]] = {"api": api, "notebook": notebook}
_COMMITTED: Mapping[str, Callable[..., str]] = {
    "authors-errata": authors_errata,
    "authors-findings": authors_findings,
    "authors-summary": authors_summary,
    "commands": commands,
    "errata": errata_list,
    "errata-counts": errata_counts,
    "errata-left": errata_left,
    "evidence": evidence,
    "first-errata": first_errata,
    "fuzz": fuzz_counts,
    "gallery": gallery,
    "ledger-counts": ledger_counts,
    "machine-checked": machine_checked_table,
    "paper": paper_heading,
    "table": paper_table,
    "text-slips": text_slip_list,
    "verdicts": verdicts_list,
}


def filled(text: str) -> str:
    """The page with the parts that the build generates; its committed parts are unchanged.

    A mark of an unknown kind raises a `KeyError`.
    """

    def content(mark: re.Match[str]) -> str:
        return mark[0] if mark["what"] in _COMMITTED else _BUILT[mark["what"]](*mark["given"].split())

    return _MARK.sub(content, text)


def refreshed(text: str) -> str:
    """A page whose committed parts are regenerated from the source. Its other marks stay."""

    def content_of(part: re.Match[str]) -> str:
        head = part[0].partition("\n")[0]
        content = _COMMITTED[part["what"]](*part["given"].split())
        return f"{head}\n\n{content.strip()}\n\n{_END}"

    return _COMMITTED_PART.sub(content_of, text)


def _fill(app: Sphinx, page: str, source: list[str]) -> None:
    source[0] = filled(source[0])


def _translate(app: Sphinx, what: str, name: str, value: object, options: object, lines: list[str]) -> None:
    """The docstring in reStructuredText; a word that is a parameter of the function is not a link."""
    home = getattr(value, "__module__", None) or (value.__name__ if inspect.ismodule(value) else "separatrix")
    known = links(home if home.startswith("separatrix") else "separatrix")
    called = inspect.isfunction(value) or (inspect.isclass(value) and not issubclass(value, BaseException))
    given = set(inspect.signature(value).parameters) if called else set()
    lines[:] = rst(lines, {word: full for word, full in known.items() if word not in given})


def _skip(app: Sphinx, what: str, name: str, value: object, skip: bool, options: object) -> bool | None:
    """The automatic docstrings of the fields of named tuples give only their numbers."""
    return True if str(getattr(value, "__doc__", "")).startswith("Alias for field number") else None


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("source-read", _fill)
    app.connect("autodoc-process-docstring", _translate, priority=400)  # before napoleon, whose priority is 500
    app.connect("autodoc-skip-member", _skip)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
