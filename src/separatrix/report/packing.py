"""Texts for the page's script, packed: a page of many figures is then a third as long.

>>> unpacked(packed("n,flops\\n" * 1000)) == "n,flops\\n" * 1000, len(packed("n,flops\\n" * 1000)) < 200
(True, True)
"""

from __future__ import annotations

import gzip
from base64 import b85decode, b85encode

_MARKUP, _PLAIN = b"&<>`", b".,:/"
"""Digits of Python's base 85 that mean something in HTML, and what stands for them in the page."""


def packed(text: str) -> str:
    """Pack a text by gzip, in base 85; equal texts give equal bytes. The page's script unpacks it in the browser."""
    content = gzip.compress(text.encode(), compresslevel=9, mtime=0)
    return b85encode(content).translate(bytes.maketrans(_MARKUP, _PLAIN)).decode()


def unpacked(content: str) -> str:
    """Give the text that was packed."""
    return gzip.decompress(b85decode(content.encode().translate(bytes.maketrans(_PLAIN, _MARKUP)))).decode()
