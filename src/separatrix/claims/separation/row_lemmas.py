"""Lemmas about one row and one random sign vector, declared as data.

For "with probability 1 - delta / poly(n)" the check requires that the complement has probability at most delta / n from
some n on, along the paths d(n) that the lemma allows, with delta = 0.01. The probabilities are exact (see
`separatrix.separation.row_events`). By symmetry |x| >= tau is twice as likely as x >= tau.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal

from separatrix.claims.ledger import CellResult, Claim, Erratum, Finding, Interval, Neighbour, Rank, Verdict, claim
from separatrix.claims.misprint_pairs import as_printed
from separatrix.claims.separation.entry_lemmas import Lemma, judged
from separatrix.lab.cell import Cell
from separatrix.lab.registry import experiment
from separatrix.separation.extended import log10
from separatrix.separation.paths import DELTA, MODELS, classes, parameter, power_of_ten
from separatrix.separation.row_events import OneRow, one_row

_EXPONENTS = (2, 4, 8, 12, 16, 20, 30, 40, 60, 80, 100, 120, 160, 200)

_SMALL = "10"
"""The path of fixed d, up to n = 100 only, which is about the size of the paper's experiments."""

_LOG = "log n"
"""A path that no lemma allows, with d of order log n."""

LESS_D = (_SMALL, _LOG)
"""The paths that no lemma allows."""

OFTEN = 0.1
"""The lower bound in the lemmas for a probability that is not small."""

Kind = Literal["often", "a tenth", "rarely", "rarely in size", "near its centre", "near +c"]


@experiment(version=2, name="separation.row")
def row_chances(model: str, network: str, a: str, row: str, margin: str, path: str, seed: int) -> dict[str, list[Any]]:
    """Return log10 n, g, and log10 P[<c_j0, sigma> >= tau] for one kind of row along a path, with tau = c + margin.

    `off_centre` and `off_printed` are log10 P[|<c_j0, sigma> - s c| > margin], with s the last sign, or +1 as printed;
    in cross-attention there is no c. `a` is a number or a power of n. The computation is deterministic.
    """
    columns: dict[str, list[Any]] = {name: [] for name in ("log10_n", "g", "reaches", "off_centre", "off_printed")}
    values = {name: MODELS[model][name] for name in ("b", "c") if name in MODELS[model]}
    c = Fraction(values.get("c", 0))
    for k in _EXPONENTS[: 1 if path == _SMALL else None]:
        g = classes(path, k)
        if g > 10**6 and k > 16:
            break
        if g < 2:
            continue
        n = -(-(10**k) // g) * g

        def chances(tau: Fraction, n: int = n, g: int = g) -> OneRow:
            value = str(parameter(a, n))
            return one_row(model.partition(",")[0], network, row, n=n, g=g, a=value, tau=str(tau), **values)

        above, below = chances(c + Fraction(margin)), chances(c - Fraction(margin))
        centred = (2 * above.exceeds(last=1), above.exceeds() + 1 - below.reaches()) if c else (0, 0)
        row_values = (math.log10(n), g, log10(above.reaches()), *(log10(x) for x in centred))
        for column, value in zip(columns.values(), row_values, strict=True):
            column.append(value)
    return columns


@dataclass(frozen=True)
class Statement:
    """One part of a lemma: a row of a network, an event, and a bound on its probability.

    `paths` are the paths that the part allows, if they differ from the lemma's: at an a_0 near 0.1, d must grow faster.
    """

    part: str
    model: str
    network: Literal["exp", "lin"]
    a: str
    row: str
    margin: str
    kind: Kind
    paths: tuple[str, ...] = ()

    def cells(self, paths: Sequence[str]) -> Iterator[Cell]:
        about = {name: getattr(self, name) for name in ("model", "network", "a", "row", "margin")}
        for path in (*(self.paths or paths), *LESS_D):
            yield row_chances.cell(seed=0, path=path, **about)

    def of(self, cells: Sequence[CellResult], path: str = "") -> list[CellResult]:
        """The cells of this statement, along the paths that it allows or along the given path."""
        about = ("model", "network", "a", "row", "margin")
        mine = [cell for cell in cells if all(cell.parameters[name] == getattr(self, name) for name in about)]
        if path:
            return [cell for cell in mine if cell.parameters["path"] == path]
        return [cell for cell in mine if cell.parameters["path"] not in LESS_D]

    def chance(self, result: Mapping[str, Any]) -> list[float]:
        """log10 of the probability that should be large (for "often" and "a tenth") or small, at each point."""
        if self.kind in ("near its centre", "near +c"):
            return list(result["off_centre" if self.kind == "near its centre" else "off_printed"])
        twice = math.log10(2) if self.kind == "rarely in size" else 0.0
        return [x + twice for x in result["reaches"]]

    def holds_from(self, result: Mapping[str, Any], often: float = OFTEN, turned: bool = False) -> float | None:
        """log10 of the n from which on the statement holds along a path; None if it fails at the end of the path.

        "Often" means a probability of at least `often`. With `turned`, statements about rare events claim frequent
        ones.
        """
        reached = None
        for log10_n, chance in zip(result["log10_n"], self.chance(result), strict=True):
            if self.kind == "often" or (turned and self.kind != "a tenth"):
                good = chance >= math.log10(often)
            elif self.kind == "a tenth":
                good = abs(10**chance - 0.1) < 1e-9
            else:
                good = chance <= math.log10(DELTA) - log10_n
            reached = (log10_n if reached is None else reached) if good else None
        return reached


_BARE = ("n^0.5",)
"""The path on which the sum is compared with c without a margin: its magnitude exceeds c with probability one half."""

_ANY_BOUND = (
    "As n grows, the lemma is true with any constant in place of 0.5, because the sum is of the order of d^(-1/2), "
    "up to logarithms. So another constant gives no wrong neighbour."
)

AS_N_GROWS = (
    "The lemma holds for large n. The table lists from which n on, where g is d - 2 (d - 1 in cross-attention), and "
    "the probabilities at about the size of the paper's experiments, where they are not small."
)


def row_lemma(
    where: str,
    says: str,
    paths: Sequence[str],
    statements: Sequence[Statement],
    slips: Sequence[tuple[Statement, Erratum]] = (),
    note: str = "",
    cited: tuple[Lemma, Callable[[str], Iterator[Cell]]] | None = None,
    *,
    home: str,
) -> Claim:
    """Register a lemma as a claim: its statements must hold along all paths, and its misprints along none.

    `cited` holds the lemma on entries that the proof should have cited, with its erratum, and the function that returns
    its cells.
    """
    all_statements = (*statements, *(statement for statement, _ in slips))
    neighbours = [Neighbour("already at $n = 100$ and $g = 10$", {"small_too": True})]
    if any(statement.kind == "often" for statement in statements):
        neighbours.append(Neighbour("with probability at least 0.26 where 1/10 is printed", {"often": 0.26}))
    if any(statement.kind != "often" for statement in statements):
        neighbours.append(Neighbour(r"with $d$ of order $\log n$, too", {"also": _LOG}))
        turned = r"with probability at least $1/10$ where at most $\delta / \text{poly}(n)$ is meant"
        neighbours.append(Neighbour(turned, {"turned": True}))
    small = [statement for statement in statements if statement.kind == "rarely in size"]
    bare = [replace(statement, margin="0", paths=_BARE) for statement in small[:1] if "c" in MODELS[statement.model]]
    if bare:
        neighbours.append(Neighbour(r"with $c \sqrt{\log n}$ for $(c + 0.1) \sqrt{\log n}$", {"beside": True}))
    elif small:
        note = note or f"{AS_N_GROWS} {_ANY_BOUND}"
    neighbours += as_printed([erratum for _, erratum in slips])
    errata = [erratum for _, erratum in slips] + [*(cited[0].errata if cited else ())]

    @claim(
        where=where,
        says=says,
        cells=lambda: (
            *dict.fromkeys(cell for statement in (*all_statements, *bare) for cell in statement.cells(paths)),
            *(cited[1](where) if cited else ()),
        ),
        errata=errata,
        figures=("row_chances",),
        neighbours=neighbours,
        home=home,
    )
    def check(
        cells: Sequence[CellResult],
        often: float = OFTEN,
        turned: bool = False,
        small_too: bool = False,
        also: str = "",
        beside: bool = False,
        misprint: str = "",
    ) -> Finding:
        numbers: dict[str, float | str | Interval] = {}
        good = True
        entries = [cell for cell in cells if "slips" in cell.result]
        cells = [cell for cell in cells if "reaches" in cell.result]
        printed = [statement for statement, erratum in slips if erratum.shown_by == misprint]
        for statement in (*statements, *(bare if beside else ()), *printed):
            model = "" if statement.model in _PLAIN else f"{statement.model}, "
            label = f"Part {statement.part}, {model}a = {statement.a}, row {statement.row}, {statement.kind}"
            reached = [statement.holds_from(cell.result, often, turned) for cell in statement.of(cells)]
            paths_text = ", ".join(
                f"g = {cell.parameters['path']}: {power_of_ten(n)}"
                for cell, n in zip(statement.of(cells), reached, strict=True)
            )
            numbers[f"{label}: holds from"] = paths_text
            (small,) = statement.of(cells, _SMALL)
            numbers[f"{label}: probability at n = 100, g = 10"] = 10 ** statement.chance(small.result)[0]
            beyond = (
                [statement.holds_from(cell.result, often, turned) for cell in statement.of(cells, also)] if also else []
            )
            good &= None not in (*reached, *beyond)
            good &= not (small_too and statement.holds_from(small.result) is None)
        shows: dict[str, bool] = {}
        if cited:
            about = judged(cited[0], entries)
            numbers |= about.numbers
            if about.verdict is Verdict.UNDECIDED:
                return about
            good &= about.verdict is Verdict.HOLDS
            shows |= about.shows
        for statement, erratum in slips:
            shows[erratum.shown_by] = all(statement.holds_from(cell.result) is None for cell in statement.of(cells))
            last = max(10 ** statement.chance(cell.result)[-1] for cell in statement.of(cells))
            numbers[f"what is printed, {erratum.shown_by}: probability at the end of the paths"] = last
        if not good:
            why = (
                "Along an allowed path some part does not hold for large n, or an entry contradicts what the "
                "proof cites."
            )
            return Finding(Verdict.FAILS_AS_PRINTED, numbers, why)
        return Finding(Verdict.HOLDS_ASYMPTOTICALLY, numbers, note or AS_N_GROWS, shows)

    return check


_PLAIN = ("ones", "identity", "cross")
NARROW, WIDE = ("n^0.03", "n^0.1", "n^0.5"), ("n^0.1", "n^0.5")
LEAST_D = ("n^0.5",)
"""The path for an a_0 near 0.1, where Lemma D.8 requires d = omega(n^(4 a_0 + 0.02)), and Lemma F.8 d = omega(n^(2 a_0
+ 0.02)).
"""
LARGE_B = ("n^0.98",)
"""The path for b = 20/29, where Lemma E.3 requires d = omega(n^(2 b^2 + 0.02)), with an exponent of 0.971."""

_CENTRE = Erratum(
    rank=Rank.PROOF,
    shown_by="a sum near +c",
    printed=r"$\lvert \langle c_{j_0}, \sigma \rangle - c \sqrt{\log n} \rvert \le 0.1 \sqrt{\log n}$ with high "
    "probability.",
    right=r"$\lvert \langle c_{j_0}, \sigma \rangle - \sigma_d c \sqrt{\log n} \rvert$ on the left.",
    why=r"$\sigma_d$ is $-1$ half of the time, and then the left side is about $2 c \sqrt{\log n}$.",
)


def bounded_a1(model: str, grows: str, margin: str, consequence: str) -> tuple[Statement, Erratum]:
    """The erratum that a lemma on F_lin and D1 needs a_1 = O(1), shown at an a_1 that is a power of n."""
    place, least = ("F.1", "> 1") if model == "cross" else ("D.1", r"\ge 0.7")
    return Statement("1", model, "lin", grows, "special", margin, "rarely in size"), Erratum(
        rank=Rank.STATEMENT,
        slip="a_1 is not bounded",
        shown_by=f"the lemma at a_1 = {grows}",
        printed=f"The data are those of Definition {place}, which allows every $a_1 {least}$.",
        right="The lemma needs $a_1 = O(1)$, as Theorem F.13 has it.",
        why=f"The proof uses $a_1 = O(1)$. {consequence}",
    )


def both_rows(
    model: str, network: Any, a: str, margin: str, kind: Kind, paths: tuple[str, ...] = ()
) -> tuple[Statement, ...]:
    rows = (("1", "special"), ("2", "other"))
    return tuple(Statement(part, model, network, a, row, margin, kind, paths) for part, row in rows)


def _cornered(corners: Sequence[tuple[str, str, str]], network: Any, data: int, margin: str) -> tuple[Statement, ...]:
    """The statements about both rows at corners, along all paths that are allowed there: only the steepest one for
    c_exp and an a_0 near 0.1.
    """
    return tuple(
        statement
        for model, a0, a1 in corners
        for statement in both_rows(
            model,
            network,
            a1 if data else a0,
            margin,
            "rarely in size",
            LEAST_D if network == "exp" and a0 == "99/1000" else NARROW,
        )
    )


def at_corners(network: Any, data: int) -> tuple[Statement, ...]:
    """The statements of Section D that both rows are rarely above c + 0.1, at two corners of Definition D.1."""
    corners = (("ones, least b", "1/1000", "0.7"), ("ones, least c", "99/1000", "10"))
    return _cornered(corners, network, data, "0.1")


def at_cross_corners(network: Any, data: int) -> tuple[Statement, ...]:
    """The statements of Section F that both rows are rarely above 0.5, at two corners of Definition F.1."""
    corners = (("cross, large a1", "1/1000", "10"), ("cross, least a1", "99/1000", "1001/1000"))
    return _cornered(corners, network, data, "0.5")


def off_centre(network: Any, a: str) -> tuple[Statement, Erratum]:
    return Statement("2", "ones", network, a, "other", "0.1", "near +c"), _CENTRE


SIZE = (
    r"$\lvert \langle c_{j_0}, \sigma \rangle \rvert < (c + 0.1) \sqrt{\log n}$ with probability "
    r"$1 - \delta / \text{poly}(n)$, in every row"
)
