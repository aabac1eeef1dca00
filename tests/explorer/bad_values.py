"""Values that fields must refuse, derived from the declarations of the fields."""

from __future__ import annotations

from separatrix.explorer.fields import LONGEST, Field

NONSENSE = (
    "",
    " ",
    "nan",
    "inf",
    "-inf",
    "1e9999",
    "10^9999",
    "1e99999999999",
    "0x10",
    "1_000",
    "٣",
    "<b>",
    "'--",
    "1;2",
    "../x",
)


def bad_values(field: Field) -> list[str]:
    """Texts that `field` must refuse."""
    too_long = "1" * (LONGEST + 1)
    if field.choices:
        return [*NONSENSE, too_long, field.default.upper() + "?"]
    if field.scale is None:
        return [too_long]
    low, high = field.scale.low, field.scale.high
    below, above = (f"{low - 1:.17g}" if low < 2 else "1.5"), (f"{high * 10:.17g}" if high > 0 else "1")
    return [*NONSENSE, too_long, "1.0000000000000000001", below, above]
