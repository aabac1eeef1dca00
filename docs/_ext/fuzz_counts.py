"""The table of the outcomes of the certificate fuzz, from the file that `python -m tests.attention.fuzz` writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

COUNTS = Path(__file__).resolve().parent / "fuzz.json"


def fuzz_counts() -> str:
    """A row for each kind of case, and one for all."""
    said = json.loads(COUNTS.read_text())
    kinds: dict[str, dict[str, Any]] = said["kinds"]
    head = ["cases", "held", "broken", "refused", "without a promise"]
    head += ["largest error / certificate", "median certificate / error"]
    rows = [f"| {' | '.join(head)} |", "| --- | ---: | ---: | ---: | ---: | ---: | ---: |"]
    names = ("held", "broken", "refused", "unpromised")
    totals = {name: sum(count[name] for count in kinds.values()) for name in names}
    totals["largest"] = max(count["largest"] for count in kinds.values())
    for kind, count in [*kinds.items(), ("all", totals)]:
        numbers = [f"{count[name]:,}" for name in names]
        answered = count["held"] + count["broken"]
        ratios = [_ratio(count["largest"]), f"{said['looseness'][kind]:,.3g}"] if answered else ["-", "-"]
        rows.append("| " + " | ".join([kind, *numbers, *ratios]) + " |")
    return "\n".join(rows)


def _ratio(x: float) -> str:
    """Format a number with four digits, or with more if a number below 1 would be rounded to 1."""
    return f"1 - {1 - x:.1e}" if 0.9999 < x < 1 else f"{x:.4f}"
