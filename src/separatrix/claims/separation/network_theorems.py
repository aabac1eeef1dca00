"""Theorems about the networks of self-attention and cross-attention, declared as data.

Each says that one of the four events fails with probability at most delta / poly(n). The check requires delta / n, with
delta = 0.01, along the paths d(n) that the theorem allows, from some n on (see `growth`). The probabilities are exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import product

from separatrix.claims.ledger import CellResult, Claim, Erratum, Finding, Neighbour, Rank, Verdict, claim, typographical
from separatrix.claims.separation.growth import cells
from separatrix.claims.separation.row_lemmas import NARROW, bounded_a1
from separatrix.lab.cell import Cell
from separatrix.separation.paths import ALLOWED, DELTA, MODELS, power_of_ten, rare_from

ENOUGH, PRINTED, ONE_VECTOR = 4.0, 1.0, 0.0
"""C in m = C log(n / delta)."""
JUST_ENOUGH, JUST_TOO_FEW = 3.5, 3.4
"""Values of C above and below the least that suffices, 1 / log(4/3) = 3.48: a share of 1/4 of the sign vectors fires on
D1.
"""

WIDER = {
    "ones": ("n^0.1", "n^0.5"),
    "ones, least c": ("n^0.5",),
    "cross": ("n^0.1", "n^0.5"),
    "cross, least a1": ("n^0.5",),
}
"""Theorems D.9 and F.9 require d = omega(n^(4 a0 + 0.02)) and omega(n^(2 a0 + 0.02)), with a0 = 0.01 or 0.099."""

LESS_D = ("10", "log n")
"""Paths that no theorem allows: fixed d, and d of order log n."""
CORNERS = {
    "ones": ("ones, least b", "ones, least c"),
    "identity": ("identity, least a1",),
    "cross": ("cross, least a1", "cross, large a1"),
}
"""The models at corners of the ranges, by the model whose theorems include them."""


def network_cells(
    *models: str, paths: Mapping[str, Sequence[str]] = ALLOWED, widths: Sequence[float] = (ENOUGH, PRINTED, ONE_VECTOR)
) -> Callable[[], Iterator[Cell]]:
    """The cells of a theorem about these models: along allowed paths, including corners, and along two paths of smaller
    d.

    A model that `paths` does not name has the paths of `ALLOWED`.
    """

    def model_cells() -> Iterator[Cell]:
        for width in widths:
            for model in (*models, *CORNERS[models[0]]):
                yield from cells(model, paths.get(model, ALLOWED[model]), width)
        yield from cells(models[0], LESS_D, ENOUGH)

    return model_cells


def of_width(cells: Sequence[CellResult], width: float) -> list[CellResult]:
    """The cells along allowed paths with m = width log(n / delta)."""
    return [cell for cell in cells if cell.parameters.get("width") == width and cell.parameters["path"] not in LESS_D]


def on_path(cells: Sequence[CellResult], path: str) -> list[CellResult]:
    """The cells of networks along one path, or none if `path` is empty."""
    return [cell for cell in cells if cell.parameters["path"] == path and "width" in cell.parameters]


def rare_along(cells: Sequence[CellResult], part: str) -> tuple[dict[str, float | str], list[float | None]]:
    """Return, for each path, the n from which on `part` fails with probability at most delta / n."""
    reached = [rare_from(cell.result, part) for cell in cells]
    labels = [f"{cell.parameters['model']}, g = {cell.parameters['path']}" for cell in cells]
    numbers: dict[str, float | str] = {
        f"{label}: probability of failure <= delta / n from": power_of_ten(n)
        for label, n in zip(labels, reached, strict=True)
    }
    return numbers, reached


def judged(
    numbers: dict[str, float | str], reached: Sequence[float | None], shows: dict[str, bool], note: str
) -> Finding:
    if None in reached:
        return Finding(
            Verdict.FAILS_AS_PRINTED, numbers, "Along an allowed path the probability of failure stays larger."
        )
    return Finding(Verdict.HOLDS_ASYMPTOTICALLY, numbers, note, shows)


WIDTH = typographical(
    printed=r"$m = O(\log(n / \delta))$.",
    right=r"$m \ge C \log(n / \delta)$ with a constant that is large enough, which must be the intended meaning: $C "
    r"\ge 1 / \log(4/3) = 3.48$ (from the lemma's $1/10$ alone, $C \ge 9.5$ would be needed).",
    why=r"The value $m = 1$ is $O(\log(n / \delta))$, and then $F_{\text{exp}}$ is 0 with probability $3/4$ ($1/2$ "
    r"where $a_1$ is large); with $C = 1$ this probability is $(\delta / n)^{0.288}$, or $(\delta / n)^{0.693}$, "
    r"which is not $\delta / \text{poly}(n)$.",
    shown_by="m = log(n / delta) and m = 1 are too few",
)

BOUNDED_A1 = Erratum(
    printed=r"The data are those of Definition D.1, which allows every $a_1 \ge 0.7$.",
    right="The theorem needs $a_1 = O(1)$, as Theorem F.13 has it.",
    why=r"The proof of Lemma D.12 uses $a_1 = O(1)$. At $a_1 = \sqrt{n}$ about a quarter of the sign vectors make "
    r"$F_{\text{lin}}$ positive on $\mathcal{D}_1$ if $c > 0.45$, and about half of them if $c < 0.45$. So "
    r"$F_{\text{lin}} = 0$ has probability $(3/4)^m$ at $c = 0.8$, $10^{-5}$ at $n = 10^4$, $d = 102$, $m = 40$, and "
    "$(1/2)^m$ at $c = 0.2$.",
    rank=Rank.STATEMENT,
    slip="a_1 is not bounded",
    shown_by="at a_1 = sqrt(n) and c = 0.8 a quarter of the sign vectors fire on D1",
)
GROWING_A1 = Neighbour(r"with $a_1 = \sqrt{n}$, too", {"bounded": False})
_GROWING, _ = bounded_a1("ones", "n^0.5", "0.1", "")


def growing_a1_cells() -> Iterator[Cell]:
    """F_lin on D1 with a_1 = sqrt(n): all rows are equal, so one row determines how often the network fires."""
    return _GROWING.cells(NARROW)


def _log10_of_some(share: float, m: int) -> float:
    """log10 of the probability 1 - (1 - share)^m that at least one of m sign vectors fires.

    >>> _log10_of_some(0.0, 5), _log10_of_some(1.0, 5), _log10_of_some(1e-30, 10)
    (-inf, 0.0, -29.0)
    """
    some = 1.0 if share >= 1 else -math.expm1(m * math.log1p(-share))
    return math.log10(some) if some else -math.inf


def silence_with_growing_a1(cells: Sequence[CellResult]) -> tuple[dict[str, float | str], list[float | None], bool]:
    """Return whether the theorem holds with a_1 = sqrt(n), and whether a quarter of the sign vectors fire at the end of
    the path.

    In the cells c = 0.8. If a share p of the sign vectors fires, F_lin is positive with probability 1 - (1 - p)^m, with
    m = 4 log(n / delta).
    """
    numbers: dict[str, float | str] = {}
    reached: list[float | None] = []
    quarter = True
    for cell in _GROWING.of([cell for cell in cells if "reaches" in cell.result]):
        shares = [10**share for share in cell.result["reaches"]]
        widths = [math.ceil(ENOUGH * (k * math.log(10) - math.log(DELTA))) for k in cell.result["log10_n"]]
        failures = [_log10_of_some(p, m) for m, p in zip(widths, shares, strict=True)]
        reached.append(rare_from({"log10_n": cell.result["log10_n"], "part": failures}, "part"))
        quarter &= abs(shares[-1] - 0.25) < 1e-9
        numbers[f"a_1 = sqrt(n), g = {cell.parameters['path']}: share of sign vectors that fire, at the end"] = shares[
            -1
        ]
    return numbers, reached, quarter and bool(reached)


_FROM = "It holds as n grows: the table says from which n on, where g is d - 2 (d - 1 in cross-attention)."

CONTRADICT = "each of the two settings breaks one of the hypotheses"

TOO_FEW = (
    Neighbour(rf"with $m = {JUST_TOO_FEW} \log(n / \delta)$", {"width": JUST_TOO_FEW}),
    Neighbour(r"with $m = \log(n / \delta)$", {"width": PRINTED}),
    Neighbour("with $m = 1$", {"width": ONE_VECTOR}),
)
LESS = (
    Neighbour("with $d$ fixed, too", {"also": "10"}),
    Neighbour(r"with $d$ of order $\log n$, too", {"also": "log n"}),
)


def silent_share(model: str) -> Fraction:
    """The limiting share of sign vectors with F_exp = 0 on D1, where row j_3 has all of its weight on one key.

    Without the factor sqrt(log n), c_exp is then (a_1, b, c) in the columns of that key, and tau is c + 0.1; in
    cross-attention c_exp is (1, 1), and tau is 0.9.

    >>> silent_share("ones"), silent_share("ones, least c"), silent_share("cross")
    (Fraction(3, 4), Fraction(1, 2), Fraction(3, 4))
    """
    if model.startswith("cross"):
        row, tau = [Fraction(1), Fraction(1)], Fraction(9, 10)
    else:
        row = [Fraction(str(MODELS[model][name])) for name in ("a1", "b", "c")]
        tau = row[-1] + Fraction(1, 10)
    return share_at_most(row, tau)


def share_at_most(row: Sequence[Fraction], tau: Fraction) -> Fraction:
    """The share of sign vectors whose inner product with a row is at most tau, by enumeration.

    >>> share_at_most([Fraction(1), Fraction(1)], Fraction(1))
    Fraction(3, 4)
    """
    sums = [sum(s * x for s, x in zip(signs, row, strict=True)) for signs in product((1, -1), repeat=len(row))]
    return Fraction(sum(x <= tau for x in sums), len(sums))


def too_few(cells: Sequence[CellResult]) -> tuple[dict[str, float | str], bool]:
    """Return numbers about F_exp on D1 with m = 1 and m = log(n / delta), and whether both m are too small.

    With one sign vector the probability of failure at the end of a path must agree with the count of signs to 10^-9.
    """
    part = "exp_fires_on_d1"
    narrow = of_width(cells, PRINTED)
    single = {cell.parameters["model"]: 10 ** last(cell, part) for cell in of_width(cells, ONE_VECTOR)}
    counted = all(abs(chance - silent_share(model)) < 1e-9 for model, chance in single.items())
    numbers: dict[str, float | str] = {
        f"{model}: probability of failure with m = 1, {silent_share(model)} by counting signs": chance
        for model, chance in single.items()
    }
    powers = [last(cell, part) / (-2 - cell.result["log10_n"][-1]) for cell in narrow]
    numbers["its power of delta / n with C = 1, at the end of the paths"] = max(powers)
    return numbers, counted and all(rare_from(cell.result, part) is None for cell in narrow)


def fires(
    where: str, says: str, *models: str, more: Sequence[Erratum] = (), figures: Sequence[str] = (), home: str
) -> Claim:
    """Register a theorem that F_exp > 0 on D1."""

    @claim(
        where=where,
        says=says,
        cells=network_cells(*models, widths=(JUST_ENOUGH, JUST_TOO_FEW, PRINTED, ONE_VECTOR)),
        errata=(WIDTH, *more),
        figures=figures,
        neighbours=TOO_FEW,
        history=(
            r"Until 2026-11-17 $m$ was $4 \log(n / \delta)$, and the probability of failure with one sign vector had "
            "to be above 0.5. When extreme parameters were added for which this probability is 1/2, it had to be above "
            r"0.4. Since neighbours must be near, $m$ is $3.5 \log(n / \delta)$, and the probability must equal that "
            "computed by counting signs.",
        ),
        home=home,
    )
    def check(cells: Sequence[CellResult], width: float = JUST_ENOUGH) -> Finding:
        """Check the theorem with m = 3.5 log(n / delta); with 3.4 it is wrong, because 1/4 of the sign vectors fire."""
        numbers, reached = rare_along(of_width(cells, width), "exp_fires_on_d1")
        few, few_shows = too_few(cells)
        numbers |= few
        shows = {WIDTH.shown_by: few_shows}
        if more:
            left = {name for cell in cells for name in cell.result["broken"]}
            both = any("b + c = 1" in name for name in left) and any("b^2 + c^2 = 1" in name for name in left)
            shows[CONTRADICT] = both
        return judged(numbers, reached, shows, _FROM)

    return check


def silent(
    where: str,
    says: str,
    part: str,
    errata: Sequence[Erratum],
    shows_of: Callable[[Sequence[CellResult]], dict[str, bool]],
    *models: str,
    paths: Mapping[str, Sequence[str]] = ALLOWED,
    note: str = _FROM,
    home: str,
) -> Claim:
    """Register a theorem that a network is 0; the erratum `BOUNDED_A1` adds cells in which a_1 grows with n."""
    grows = BOUNDED_A1 in errata
    alone = network_cells(*models, paths=paths)

    @claim(
        where=where,
        says=says,
        cells=(lambda: (*alone(), *growing_a1_cells())) if grows else alone,
        errata=tuple(errata),
        neighbours=(*LESS, GROWING_A1) if grows else LESS,
        home=home,
    )
    def check(cells: Sequence[CellResult], also: str = "", bounded: bool = True) -> Finding:
        relevant = of_width(cells, ENOUGH) + on_path(cells, also)
        numbers, reached = rare_along(relevant, part)
        shows = shows_of(cells)
        if grows:
            growing, unbounded, shows[BOUNDED_A1.shown_by] = silence_with_growing_a1(cells)
            numbers |= growing
            reached += [] if bounded else unbounded
        return judged(numbers, reached, shows, note)

    return check


def last(cell: CellResult, part: str) -> float:
    return float(cell.result[part][-1])


def fires_there(cells: Sequence[CellResult]) -> dict[str, bool]:
    """Whether the probability of the printed statement, that the network is 0 on D1, is negligible."""
    return {
        "on D1 F_exp = 0 has probability below 10^-15": all(
            last(x, "exp_fires_on_d1") < -15 for x in of_width(cells, ENOUGH)
        )
    }


_UNLIKE = "F_exp on D1 fires on a tenth of the sign vectors, this network on less than 10^-6"


def unlike(part: str) -> Callable[[Sequence[CellResult]], dict[str, bool]]:
    """Whether the cited lemma is about another network, which fires on a tenth of the sign vectors; this one rarely
    does.
    """

    def is_shown(cells: Sequence[CellResult]) -> dict[str, bool]:
        single = of_width(cells, ONE_VECTOR)
        rare = all(last(cell, part) < -6 for cell in single)
        common = all(1 - 10 ** last(cell, "exp_fires_on_d1") >= 0.1 for cell in single)
        return {_UNLIKE: rare and common}

    return is_shown


def cites_wrongly(printed: str, right: str) -> Erratum:
    return typographical(
        printed=f"The proof follows from {printed}.",
        right=f"It follows from {right}.",
        why=f"{printed} says that "
        r"$c_{\text{exp}}$ on $\mathcal{D}_1$ exceeds $\tau$ with probability at least $1/10$.",
        slip="reference to Lemma D.4 or F.4",
        shown_by=_UNLIKE,
    )


WRONG_SET = typographical(
    printed=r"For any $\lbrace A_1, A_2, A_3 \rbrace$ from $\mathcal{D}_1$, $F_{\text{exp}} = 0$.",
    right=r"From $\mathcal{D}_0$.",
    why=r"On $\mathcal{D}_1$ the preceding theorem gives $F_{\text{exp}} > 0$.",
    slip="D1 for D0",
    shown_by="on D1 F_exp = 0 has probability below 10^-15",
)

NOT_SHARP = f"{_FROM} The claim about paths says which d is really needed."
