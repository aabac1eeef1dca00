"""A link with a secret that can be opened in a browser without other users seeing it.

A browser is started with a URL as its argument, and every user of a machine can see the arguments of all processes. So
the browser opens a file that only its owner can read, and that redirects to the URL.
"""

from __future__ import annotations

import html
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="refresh" content="0; url={address}">
<title>Separatrix: the explorer</title>
</head>
<body><p><a href="{address}">The explorer</a></p></body>
</html>
"""


@contextmanager
def private_link(address: str) -> Iterator[str]:
    """The URL of a file that redirects to `address`; the file exists until the end of the block.

    >>> with private_link("http://127.0.0.1:8050/?token=a&n=1") as link:
    ...     "url=http://127.0.0.1:8050/?token=a&amp;n=1" in Path(link.removeprefix("file://")).read_text()
    True
    """
    with tempfile.TemporaryDirectory(prefix="separatrix-") as folder:  # only its owner can read the file
        file = Path(folder) / "explorer.html"
        file.write_text(_PAGE.format(address=html.escape(address)), "utf-8")
        yield file.as_uri()
