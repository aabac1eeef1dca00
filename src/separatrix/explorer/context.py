"""What every tab of the explorer is given: the folder of results, and how much a request may cost."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

UPLOAD_BYTES = 16 * 2**20
"""The largest file that may be uploaded."""

REQUEST_BYTES = UPLOAD_BYTES * 4 // 3 + 2**20
"""The largest request: an upload in base64, and room for the rest."""

ADDRESS_CHARACTERS = 4096
"""The longest query of an address that is read."""


@dataclass(frozen=True)
class Context:
    """`store`: the folder of results, which need not exist."""

    store: Path
