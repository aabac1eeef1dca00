"""The built documents: no warning, no broken link, every public name is present, nothing is fetched."""

from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from sphinx.util.inventory import InventoryFile

from docs._ext.public_names import PAGES, names
from tests.docs.pages import DOCS, ROOT

SPHINX = """
import gc, sys
gc.set_threshold(200_000, 50, 1000)  # a quarter of the time went into looking through trees of nodes that all stay
from sphinx.cmd.build import main
sys.exit(main(sys.argv[1:]))
"""


class Page(HTMLParser):
    """The references of a page, and the targets in it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.ids |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag in ("script", "img", "iframe") and "src" in given:
            self.loaded.append(given["src"])
        if tag == "link" and given.get("rel") in ("stylesheet", "preload", "icon"):
            self.loaded.append(given["href"])


def read(built: Path) -> dict[Path, Page]:
    """All pages, without the thousands of tags of syntax highlighting per page, which are no link targets."""
    return {file: Page(re.sub(r'</?span(?: class="[\w-]+")?>', "", file.read_text())) for file in built.rglob("*.html")}


def lost_links(built: Path, pages: dict[Path, Page]) -> list[str]:
    """The internal links whose file or anchor does not exist."""
    lost = []
    for file, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or link == "#":
                continue
            target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            known = pages.get(target)
            if not target.is_file() or (parts.fragment and known and unquote(parts.fragment) not in known.ids):
                lost.append(f"{file.relative_to(built)}: {link}")
    return lost


def fetched(built: Path, pages: dict[Path, Page]) -> list[str]:
    """The resources that pages would load from other hosts."""
    return [
        f"{file.relative_to(built)}: {address}"
        for file, page in pages.items()
        for address in page.loaded
        if urlsplit(address).netloc or urlsplit(address).scheme not in ("", "data")
    ]


def test_links_and_loads_are_detected(tmp_path: Path) -> None:
    tmp_path = tmp_path.resolve()
    (tmp_path / "other.html").write_text('<p id="here"></p>')
    links = ["other.html", "other.html#here", "other.html#gone", "gone.html", "#gone", "#top", "https://example.org/"]
    loads = ["a.js", "//example.org/b.js", "https://example.org/c.js"]
    text = "".join(f'<a href="{link}"></a>' for link in links) + "".join(
        f'<script src="{load}"></script>' for load in loads
    )
    (tmp_path / "page.html").write_text(f'<p id="top"></p>{text}')
    pages = read(tmp_path)
    assert lost_links(tmp_path, pages) == ["page.html: other.html#gone", "page.html: gone.html", "page.html: #gone"]
    assert fetched(tmp_path, pages) == ["page.html: //example.org/b.js", "page.html: https://example.org/c.js"]


@pytest.mark.timeout(2700)
def test_documents(tmp_path: Path) -> None:
    """Build once: no warning, no broken link, every public name present, nothing fetched."""
    built = tmp_path.resolve() / "html"
    command = [sys.executable, "-c", SPHINX, "-W", "--keep-going", "-q", "-b", "html", "-d", tmp_path / "trees"]
    # Leave functions out of the table of contents, which Sphinx copies for every page.
    command += ["-D", "toc_object_entries=0"]
    done = subprocess.run([*command, DOCS, built], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")

    pages = read(built)
    assert lost_links(built, pages) == []
    assert sum(len(page.links) for page in pages.values()) > 1000
    assert fetched(built, pages) == []
    formulas = pages[built / "derivations" / "near-linear-attention.html"]
    assert any(address.startswith("../_static/tex-svg.js") for address in formulas.loaded)

    paper = pages[built / "papers" / "kronecker.html"]
    assert "../_code/src/separatrix/hardness/matching.html" in paper.links, "code is shown, not downloaded"
    assert not list(built.rglob("_downloads/**/*.py"))

    with (built / "objects.inv").open("rb") as file:
        inventory = InventoryFile.load(file, "", lambda base, path: path)
    known = {name for kind, entries in inventory.items() if kind.startswith("py:") for name in entries}
    assert {one.full for page in PAGES for one in names(page)} - known == set()
    layer = "separatrix.nn.TensorAttention"
    assert {f"{layer}.{name}" for name in ("forward", "cache", "decode", "state")} <= known
    assert f"{layer}.cuda" not in known, "what a layer has from PyTorch is in the entry of ours"

    left_over = (":py:obj:", "{py:obj}", "&lt;!-- made", "problematic")
    for file in pages:
        if not {"_modules", "_code"} & set(file.parts):
            text = file.read_text()
            assert not [word for word in left_over if word in text], file
