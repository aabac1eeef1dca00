"""Lemmas 4.1 and 4.2 of Deng, Song, Yuan and Zhou: the sums of softmax regression with random signs."""

from __future__ import annotations

import math

from separatrix.report.charts import Axis, Bound, Chart, Curve, Curves
from separatrix.report.tables import Results
from separatrix.report.theme import BLUE, GREEN, ORANGE, RED


@Curves(
    series=(
        Curve("enough_d1", "enough for all data, D<sub>1</sub>", GREEN),
        Curve("enough_d0", "enough for all data, D<sub>0</sub>", BLUE),
        Curve("too_small_d1", "too small for equal data, D<sub>1</sub>", ORANGE),
        Curve("too_small_d0", "too small for equal data, D<sub>0</sub>", RED),
    ),
    x=Axis(
        "log<sub>10</sub> n",
        "log10_n",
        log=True,
        range=(math.log10(0.28), math.log10(110)),
        ticks=(0.3, 1, 2, 4, 10, 20, 50, 100),
    ),
    y=Axis("C", range=(0.5, 2.1)),
    bound=Bound("√2", lambda log10_n: math.sqrt(2)),
    height=460,
    columns=("log10_n", "enough_d0", "enough_d1", "too_small_d0", "too_small_d1"),
)
def regression_sums(results: Results) -> Chart:
    """Lemmas 4.1 and 4.2: the constants C that are too small, and those that are enough for all data."""
    rows = [
        {
            "log10_n": cell.result["log10_n"],
            **{f"{name}_d{data}": cell.result[name][data] for name in ("enough", "too_small") for data in (0, 1)},
        }
        for cell in results
        if "too_small" in cell.result
    ]
    return sorted(rows, key=lambda row: float(row["log10_n"])), (
        "Constants C of Lemmas 4.1 and 4.2 for linear attention against log n. The C that Hoeffding's inequality shows "
        "to be enough for all data is below 2 at every n. The C that is too small, as equal data exceed the bound with "
        "a probability above delta / n, grows to the square root of 2."
    )
