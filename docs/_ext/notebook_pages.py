"""A notebook as a page: its prose, its code, and the text that the code prints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"


def cells(name: str) -> list[dict[str, Any]]:
    """The cells of a notebook."""
    notebook_cells: list[dict[str, Any]] = json.loads((NOTEBOOKS / f"{name}.ipynb").read_text())["cells"]
    return notebook_cells


def notebook(name: str) -> str:
    """The notebook in MyST."""
    parts = []
    for cell in cells(name):
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source.replace("](figures/", "](../../notebooks/figures/"))
        else:
            parts.append(f"```python\n{source}\n```")
            parts += [f"```text\n{text.rstrip()}\n```" for text in printed(cell)]
    return "\n\n".join(parts) + "\n"


def printed(cell: dict[str, Any]) -> list[str]:
    """The recorded output of a code cell; only text is kept."""
    return ["".join(output["text"]) for output in cell["outputs"] if output["output_type"] == "stream"]
