"""Sphinx, for `make docs`: nothing is fetched while it builds, and nothing while a page is read."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import separatrix  # noqa: E402

project = "Separatrix"
author = "The Separatrix authors"
copyright = "The Separatrix authors. Apache-2.0"
version = release = separatrix.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "docs._ext.made",
    "docs._ext.source_pages",
    "docs._ext.unbroken_formulas",
]
exclude_patterns = ["_build", "_ext"]
source_suffix = {".md": "markdown"}
smartquotes = False
"""Two dashes are an option of a command, three dots belong to a formula."""
nitpicky = False
"""Signatures name many types of torch, which have no page here."""

myst_enable_extensions = ["attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4
myst_links_external_new_tab = False

autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 90

napoleon_attr_annotations = False
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_use_param = False
napoleon_use_rtype = False

# MathJax is a file of a package: one script with its glyphs inside, so a page needs neither network nor fonts.
_mathjax = find_spec("sphinx-mathjax-offline")
if _mathjax is None or _mathjax.origin is None:
    raise RuntimeError("sphinx-mathjax-offline is not installed: pip install --group docs")
MATHJAX = Path(_mathjax.origin).parent / "static" / "mathjax" / "tex-svg.js"
mathjax_path = MATHJAX.name

html_theme = "furo"
html_title = "Separatrix"
html_static_path = ["_static", str(MATHJAX)]
html_css_files = ["pages.css"]
html_js_files = ["errata.js"]
html_copy_source = False
html_show_sphinx = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#1f5f8b", "color-brand-content": "#1f5f8b"},
    "dark_css_variables": {"color-brand-primary": "#7fb8dd", "color-brand-content": "#7fb8dd"},
    "top_of_page_buttons": [],
}
