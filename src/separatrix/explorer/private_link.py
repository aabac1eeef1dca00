"""A link that only its owner can see, to be opened in a browser.

A browser is started with an address as its argument, and every user of a machine sees the arguments of all processes.
So what is opened is a file that only its owner can read, which leads to the address.
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
    """The address of a file that leads to `address`, there until the end of the block.

    >>> with private_link("http://127.0.0.1:8050/?token=a&n=1") as link:
    ...     "url=http://127.0.0.1:8050/?token=a&amp;n=1" in Path(link.removeprefix("file://")).read_text()
    True
    """
    with tempfile.TemporaryDirectory(prefix="separatrix-") as folder:  # which is its owner's alone
        file = Path(folder) / "explorer.html"
        file.write_text(_PAGE.format(address=html.escape(address)), "utf-8")
        yield file.as_uri()
