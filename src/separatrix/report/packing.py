"""Texts for the page's script, packed: a page of many figures is then a third as long.

>>> unpacked(packed("n,flops\\n" * 1000)) == "n,flops\\n" * 1000, len(packed("n,flops\\n" * 1000)) < 200
(True, True)
"""

from __future__ import annotations

import gzip
from base64 import b64decode, b64encode


def packed(text: str) -> str:
    """Pack a text by gzip, in base64; equal texts give equal bytes. The page's script unpacks it in the browser."""
    return b64encode(gzip.compress(text.encode(), compresslevel=9, mtime=0)).decode()


def unpacked(content: str) -> str:
    """Give the text that was packed."""
    return gzip.decompress(b64decode(content)).decode()
