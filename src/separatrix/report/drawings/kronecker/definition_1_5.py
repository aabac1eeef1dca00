"""Definition 1.5 of Alman and Song: the library's errors against the definition."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go  # type: ignore[import-untyped]

from separatrix.claims.ledger import Found
from separatrix.report.strokes import columns_of, drawing, rows_of
from separatrix.report.theme import BLUE, GREEN, GREY, RED, Drawing, figure


@drawing
def definition_errors(found: Sequence[Found]) -> Drawing:
    """Definition 1.5: the library's algorithms against the definition."""
    rows = sorted(rows_of(found), key=lambda row: (row["order"], row["n"]))
    drawn = figure("order k and length n", "largest difference", log_y=True)
    x = [f"k = {row['order']}, n = {row['n']}" for row in rows]
    for name, label, colour in (
        ("exact", "exact", BLUE),
        ("polynomial", "polynomial", GREEN),
        ("certificate", "its certificate", GREY),
        ("printed", "the brackets as printed", RED),
    ):
        y = [row[name] or None for row in rows]
        drawn.add_trace(go.Scatter(name=label, x=x, y=y, mode="markers", marker={"color": colour, "size": 10}))
    worst = max(row["exact"] for row in rows)
    text = (
        f"Differences from the definition by order: exact attention within {worst:.1g}, the polynomial method below "
        "its certificates, the formula with the printed brackets far off wherever d > 1."
    )
    return Drawing(drawn, text, columns_of(rows, "order", "n", "d", "exact", "polynomial", "certificate", "printed"))
