"""A claim: what a paper says, the cells that bear on it, and the check that turns their results into a verdict.

A module of claims reads::

    @experiment(version=1)
    def lemma_9(n: int, seed: int) -> dict[str, float]: ...

    @claim(
        where="Lemma 9",
        says="The sum of ... is at most n^2.",
        cells=cell_grid(lemma_9, {"n": (8, 16)}),
        figures=("lemma_9_sums",),
        neighbours=(Neighbour("at most n", {"power": 1}),),
    )
    def lemma_9_holds(cells: Sequence[CellResult], power: int = 2) -> Finding:
        worst = max(cell.result["sum"] / cell.parameters["n"] ** power for cell in cells)
        return holds_if(worst <= 1, {"largest sum / bound": worst})

A check is a function of the results of its cells and of the constants of the statement, which are its other arguments.
A neighbour is a false statement with other constants. The check must reject it on the same evidence; otherwise the
evidence is too weak to distinguish the two, and the claim is undecided.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from difflib import get_close_matches
from enum import StrEnum
from functools import partial
from typing import Any, Literal

from separatrix.checks import one_of
from separatrix.claims import PAPERS
from separatrix.errors import ArgumentError
from separatrix.lab.cell import Cell

Profile = Literal["quick", "full"]


class Verdict(StrEnum):
    """The verdict on a claim.

    A statement that holds has two independent attributes: whether it holds at every size or only asymptotically, and
    whether errata correct what is printed (`is_corrected`).
    """

    PROVED = "proved"
    DEFINED = "defined here"
    HOLDS = "holds"
    HOLDS_CORRECTED = "holds corrected"
    HOLDS_ASYMPTOTICALLY = "holds asymptotically"
    HOLDS_ASYMPTOTICALLY_CORRECTED = "holds asymptotically when corrected"
    FAILS_AS_PRINTED = "fails as printed"
    NOT_REPRODUCED = "not reproduced"
    ILLUSTRATED = "illustrated"
    UNDECIDED = "undecided"
    NOT_RUN = "not run here"

    @property
    def is_corrected(self) -> bool:
        """Whether the verdict is on a corrected statement, which differs from the printed one."""
        return self in _CORRECTED.values()


MEANINGS: Mapping[Verdict, str] = {
    Verdict.PROVED: "The documents prove the statement in a few lines, and an exact or exhaustive computation "
    "agrees with it.",
    Verdict.DEFINED: "The statement is a definition, which is neither true nor false. Code of the library agrees "
    "with the printed formula, and differs from its wrong neighbours.",
    Verdict.HOLDS: "The printed statement passes the check, and the wrong neighbours that are named with it do not.",
    Verdict.HOLDS_CORRECTED: "The printed text has a misprint, which the check shows; the corrected statement "
    "passes the check at every size that we looked at.",
    Verdict.HOLDS_ASYMPTOTICALLY: "The statement holds from some size on, or in the limit, but not at every size "
    "that we looked at.",
    Verdict.HOLDS_ASYMPTOTICALLY_CORRECTED: "The printed text has a misprint, which the check shows; the corrected "
    "statement holds from some size on, or in the limit, but not at every size that we looked at.",
    Verdict.FAILS_AS_PRINTED: "The check finds a case that contradicts the printed statement.",
    Verdict.NOT_REPRODUCED: "The printed result is not reproduced with the settings that we chose because the paper "
    "does not print them; the claim lists these settings, and we varied them. Other settings may reproduce it, so this "
    "is not a misprint.",
    Verdict.ILLUSTRATED: "No program can decide the statement; the claim says what was run to illustrate it.",
    Verdict.UNDECIDED: "Everything that the claim needs has been run, and the evidence does not decide it: a "
    "confidence interval includes zero, or a wrong neighbour passes the check as well, or a run failed. The note of "
    "the claim says which.",
    Verdict.NOT_RUN: "The runs that the claim needs are not in this folder of results; after a quick run, those of the "
    "full profile are missing. The recorded verdict is shown, with the date of the runs for a claim of the full "
    "profile.",
}
"""What each verdict means, for every page that shows verdicts."""


@dataclass(frozen=True)
class Interval:
    """An estimate with its confidence interval.

    >>> str(Interval(0.5, 0.4, 0.6, confidence=0.99))
    '0.5 (0.4 to 0.6 at 99%)'
    """

    value: float
    low: float
    high: float
    confidence: float

    def __post_init__(self) -> None:
        if not (self.low <= self.value <= self.high and 0 < self.confidence < 1):
            raise ValueError(f"{self!r} is not an interval around its value at a confidence between 0 and 1")

    def __str__(self) -> str:
        return (
            f"{self.value:.6g} ({self.low:.6g} to {self.high:.6g} at {self.confidence:.6%}".rstrip("0%").rstrip(".")
            + "%)"
        )


class Rank(StrEnum):
    """The rank of an erratum, the most important first."""

    STATEMENT = "changes a statement"
    PROOF = "repairs a proof"
    TYPOGRAPHICAL = "typographical"


RANKS: Mapping[Rank, str] = {
    Rank.STATEMENT: "Once it is corrected, a theorem, a lemma, a definition or a caption says something else: it "
    "has another hypothesis, constant or rate.",
    Rank.PROOF: "A step of a proof is wrong or missing; the statement remains true.",
    Rank.TYPOGRAPHICAL: "A letter, an index, a sign, a shape or a reference is wrong, and the surrounding text makes "
    "the intended meaning plain.",
}
"""What each rank means, for every page that shows errata."""


@dataclass(frozen=True)
class Erratum:
    """A misprint: the printed text, the correction, the reason, and the evidence.

    `shown_by` names an entry of the `shows` of the claim's finding: whether the cells contradict what is printed.
    `rank` says how much it matters. `at` is the place where it is printed, such as an equation or a step of a proof, if
    that is not the claim's own. Errata of one paper with the same `slip` are one slip that the paper repeats, and so
    are errata with equal `printed` and `right`: they are counted once.
    """

    printed: str
    right: str
    why: str
    shown_by: str
    _: KW_ONLY
    rank: Rank
    at: str = ""
    slip: str = ""


typographical = partial(Erratum, rank=Rank.TYPOGRAPHICAL)
"""Make an `Erratum` of the lowest rank."""


@dataclass(frozen=True)
class Neighbour:
    """A false statement close to the claim: what it says instead, and the arguments of the check that express it.

    The check must reject it on the evidence on which it accepts the claim.
    """

    says: str
    constants: Mapping[str, Any]


@dataclass(frozen=True)
class CellResult:
    """The result of one cell of a claim, with its parameters and its seed; arrays are loaded.

    `seconds` is the running time: a figure may draw it, but checks never receive it.
    """

    parameters: Mapping[str, Any]
    seed: int
    result: Mapping[str, Any]
    seconds: float | None = None


@dataclass(frozen=True)
class Finding:
    """A verdict with its evidence: numbers by name, and a note where they need an explanation.

    A check judges the corrected statement; `shows` says, for each misprint, whether its cells contradict the printed
    text.

    `comparable` is False for a claim on data that differ between machines, if the recorded verdict rests on other data.
    """

    verdict: Verdict
    numbers: Mapping[str, float | str | Interval] = field(default_factory=dict)
    note: str = ""
    shows: Mapping[str, bool] = field(default_factory=dict)
    comparable: bool = True


def holds_if(
    passed: bool,
    numbers: Mapping[str, float | str | Interval],
    note: str = "",
    *,
    shows: Mapping[str, bool] | None = None,
) -> Finding:
    """The finding of a check that can only pass or fail.

    >>> holds_if(2 + 2 == 4, {"sum": 4}).verdict.value
    'holds'
    """
    return Finding(Verdict.HOLDS if passed else Verdict.FAILS_AS_PRINTED, numbers, note, shows or {})


@dataclass(frozen=True)
class Claim:
    """One checkable statement of a paper.

    `says` is in our own words. `profile` is the smallest profile that runs its cells. `figures` are the names of its
    figures in the report. `check` judges the corrected statement, `judged` the printed one; `errata` are the misprints
    by which the two differ. `home` is the module, named after the place, that declares the claim.

    `neighbours` are wrong statements that the check rejects; `alone` says why there are none. `proof` is the heading of
    the proof in the documents, if there is one. `defines` lists the full names of the library's objects that implement
    a definition. `chosen` are the settings that the paper does not print: the values that we chose, and how they were
    varied. `history` are the earlier rules of the check that were changed after results had been seen, the oldest
    first: what the rule was, and why it was changed.
    """

    id: str
    paper: str
    where: str
    says: str
    profile: Profile
    cells: Callable[[], Iterable[Cell]]
    check: Callable[..., Finding]
    figures: tuple[str, ...]
    errata: tuple[Erratum, ...]
    home: str
    neighbours: tuple[Neighbour, ...] = ()
    alone: str = ""
    proof: str = ""
    chosen: tuple[str, ...] = ()
    defines: tuple[str, ...] = ()
    history: tuple[str, ...] = ()

    def judged(self, cells: Sequence[CellResult]) -> Finding:
        """Judge the printed statement, by the check of the corrected one and by the errata.

        If the check passes or illustrates, the cells must show every misprint; otherwise the claim is undecided. If the
        check passes and there are errata, the verdict is a corrected one, which still says whether the claim holds only
        asymptotically. Without errata, a claim that holds is `defined here` or `proved` if its declaration says so. If
        the check fails or is undecided, so is the claim. A claim that the check accepts is undecided if the check also
        accepts a wrong neighbour on the same evidence.
        """
        finding = self.check(cells)
        names = {erratum.shown_by for erratum in self.errata}
        if finding.verdict.is_corrected or finding.verdict in (Verdict.PROVED, Verdict.DEFINED):
            raise TypeError(f"claim {self.id}: a check holds or fails; errata and a proof say whether it is corrected")
        if finding.verdict is Verdict.NOT_REPRODUCED and not self.chosen:
            raise TypeError(f"claim {self.id}: a claim that is not reproduced lists the settings that were chosen")
        passes = finding.verdict in (*_CORRECTED, Verdict.ILLUSTRATED)
        if not finding.shows.keys() <= names or (passes and finding.shows.keys() != names):
            raise TypeError(
                f"claim {self.id}: its errata are shown by {sorted(names)}, and its check shows {sorted(finding.shows)}"
            )
        evidence = {f"misprint shown: {name}": "yes" if is_shown else "no" for name, is_shown in finding.shows.items()}
        finding = replace(finding, numbers={**finding.numbers, **evidence})
        hidden = [name for name, is_shown in finding.shows.items() if not is_shown] if passes else []
        if hidden:
            note = f"These cells do not show the misprint: {', '.join(hidden)}."
            return replace(finding, verdict=Verdict.UNDECIDED, note=note)
        finding = self._beside_neighbours(finding, cells)
        if finding.verdict is Verdict.HOLDS and not names and (self.defines or self.proof):
            return replace(finding, verdict=Verdict.DEFINED if self.defines else Verdict.PROVED)
        if finding.verdict in _CORRECTED and names:
            return replace(finding, verdict=_CORRECTED[finding.verdict])
        return finding

    def accepts(self, neighbour: Neighbour, cells: Sequence[CellResult], verdict: Verdict = Verdict.HOLDS) -> bool:
        """Whether the check fails to reject a neighbour on the same evidence as the claim.

        A neighbour is rejected if the check fails on it. If the claim is only illustrated, an undecided neighbour
        counts as rejected too.
        """
        rejecting = (*_REJECTS, Verdict.UNDECIDED) if verdict is Verdict.ILLUSTRATED else _REJECTS
        return self.check(cells, **neighbour.constants).verdict not in rejecting

    def _beside_neighbours(self, finding: Finding, cells: Sequence[CellResult]) -> Finding:
        """The finding with the results of the neighbours; undecided if the check accepts the claim and a neighbour."""
        if finding.verdict is Verdict.UNDECIDED:
            return finding
        accepted = {neighbour.says: self.accepts(neighbour, cells, finding.verdict) for neighbour in self.neighbours}
        evidence = {f"rejected: {says}": "no" if is_accepted else "yes" for says, is_accepted in accepted.items()}
        finding = replace(finding, numbers={**finding.numbers, **evidence})
        alike = [says for says, is_accepted in accepted.items() if is_accepted]
        if alike and finding.verdict not in _REJECTS:
            note = f"These cells do not distinguish the claim from a false one: {'; '.join(alike)}."
            return replace(finding, verdict=Verdict.UNDECIDED, note=note)
        return finding

    @property
    def command(self) -> str:
        """The command that reruns this claim."""
        return f"separatrix reproduce --profile {self.profile} --only {self.id}"


_CORRECTED = {
    Verdict.HOLDS: Verdict.HOLDS_CORRECTED,
    Verdict.HOLDS_ASYMPTOTICALLY: Verdict.HOLDS_ASYMPTOTICALLY_CORRECTED,
}
_REJECTS = (Verdict.FAILS_AS_PRINTED, Verdict.NOT_REPRODUCED)
_REGISTRY: dict[str, Claim] = {}


def claim(
    *,
    where: str,
    says: str,
    cells: Callable[[], Iterable[Cell]],
    paper: str | None = None,
    profile: Profile = "quick",
    part: str = "",
    figures: Sequence[str] = (),
    errata: Sequence[Erratum] = (),
    neighbours: Sequence[Neighbour] = (),
    alone: str = "",
    proof: str = "",
    chosen: Sequence[str] = (),
    defines: Sequence[str] = (),
    history: Sequence[str] = (),
    home: str | None = None,
) -> Callable[[Callable[..., Finding]], Claim]:
    """Register the check below as a claim. `part` distinguishes several claims about one place.

    `home` is the module that declares the claim, where that is not the module of the check. `paper` may be left out in
    a module of the paper's package, such as `separatrix.claims.kronecker`, and in a study, whose paper is "beyond".
    For the other arguments see `Claim`.

    The id is made from paper, place and part. A mistake in the declaration raises a `TypeError`.
    """

    def register(check: Callable[..., Finding]) -> Claim:
        module = home or check.__module__
        package, _, inner = module.removeprefix("separatrix.").partition(".")
        about = paper or {"claims": inner.partition(".")[0], "studies": "beyond"}.get(package, package)
        id = identity(about, where, part)
        registered = Claim(
            id=id,
            paper=about,
            where=where,
            says=says,
            profile=profile,
            cells=cells,
            check=check,
            figures=tuple(figures),
            errata=tuple(errata),
            home=module,
            neighbours=tuple(neighbours),
            alone=alone,
            proof=proof,
            chosen=tuple(chosen),
            defines=tuple(defines),
            history=tuple(history),
        )
        if about not in PAPERS:
            raise TypeError(f"claim {id}: the paper must be one of {', '.join(PAPERS)}, not {about!r}")
        if profile not in ("quick", "full"):
            raise TypeError(f"claim {id}: the profile must be 'quick' or 'full', not {profile!r}")
        if not where.strip() or not says.strip():
            raise TypeError(f"claim {id}: it must say where it is in the paper, and what it says")
        if neighbours and alone:
            raise TypeError(f"claim {id}: it has neighbours, or says why it has none")
        if id in _REGISTRY:
            raise TypeError(f"two claims have the id {id}: give one of them a `part`")
        _REGISTRY[id] = registered
        return registered

    return register


def identity(paper: str, where: str, part: str = "") -> str:
    """The id of a claim, which needs no quotes in a shell.

    >>> identity("kronecker", "Lemma C.3"), identity("separation", "Figure 4(a-f)", "exact curve")
    ('kronecker/lemma-c.3', 'separation/figure-4-a-f/exact-curve')
    """
    return "/".join(re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-.") for text in (paper, where, part) if text)


def claims(paper: str | None = None, only: Sequence[str] = ()) -> list[Claim]:
    """The registered claims, or those of one paper, or those named.

    They are ordered by paper, by place, and by the modules that declare them.
    """
    if paper is not None:
        one_of("--paper", paper, PAPERS)
    for id in only:
        if id not in _REGISTRY:
            near = get_close_matches(id, _REGISTRY, n=3)
            hint = f", such as {', '.join(near)}" if near else "; `separatrix claims` lists them"
            raise ArgumentError("--only", expected=f"the id of a claim{hint}", got=repr(id))
    chosen = [claim for claim in _REGISTRY.values() if paper in (None, claim.paper) and (not only or claim.id in only)]
    papers = list(PAPERS)

    def order(claim: Claim) -> tuple[object, ...]:
        # Studies go beyond the papers and have no place in them.
        return papers.index(claim.paper), place(claim.where) if claim.paper != "beyond" else (), claim.home

    return sorted(chosen, key=order)


def place(where: str) -> tuple[int, str, tuple[int, ...]]:
    """A sort key that puts places in reading order: the text by its numbers, then figures, then appendices by letter.

    >>> sorted(["Lemma D.10", "Figure 4", "Lemma D.9", "Theorem 3.5", "Theorem 1.4"], key=place)
    ['Theorem 1.4', 'Theorem 3.5', 'Figure 4', 'Lemma D.9', 'Lemma D.10']
    """
    letter = re.search(r"\b([A-Z])(?:\.\d|$)", where)
    numbers = tuple(int(number) for number in re.findall(r"\d+", where))
    if letter:
        return 2, letter.group(1), numbers
    return int(where.startswith("Figure")), "", numbers
