"""Pages with the highlighted source of every Python file that a document links to.

MyST turns a link to a file that is not a document into a download. For Python files this extension replaces the
download by a page ``_code/<path in the repository>``, which the browser shows.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

ROOT = Path(__file__).resolve().parents[2]


def page_of(source: Path) -> str:
    """The name of the page of a Python file."""
    return f"_code/{source.relative_to(ROOT).with_suffix('').as_posix()}"


def replace_downloads(app: Sphinx, document: nodes.document, name: str) -> None:
    """Replace every download of a Python file of the repository by a link to its page."""
    if app.builder.format != "html":
        return
    for download in list(document.findall(addnodes.download_reference)):
        source = Path(app.env.relfn2path(download["reftarget"], name)[1]).resolve()
        if source.suffix != ".py" or not source.is_relative_to(ROOT):
            continue
        page = page_of(source)
        app.__dict__.setdefault("linked_sources", {})[page] = source
        address = app.builder.get_relative_uri(name, page)
        download.replace_self(nodes.reference("", "", *download.children, refuri=address, internal=True))


def drop_copies(app: Sphinx, env: BuildEnvironment) -> None:
    """Do not copy the Python files that have pages."""
    for path in [path for path in env.dlfiles if str(path).endswith(".py")]:
        del env.dlfiles[path]


def source_pages(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """The pages of all linked files, for Sphinx to write."""
    linked: dict[str, Path] = app.__dict__.get("linked_sources", {})
    for page, source in sorted(linked.items()):
        title = source.relative_to(ROOT).as_posix()
        code = app.builder.highlighter.highlight_block(source.read_text(), "python")  # type: ignore[attr-defined]
        yield page, {"title": title, "body": f"<h1>{title}</h1>\n{code}"}, "page.html"


def share_navigation(app: Sphinx, page: str, template: str, context: dict[str, Any], document: object) -> None:
    """Compute the navigation of pages of code, which contents do not list, only once for each depth of folders.

    The links in it are relative. Furo asks for the navigation of each page, which would take a quarter of the time
    of a build.
    """
    if page.startswith(("_code/", "_modules/")):
        toctree, depth = context["toctree"], page.count("/")
        known = app.__dict__.setdefault("navigation_by_depth", {})

        def shared(**options: Any) -> str:
            key = (depth, *sorted(options.items()))
            if key not in known:
                known[key] = toctree(**options)
            return str(known[key])

        context["toctree"] = shared


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension with Sphinx."""
    app.connect("html-page-context", share_navigation, priority=400)  # before furo, whose priority is 500
    app.connect("env-updated", drop_copies)
    app.connect("doctree-resolved", replace_downloads)
    app.connect("html-collect-pages", source_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": False}
