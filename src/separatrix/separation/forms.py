r"""Linear combinations of products of powers and exponentials, and their exact sign.

With L = sqrt(log n), whether a mechanism fires is decided by the sign of a finite sum

    v = sum_i q_i L^{p_i} E_i,     q_i rational, p_i an integer, E_i one of the factors below,

where a factor is 1, an exponential exp(e L^r) with e rational, or a number without a closed form (the kernel of random
features). `radicals` covers the case of softmax attention on the paper's data; other mechanisms need more. If terms
that are formally equal cancel, v is zero. For r = 2 the converse holds too: exp(e L^2) = n^e is algebraic and L is
transcendental (Lindemann), so v is zero only if the sum at each power of L is, which is decided as in `radicals`. In
all other cases the number of digits is doubled until v differs from zero by more than its error; if 1280 digits do not
suffice, an error is raised.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from fractions import Fraction
from typing import Protocol

from separatrix.errors import SeparatrixError
from separatrix.separation.radicals import primitive_root

DIGITS, _MOST_DIGITS = 80, 1280


class Factor(Protocol):
    """A positive number that depends only on L."""

    def value(self, L: Decimal) -> Decimal:
        """The value of the factor in the current decimal context, correct to at least half of the context's digits."""

    def __hash__(self) -> int: ...


@dataclass(frozen=True)
class Exponential:
    """The factor exp(e L^r); with e = 0 it is 1 for every r."""

    e: Fraction
    r: int = 2

    def value(self, L: Decimal) -> Decimal:
        return (Decimal(self.e.numerator) / self.e.denominator * L**self.r).exp()


ONE = Exponential(Fraction(0))

Form = Mapping[tuple[int, Factor], Fraction]
"""A sum of terms q L^p E, stored as a mapping from (p, E) to the coefficient q."""


def times(form: Form, q: Fraction, p: int = 0) -> dict[tuple[int, Factor], Fraction]:
    """The form multiplied by q L^p.

    >>> times({(1, ONE): Fraction(3)}, Fraction(2), 4)
    {(5, Exponential(e=Fraction(0, 1), r=2)): Fraction(6, 1)}
    """
    return {(power + p, factor): q * coefficient for (power, factor), coefficient in form.items()} if q else {}


def evaluate(n: int, forms: list[Form], digits: int = DIGITS) -> list[tuple[Decimal, Decimal]]:
    """The value of each form, and the sum of the magnitudes of its terms.

    Args:
        n: the number of tokens, which determines L.
        forms: the forms.
        digits: how many digits to compute with; half of them are correct in every term.

    Example:
        >>> [(value, _)] = evaluate(7, [{(0, Exponential(Fraction(1))): Fraction(1), (0, ONE): Fraction(-7)}])
        >>> abs(value) < Decimal(10) ** -70  # exp(log 7) - 7
        True
    """
    with localcontext(_context(digits)):
        L = Decimal(n).ln().sqrt()
        factors = {factor for form in forms for _, factor in form}
        known = {factor: factor.value(L) for factor in factors}
        products = []
        for form in forms:
            terms = [Decimal(q.numerator) / q.denominator * L**p * known[E] for (p, E), q in form.items()]
            products.append((sum(terms, Decimal(0)), sum(map(abs, terms), Decimal(0))))
        return products


def ratio(numerator: Decimal, denominator: Decimal) -> Decimal:
    """The quotient of two numbers, in a context whose exponents are large enough for any result."""
    return _context(DIGITS).divide(numerator, denominator)


def _context(digits: int) -> Context:
    return Context(prec=digits, Emax=MAX_EMAX, Emin=MIN_EMIN)


def sign(n: int, form: Form) -> int:
    """The sign (-1, 0, 1) of a form, for an integer n >= 2.

    Raises:
        SeparatrixError: if 1280 digits do not distinguish the value from zero, and nothing proves that it is zero.

    Example:
        >>> half = Exponential(Fraction(1, 2))
        >>> sign(9, {(1, half): Fraction(1), (1, ONE): Fraction(-3)})  # L (sqrt(9) - 3)
        0
        >>> sign(10, {(1, half): Fraction(1), (1, ONE): Fraction(-3)})
        1
    """
    if _is_zero(n, form):
        return 0
    digits = DIGITS
    while digits <= _MOST_DIGITS:
        [(value, magnitude)] = evaluate(n, [form], digits)
        if _context(digits).compare(abs(value), magnitude.scaleb(-(digits // 2))) > 0:
            return 1 if value > 0 else -1
        digits *= 2
    raise SeparatrixError(f"At n = {n} a sum is zero to {_MOST_DIGITS} digits, and no theorem says whether it is zero.")


def _is_zero(n: int, form: Form) -> bool:
    root, power = primitive_root(n)
    parts: dict[object, Fraction] = defaultdict(Fraction)
    for (p, factor), q in form.items():
        if isinstance(factor, Exponential) and (factor.r == 2 or not factor.e):
            integer, rest = divmod(power * factor.e, 1)
            parts[p, rest] += q * Fraction(root) ** int(integer)
        else:
            parts[p, factor] += q
    return not any(parts.values())
