"""The context of all tabs: the folder of results, and the limits on requests."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

UPLOAD_BYTES = 16 * 2**20
"""The size in bytes of the largest upload."""

REQUEST_BYTES = UPLOAD_BYTES * 4 // 3 + 2**20
"""The size in bytes of the largest request: an upload in base64, and 1 MiB for the rest."""

ADDRESS_CHARACTERS = 4096
"""The length of the longest query string that is parsed."""


@dataclass(frozen=True)
class Context:
    """The folder of results, `store`, which need not exist."""

    store: Path
