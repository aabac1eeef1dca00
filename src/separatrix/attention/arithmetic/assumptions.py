"""The assumptions of the certificates about floating-point arithmetic: each is a number and a sentence.

Errors are relative and in units u, half the distance from 1 to the next number of a dtype: a correctly rounded result
has an error of at most 1 u. `measured` measures the errors on a machine; docs/derivations/assumptions.md says where
each assumption enters a proof.
"""

from __future__ import annotations

from dataclasses import dataclass

ROUNDED = 1.0
"""The error of sums, products and quotients."""
CONVERTED = 1.01
"""The error of converting a float64 output to another dtype; float16 and bfloat16 are rounded to float32 first."""
EXP = 4.0
"""The error of the exponential, where it is a normal number."""
LOG = 4.0
"""The error of the natural logarithm, relative to 1 + |log x|."""
POWER = 4.0
"""The error of x^k and x^(1/k), including square roots, from which l_k norms are computed."""
BOUNDS = 1024.0
"""The error of the float64 functions that compute bounds: a thousandth of the slack of the bounds."""
PRODUCT = 1.0
"""The error of a sum of n products, as a fraction of gamma_n = n u / (1 - n u) times the sum of the magnitudes."""


@dataclass(frozen=True)
class Assumption:
    """An assumption: the measured error must not exceed `limit`, in the unit named in the statement."""

    name: str
    limit: float
    statement: str


ASSUMPTIONS = (
    Assumption("modes", 0, "No thread flushes subnormal numbers to zero, or rounds otherwise than to nearest."),
    Assumption(
        "not finite",
        0,
        "Overflow and invalid operations return infinity or NaN, which the tests for finiteness detect.",
    ),
    Assumption("operations", ROUNDED, "A sum, a product or a quotient has an error of at most 1 u."),
    Assumption(
        "conversions",
        CONVERTED,
        "A float64 number converted to another type has an error of at most 1.01 u of that type.",
    ),
    Assumption(
        "exp",
        EXP,
        "exp(x) has an error of at most 4 u; where it underflows, the result is at most the smallest normal number.",
    ),
    Assumption("log", LOG, "log(x) has an error of at most 4 u (1 + |log(x)|)."),
    Assumption("powers", POWER, "x^k, x^(1/k), k from 2 to 8, and sqrt(x) have an error of at most 4 u."),
    Assumption(
        "bounds",
        BOUNDS,
        "The functions that compute bounds in float64 (exp, expm1, log2 and powers) have an error of at most 1024 u.",
    ),
    Assumption(
        "products", PRODUCT, "An entry of a matrix product A B over n terms has an error of at most gamma_n of |A| |B|."
    ),
)
