from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
import pytest

from separatrix import claims as room
from separatrix import studies
from separatrix.claims import PAPERS, modules
from separatrix.claims.ledger import CellResult, Erratum, Finding, Interval, Rank, Verdict, claim, claims, identity
from separatrix.claims.reproduce import needed, reproduce
from separatrix.claims.verdicts import Judgement, Recorded, differences, expected, judge, records
from separatrix.errors import ArgumentError, SeparatrixError
from separatrix.lab import Store, in_process
from separatrix.report.evidence import entry
from separatrix.report.theme import Drawing
from tests.claims.declared import declare
from tests.lab.experiments import counts_runs, fails, number


def test_the_eleven_verdicts() -> None:
    assert [str(verdict) for verdict in Verdict] == [
        "proved",
        "defined here",
        "holds",
        "holds corrected",
        "holds asymptotically",
        "holds asymptotically when corrected",
        "fails as printed",
        "not reproduced",
        "illustrated",
        "undecided",
        "not run here",
    ]


def test_a_claim_registers_what_it_says(empty) -> None:
    declared = declare(
        "Theorem 3.5",
        part="the bound",
        profile="full",
        figures=["bound"],
        errata=[Erratum("n", "n + 1", "one too few", shown_by="n is too few", rank=Rank.STATEMENT)],
    )
    assert claims() == [declared]
    assert (declared.id, declared.figures) == ("kronecker/theorem-3.5/the-bound", ("bound",))
    assert declared.errata == (Erratum("n", "n + 1", "one too few", shown_by="n is too few", rank=Rank.STATEMENT),)
    assert declared.command == "separatrix reproduce --profile full --only kronecker/theorem-3.5/the-bound"


def test_the_package_of_a_claim_is_its_paper(empty) -> None:
    declared = claim(where="Lemma 1", says="x", cells=list, home="separatrix.claims.selection.lemma_1")
    assert declared(lambda cells: Finding(Verdict.HOLDS)).id == "selection/lemma-1"
    with pytest.raises(
        TypeError, match="the paper must be one of separation, kronecker, selection, beyond, not 'tests'"
    ):
        claim(where="Lemma 1", says="x", cells=list)(lambda cells: Finding(Verdict.HOLDS))


@pytest.mark.parametrize(
    "wrong", [{"paper": "cookbook"}, {"profile": "slow"}, {"says": " "}, {"where": ""}, {"where": "Lemma 1"}]
)
def test_a_bad_declaration_is_refused(empty, wrong: dict[str, str]) -> None:
    declare("Lemma 1")
    with pytest.raises(TypeError):
        declare(**{"where": "Lemma 2", **wrong})
    assert len(empty) == 1


def test_claims_are_chosen_by_paper_and_id(empty) -> None:
    for paper in reversed(PAPERS):
        declare("Lemma 1", paper=paper)
        declare("Lemma 2", paper=paper)
    assert [claim.paper for claim in claims()] == [paper for paper in PAPERS for _ in range(2)]
    assert [claim.id for claim in claims("selection")] == ["selection/lemma-1", "selection/lemma-2"]
    assert [claim.id for claim in claims(only=["kronecker/lemma-2"])] == ["kronecker/lemma-2"]
    with pytest.raises(
        ArgumentError, match="--paper: expected 'separation', 'kronecker', 'selection' or 'beyond', got 'cookbook'"
    ):
        claims("cookbook")
    with pytest.raises(ArgumentError, match=r"--only: expected the id of a claim, such as .*kronecker/lemma-2.*, got"):
        claims(only=["kronecker/lema-2"])


@pytest.mark.parametrize(
    "bad", [(0.5, 0.6, 0.7, 0.9), (0.5, 0.4, 0.45, 0.9), (0.5, 0.4, 0.6, 1.0), (float("nan"), 0, 1, 0.9)]
)
def test_an_interval_holds_its_value(bad: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="is not an interval around its value"):
        Interval(*bad)


@pytest.mark.parametrize(
    ("confidence", "told"), [(0.95, "95%"), (0.9, "90%"), (0.999, "99.9%"), (0.999999, "99.9999%")]
)
def test_an_interval_in_words(confidence: float, told: str) -> None:
    assert str(Interval(0.5, 0.25, 1.0, confidence)) == f"0.5 (0.25 to 1 at {told})"


def test_the_papers_have_packages_of_their_names() -> None:
    for module in modules():
        assert module.split(".")[2] in PAPERS
    assert identity("selection", "Corollary 3.6/E.9") == "selection/corollary-3.6-e.9"


def test_modules_are_listed_without_being_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("kronecker", "selection"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").touch()
        (tmp_path / name / "lemmas.py").write_text("raise ImportError('imported')")
    (tmp_path / "helper.py").touch()
    monkeypatch.setattr(room, "__path__", [str(tmp_path)])
    assert modules() == ["separatrix.claims.kronecker.lemmas", "separatrix.claims.selection.lemmas"]
    assert modules("selection") == ["separatrix.claims.selection.lemmas"]
    with pytest.raises(ImportError):
        room.load("selection")
    sys.modules.pop("separatrix.claims.selection", None)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.create(tmp_path / "results") as created:
        yield created


def test_a_claim_is_not_run_until_its_cells_are_done(empty, store: Store) -> None:
    declared = declare()
    for kept in (None, store):
        judgement = judge(declared, kept)
        assert (judgement.verdict, judgement.missing, len(judgement.keys)) == (Verdict.NOT_RUN, 5, 5)
        assert judgement.finding.note == "Of 5 cells, 5 have not been run. No verdict is recorded."
    judgement = reproduce([declared], store, in_process(), profile="quick").judgements[0]
    assert (judgement.verdict, judgement.missing, dict(judgement.finding.numbers)) == (Verdict.HOLDS, 0, {"least": 1.0})
    assert judgement.seconds > 0
    assert judgement.keys == tuple(number.cell(seed=seed, x=1.0).key for seed in range(5))


def test_the_check_receives_results_and_parameters(empty, store: Store) -> None:
    seen: list[CellResult] = []

    @claim(
        paper="selection",
        where="Lemma 9",
        says="x",
        cells=lambda: [number.cell(seed=3, x=1.0), number.cell(seed=2, x=5)],
    )
    def look(cells: Sequence[CellResult]) -> Finding:
        seen.extend(cells)
        return Finding(Verdict.ILLUSTRATED)

    reproduce([look], store, in_process(), profile="quick")
    assert seen == [CellResult({"x": 1.0}, 3, {"y": 4.0}), CellResult({"x": 5.0}, 2, {"y": 7.0})]


def test_a_failed_cell_leaves_it_undecided_and_is_a_difference(empty, store: Store) -> None:
    declared = declare(cells=lambda: [fails.cell(seed=seed, when=1) for seed in range(3)])
    done = reproduce([declared], store, in_process(), profile="quick")
    (judgement,) = done.judgements
    assert (judgement.verdict, judgement.failed, judgement.missing) == (Verdict.UNDECIDED, 1, 0)
    assert differences([judgement], {declared.id: Verdict.HOLDS}, "quick", everything=True) == [
        f"{declared.id}: undecided, and holds is recorded. Of 3 cells, 1 failed."
    ]


def test_profiles(empty, store: Store, tmp_path: Path) -> None:
    quick, full = declare("Lemma 1"), declare(
        "Lemma 2",
        profile="full",
        cells=lambda: [number.cell(seed=0, x=1.0), counts_runs.cell(seed=1, folder=str(tmp_path))],
    )  # fmt: skip
    assert needed([quick, full], "quick") == list(quick.cells())
    assert len(needed([quick, full], "full")) == 6  # one cell belongs to both
    first = reproduce([quick, full], store, in_process(), profile="quick")
    assert [judgement.verdict for judgement in first.judgements] == [Verdict.HOLDS, Verdict.NOT_RUN]
    recorded = {quick.id: Verdict.HOLDS, full.id: Verdict.FAILS_AS_PRINTED}
    assert differences(first.judgements, recorded, "quick", everything=True) == []
    assert len(differences(first.judgements, recorded, "full", everything=True)) == 1


def test_full_results_in_the_store_are_used_by_the_quick_profile(empty, store: Store) -> None:
    declared = declare(profile="full")
    assert reproduce([declared], store, in_process(), profile="full").tally.done == 5
    again = reproduce([declared], store, in_process(), profile="quick")
    assert (again.tally.done, again.judgements[0].verdict) == (0, Verdict.HOLDS)
    assert differences(again.judgements, {declared.id: Verdict.ILLUSTRATED}, "quick", everything=False) == [
        f"{declared.id}: holds, and illustrated is recorded."
    ]


def breaks(cells: Sequence[CellResult]) -> Finding:
    raise KeyError("no such number")


def corrects(cells: Sequence[CellResult]) -> Finding:
    return Finding(Verdict.HOLDS_CORRECTED)


def corrects_asymptotically(cells: Sequence[CellResult]) -> Finding:
    return Finding(Verdict.HOLDS_ASYMPTOTICALLY_CORRECTED)


def shows_what_is_not_asked(cells: Sequence[CellResult]) -> Finding:
    return Finding(Verdict.HOLDS, shows={"a": True})


@pytest.mark.parametrize(
    ("check", "told"),
    [
        (breaks, "KeyError: 'no such number'"),
        (corrects, "errata and a proof say whether it is corrected"),
        (corrects_asymptotically, "errata and a proof say whether it is corrected"),
        (shows_what_is_not_asked, "its errata are shown by [], and its check shows ['a']"),
    ],
)
def test_an_error_in_a_check_is_reported(empty, store: Store, check: Any, told: str) -> None:
    options = {"paper": "kronecker", "says": "x", "cells": lambda: [number.cell(seed=0, x=1.0)]}
    declared = claim(where="Lemma 1", **options)(check)
    (judgement,) = reproduce([declared], store, in_process(), profile="quick").judgements
    assert judgement.verdict is Verdict.UNDECIDED
    assert judgement.problem is not None
    (sentence,) = differences([judgement], {declared.id: Verdict.UNDECIDED}, "quick", everything=True)
    assert told in sentence


def test_a_record_of_an_old_verdict_differs_from_holds_asymptotically(empty) -> None:
    """Before verdicts had two attributes, such a claim was recorded as "holds corrected", which is a difference."""
    slip = Erratum("x", "y", "z", shown_by="a", rank=Rank.PROOF)
    declared = claim(paper="kronecker", where="Lemma 1", says="x", cells=list, errata=[slip])(
        lambda cells: Finding(Verdict.HOLDS_ASYMPTOTICALLY, shows={"a": True})
    )
    judgement = Judgement(declared, declared.judged([]), ("k",), 0.0)
    assert differences([judgement], {declared.id: Verdict("holds corrected")}, "quick", everything=True) == [
        f"{declared.id}: holds asymptotically when corrected, and holds corrected is recorded."
    ]


@pytest.mark.parametrize(
    ("verdict", "shows", "found"),
    [
        (Verdict.HOLDS, {"a": True, "b": True}, Verdict.HOLDS_CORRECTED),
        (Verdict.HOLDS_ASYMPTOTICALLY, {"a": True, "b": True}, Verdict.HOLDS_ASYMPTOTICALLY_CORRECTED),
        (Verdict.HOLDS_ASYMPTOTICALLY, {"a": True, "b": False}, Verdict.UNDECIDED),
        (Verdict.HOLDS, {"a": True, "b": False}, Verdict.UNDECIDED),
        (Verdict.HOLDS, {"a": False, "b": False}, Verdict.UNDECIDED),
        (Verdict.FAILS_AS_PRINTED, {"a": True, "b": True}, Verdict.FAILS_AS_PRINTED),
        (Verdict.FAILS_AS_PRINTED, {}, Verdict.FAILS_AS_PRINTED),
        (Verdict.UNDECIDED, {"a": True}, Verdict.UNDECIDED),
        (Verdict.ILLUSTRATED, {"a": True, "b": True}, Verdict.ILLUSTRATED),
        (Verdict.ILLUSTRATED, {"a": True, "b": False}, Verdict.UNDECIDED),
    ],
)
def test_misprints_are_judged_once(empty, verdict: Verdict, shows: dict[str, bool], found: Verdict) -> None:
    errata = [Erratum("x", "y", "z", shown_by=name, rank=Rank.PROOF) for name in "ab"]
    declared = claim(paper="kronecker", where="Lemma 1", says="x", cells=list, errata=errata)(
        lambda cells: Finding(verdict, {"n": 1}, "As it is.", shows)
    )
    finding = declared.judged([])
    assert finding.verdict is found
    assert finding.numbers == {"n": 1, **{f"misprint shown: {name}": "yes" if shows[name] else "no" for name in shows}}
    hidden = [name for name, is_shown in shows.items() if not is_shown]
    note = f"These cells do not show the misprint: {', '.join(hidden)}." if hidden else "As it is."
    assert finding.note == note


def test_a_check_that_passes_must_judge_every_misprint(empty) -> None:
    errata = [Erratum("x", "y", "z", shown_by="a", rank=Rank.PROOF)]
    declared = claim(paper="kronecker", where="Lemma 1", says="x", cells=list, errata=errata)(
        lambda cells: Finding(Verdict.HOLDS)
    )
    with pytest.raises(TypeError, match=r"shown by \['a'\], and its check shows \[\]"):
        declared.judged([])


def test_a_claim_without_cells_could_not_be_wrong(empty, store: Store) -> None:
    judgement = judge(declare(cells=list), store)
    assert judgement.problem is not None
    assert "declares no cells" in judgement.problem


def test_records_and_claims_must_match(empty) -> None:
    declared = declare()
    judgement = Judgement(declared, Finding(Verdict.HOLDS), ("k",), 0.0)
    assert differences([judgement], {}, "quick", everything=True) == [
        f"{declared.id}: holds, and no verdict is recorded."
    ]
    stale = {declared.id: Verdict.HOLDS, "kronecker/lemma-0": Verdict.HOLDS}
    assert differences([judgement], stale, "quick", everything=False) == []
    assert differences([judgement], stale, "quick", everything=True) == [
        "kronecker/lemma-0: holds is recorded, and there is no such claim."
    ]


def test_expected_is_read(tmp_path: Path) -> None:
    file = tmp_path / "expected.toml"
    file.write_text('[kronecker]\n"lemma-c.3" = "holds"\n"lemma-c.5/sharp" = "fails as printed"\n[selection]\n')
    assert expected(file) == {
        "kronecker/lemma-c.3": Verdict.HOLDS,
        "kronecker/lemma-c.5/sharp": Verdict.FAILS_AS_PRINTED,
    }
    assert set(expected()) <= {f"{paper}/{rest}" for paper in PAPERS for rest in _rests()}


def test_a_record_may_have_its_day_and_its_reason(tmp_path: Path) -> None:
    file = tmp_path / "expected.toml"
    file.write_text('[beyond]\nx = { verdict = "undecided", on = 2026-11-16, why = "too few seeds" }\ny = "holds"\n')
    assert records(file) == {
        "beyond/x": Recorded(Verdict.UNDECIDED, date(2026, 11, 16), "too few seeds"),
        "beyond/y": Recorded(Verdict.HOLDS),
    }


def test_a_record_of_the_full_profile_has_its_day_and_an_undecided_one_its_reason() -> None:
    studies.load()
    for judged_claim in claims():
        record = records()[judged_claim.id]
        assert record.on is not None or judged_claim.profile == "quick", judged_claim.id
        assert bool(record.why) == (record.verdict is Verdict.UNDECIDED), judged_claim.id


def _rests() -> set[str]:
    return {id.partition("/")[2] for id in expected()}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            '[kronecker]\n"lemma-1" = "true"',
            r'kronecker\."lemma-1": expected proved or defined here or holds or holds corrected or .*, got true',
        ),
        ('[kronecker]\nlemma = {a = "holds"}', r'kronecker\."lemma": expected proved or defined here or holds'),
        ('[kronecker]\nlemma = "not run here"', r'kronecker\."lemma": expected proved or defined here or holds'),
        ('[kronecker]\nlemma = {verdict = "holds", when = 1}', r'kronecker\."lemma": expected a verdict, on = a date'),
        (
            '[kronecker]\nlemma = {verdict = "holds", on = "May"}',
            r'kronecker\."lemma": expected a verdict, on = a date',
        ),
        ('kronecker = "holds"', "kronecker: expected a table of verdicts, got holds"),
        ("[kronecker", r"expected\.toml is not TOML: .*line 1"),
    ],
)
def test_a_bad_record_is_named(tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "expected.toml"
    file.write_text(text)
    with pytest.raises(SeparatrixError, match=told):
        expected(file)


def test_figures_receive_seconds_and_checks_do_not(empty, tmp_path: Path) -> None:
    seen: list[CellResult] = []

    @claim(paper="kronecker", where="Lemma 1", says="It is.", cells=lambda: [number.cell(seed=0, x=1.0)],
           figures=["clock"])  # fmt: skip
    def check(cells: Sequence[CellResult]) -> Finding:
        seen.extend(cells)
        return Finding(Verdict.HOLDS)

    def clock(cells: Sequence[CellResult]) -> Drawing:
        seen.extend(cells)
        return Drawing(go.Figure(), "A clock.", {})

    with Store.create(tmp_path) as store:
        (judgement,) = reproduce([check], store, in_process(), profile="quick").judgements
        entry(judgement, store, {"clock": clock}, {})
    judged, drawn = seen
    assert judged.seconds is None
    assert drawn.seconds is not None
    assert drawn.seconds > 0
