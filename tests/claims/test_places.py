"""A claim is found by its place: its file, its drawing and its test are named by the place."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import separatrix
from separatrix.claims import ledger, load
from separatrix.claims.ledger import Claim
from separatrix.claims.verdicts import expected
from separatrix.report.figures import FIGURES
from tests.claims.places import tells

PAPERS = ("kronecker", "selection", "separation")
for _paper in PAPERS:
    load(_paper)
CLAIMS = {id: claim for id, claim in ledger._REGISTRY.items() if claim.paper in PAPERS}
SOURCE = Path(separatrix.__file__).parent


def stem_of(module: str) -> str:
    return module.rpartition(".")[2]


@pytest.mark.parametrize(
    ("stem", "told", "not_told"),
    [
        ("theorem_1_4", ["Theorem 1.4"], ["Theorem 1.3", "Lemma 1.4", "Theorem 1"]),
        ("theorem_1_4_growth", ["Theorem 1.4"], ["Theorem 1.3"]),
        ("section_1", ["Section 1"], ["Section 1.1"]),
        ("section_1_1", ["Section 1.1"], ["Section 1"]),
        ("lemmas_d_2_to_d_4", ["Lemma D.2", "Lemma D.3", "Lemma D.4"], ["Lemma D.10", "Lemma D.5", "Lemma E.3"]),
        ("theorems_6_2_to_f_5", ["Theorem 6.2", "Theorem D.17", "Theorem F.5"], ["Theorem 5.9", "Theorem F.9"]),
        ("claims_c_3_and_c_5", ["Claim C.3", "Claim C.5"], ["Claim C.4"]),
        ("hypothesis_4_1_and_theorem_4_7", ["Hypothesis 4.1", "Theorem 4.7"], ["Theorem 4.1", "Hypothesis 4.7"]),
        ("equation_6", ["Equation (6)"], ["Equation (4)"]),
        ("appendix_f", ["Appendix F"], ["Appendix F.1", "Appendix A"]),
        ("growth", [], ["Theorem 1.4"]),
    ],
)
def test_a_stem_gives_places(stem: str, told: list[str], not_told: list[str]) -> None:
    assert all(tells(stem, where) for where in told)
    assert not any(tells(stem, where) for where in not_told)


def test_the_file_of_a_claim_is_named_by_its_place_and_contains_it() -> None:
    for id, claim in CLAIMS.items():
        assert claim.home.startswith(f"separatrix.claims.{claim.paper}."), id
        assert tells(stem_of(claim.home), claim.where), f"{claim.home} does not tell {claim.where}"
        file = SOURCE.parent / f"{claim.home.replace('.', '/')}.py"
        assert f'"{claim.where}"' in file.read_text("utf-8"), f"a search for {claim.where} must find {file}"


def test_the_drawing_of_a_claim_is_named_by_its_place() -> None:
    """A drawing has the name of the claim's file; a drawing that claims of several files share names all of them."""
    for id, claim in CLAIMS.items():
        for name in claim.figures:
            drawn = FIGURES[name].__module__
            assert drawn.startswith(f"separatrix.report.drawings.{claim.paper}."), id
            if len({other.home for other in _naming(name)}) == 1:
                assert stem_of(drawn) == stem_of(claim.home), id
            else:
                assert tells(stem_of(drawn), claim.where), id


def _naming(figure: str) -> Iterator[Claim]:
    return (claim for claim in CLAIMS.values() if figure in claim.figures)


@pytest.mark.parametrize("paper", PAPERS)
def test_a_test_file_of_one_place_is_named_after_its_source(root: Path, paper: str) -> None:
    """`test_registry.py` has the tests of all claims and drawings; every other test file belongs to a source file."""
    for tests, source in (("claims", "claims"), ("report/drawings", "report/drawings")):
        named = {file.stem.removeprefix("test_") for file in (root / "tests" / tests / paper).glob("test_*.py")}
        files = {file.stem for file in (SOURCE / source / paper).glob("*.py")}
        assert named - {"along_paths"} <= files
    package = f"separatrix.report.drawings.{paper}."
    drawn = {stem_of(figure.__module__) for figure in FIGURES.values() if figure.__module__.startswith(package)}
    assert files - {"__init__"} == drawn


@pytest.mark.parametrize("paper", PAPERS)
def test_every_claim_is_recorded(paper: str) -> None:
    assert {id for id in expected() if id.startswith(f"{paper}/")} == {
        id for id, claim in CLAIMS.items() if claim.paper == paper
    }


def test_the_quick_profile_stays_quick() -> None:
    """The quick profile has few cells with few steps of training."""
    quick = [claim for claim in CLAIMS.values() if claim.profile == "quick"]
    for paper, most in (("kronecker", 1000), ("selection", 500), ("separation", 1300)):
        assert sum(len(list(claim.cells())) for claim in quick if claim.paper == paper) < most
    trained = {cell for claim in quick for cell in claim.cells() if cell.experiment == "selection.training"}
    assert sum(cell.arguments["steps"] for cell in trained) <= 10_000
    turned = {cell for claim in quick for cell in claim.cells() if cell.experiment == "selection.heat_maps"}
    assert sum(cell.arguments["steps"] for cell in turned) <= 3000


NUMBERED = {
    "kronecker": "definition-1.1 definition-1.2 theorem-1.3 theorem-1.4 definition-1.5 definition-2.1 definition-2.2 "
    "definition-2.3 definition-2.4 hypothesis-4.1 definition-4.2 conjecture-4.3 theorem-4.4 theorem-4.5 definition-4.6 "
    "theorem-4.7 definition-a.1 definition-a.2 lemma-b.1 theorem-b.2 definition-c.1 definition-c.2 lemma-c.3 "
    "definition-c.4 lemma-c.5 definition-d.1 corollary-d.2 lemma-d.3 definition-d.4 lemma-d.5 lemma-d.6 lemma-e.1 "
    "lemma-e.2 theorem-e.3 algorithm-1",
    "separation": "theorem-1.1 theorem-1.2 lemma-3.1 definition-3.2 definition-3.3 definition-3.4 definition-3.5 "
    "definition-3.6 definition-3.7 definition-3.8 lemma-4.1 lemma-4.2 lemma-5.1 lemma-5.2 lemma-5.3 lemma-5.4 "
    "definition-6.1 theorem-6.2 fact-a.1 definition-c.1 definition-c.2 claim-c.3 definition-c.4 claim-c.5 "
    "definition-c.6 definition-d.1 lemma-d.2 lemma-d.3 lemma-d.4 theorem-d.5 lemma-d.6 lemma-d.7 lemma-d.8 theorem-d.9 "
    "lemma-d.10 lemma-d.11 lemma-d.12 theorem-d.13 lemma-d.14 lemma-d.15 lemma-d.16 theorem-d.17 lemma-e.1 lemma-e.2 "
    "lemma-e.3 theorem-e.4 definition-f.1 lemma-f.2 lemma-f.3 lemma-f.4 theorem-f.5 lemma-f.6 lemma-f.7 lemma-f.8 "
    "theorem-f.9 lemma-f.10 lemma-f.11 lemma-f.12 theorem-f.13 lemma-f.14 lemma-f.15 lemma-f.16 theorem-f.17 figure-3 "
    "figure-4 figure-5 figure-7",
    "selection": "definition-2.1 definition-2.2 definition-2.3 definition-2.4 definition-2.5 theorem-3.1 lemma-3.2 "
    "theorem-3.3 lemma-3.4 theorem-3.5 corollary-3.6 definition-a.1 lemma-a.2 lemma-a.3 definition-a.4 theorem-c.1 "
    "theorem-c.2 theorem-c.3 lemma-d.1 lemma-d.2 definition-d.3 theorem-d.4 lemma-d.5 definition-e.1 lemma-e.2 "
    "lemma-e.3 lemma-e.4 lemma-e.5 theorem-e.6 lemma-e.7 corollary-e.8 corollary-e.9 lemma-e.10 lemma-e.11 lemma-e.12 "
    "lemma-e.13 lemma-e.14 lemma-e.15 corollary-e.16 figure-1 figure-2 figure-3 figure-4 figure-5 figure-6 figure-7 "
    "figure-8",
}
"""Every numbered place of the three papers except three drawings, which are listed in `docs/_ext/places.toml`."""


@pytest.mark.parametrize("paper", PAPERS)
def test_every_numbered_place_has_a_claim(paper: str) -> None:
    claimed = {"/".join(id.split("/")[1:2]) for id in CLAIMS if id.startswith(f"{paper}/")}
    assert set(NUMBERED[paper].split()) <= claimed
