"""The studies as a whole: their registered claims, and the names and keys of stored results."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from separatrix import claims, studies
from separatrix.claims import ledger
from separatrix.claims.verdicts import expected
from separatrix.lab import registry
from separatrix.report.drawings import studies as drawings
from separatrix.report.figures import FIGURES

studies.load("beyond")

EXPERIMENTS = {
    "beyond.by_hand",
    "beyond.join",
    "beyond.join_by_hand",
    "beyond.join_imports",
    "beyond.join_imports_by_hand",
    "beyond.join_stages",
    "beyond.language_model",
    "beyond.layer_settings",
    "beyond.learned",
    "beyond.learned_regression",
    "beyond.learning",
    "beyond.learning_text",
    "beyond.linear_border",
    "beyond.match_training",
    "beyond.match_training_product",
    "beyond.mechanism",
    "beyond.mechanism_margin",
    "beyond.mechanism_regression",
    "beyond.phase_signal",
    "beyond.phase_size",
    "beyond.recall_by_hand",
    "beyond.selection_fixed",
    "beyond.selection_learner",
    "beyond.selection_length_population",
    "beyond.selection_length_sampled",
    "beyond.selection_length_trained",
    "beyond.selection_time_drawn",
    "beyond.selection_time_orthogonal",
    "beyond.selection_time_regime",
    "beyond.selection_time_terms",
}
SECOND = {
    "beyond.learning_growth",
    "beyond.learning_polynomial",
    "beyond.learning_polynomial_text",
    "beyond.learning_seconds",
    "beyond.width_border",
}
"""Experiments in their second version, whose results have changed."""
FIRST_CELLS = {
    "does-it-learn/recall": "092352277d1dd668",
    "does-it-learn/triples-every-attention": "252e4c36852a5af6",
    "does-it-learn/through-the-polynomial": "1d94bbe72765acbb",
    "does-it-learn/what-r-buys": "635f187c8fb72a4c",
    "does-it-learn/recall-by-hand": "107b40baac47e204",
    "triples-by-training": "428e810f68e122df",
    "token-selection/attention-one-hot-positions": "1028513c3e3174fd",
    "token-selection/positions-and-length": "ec3deec71b2855a9",
    "corollary-e.9/as-a-curve": "d8a3d9cad720b529",
    "appendix-e.6/one-encoding-for-all": "a6293c147736c480",
    "learned-weights/attention": "81087776af8f6ad2",
    "other-mechanisms/best-tau": "5c81f62dbae4ef5f",
    "phase-diagram/n-and-d": "a1426ab14ce37073",
}


def test_the_experiments_have_the_names_that_stores_know() -> None:
    ours = {
        name: registered.version
        for name, registered in registry._REGISTRY.items()
        if "studies" in registered.function.__module__
    }
    assert ours == {**dict.fromkeys(EXPERIMENTS, 1), **dict.fromkeys(SECOND, 2)}


@pytest.mark.parametrize("id", FIRST_CELLS)
def test_cells_have_the_keys_that_stores_know(id: str) -> None:
    first = next(iter(ledger._REGISTRY[f"beyond/{id}"].cells()))
    assert first.key.startswith(FIRST_CELLS[id])


def test_a_verdict_is_recorded_for_every_claim_and_for_no_other() -> None:
    ours = {
        claim.id for claim in ledger._REGISTRY.values() if claim.check.__module__.startswith(f"{studies.__name__}.")
    }
    assert ours == {id for id in expected() if id.startswith("beyond/")}


def test_studies_alone_or_papers_alone_are_loaded(forked) -> None:
    for paper, loaded in (("beyond", "beyond"), ("kronecker", "kronecker"), ("selection", "selection")):
        done = forked(
            f"from separatrix import studies\nfrom separatrix.claims import ledger\nstudies.load({paper!r})\n"
            "print(*sorted({one.paper for one in ledger.claims()}))"
        )
        assert (done.stdout, done.stderr) == (f"{loaded}\n", "")


def test_importing_the_package_imports_no_study(run) -> None:
    done = run("import sys, separatrix.studies; print(*(m for m in sys.modules if 'studies.' in m or m == 'torch'))")
    assert (done.stdout, done.stderr) == ("\n", "")


def test_every_module_is_listed() -> None:
    assert "separatrix.studies.learning.tasks.text" in studies.modules()
    assert "separatrix.studies.selection.length" in studies.modules()
    assert not set(studies.modules()) & set(claims.modules())


def ours() -> dict[str, list[ledger.Claim]]:
    """The claims, grouped by their file, such as "learning/text"."""
    by_file: dict[str, list[ledger.Claim]] = {}
    for module in map(sys.modules.__getitem__, studies.modules()):
        mine = [value for value in vars(module).values() if isinstance(value, ledger.Claim)]
        if mine:
            by_file[module.__name__.removeprefix(f"{studies.__name__}.").replace(".", "/")] = mine
    return by_file


def test_every_claim_is_in_a_file_whose_test_has_its_name(root: Path) -> None:
    assert sum(map(len, ours().values())) == len([id for id in expected() if id.startswith("beyond/")])
    for file in ours():
        folder, stem = file.split("/")
        assert (root / "tests" / "studies" / folder / f"test_{stem}.py").exists(), file


def test_every_figure_is_in_a_file_named_as_one_of_its_study() -> None:
    """The file of the claim, or of the runs that several claims share."""
    files = {name.removeprefix(f"{studies.__name__}.") for name in studies.modules()}
    drawn = {
        name: draw.__module__.removeprefix(f"{drawings.__name__}.")
        for name, draw in FIGURES.items()
        if draw.__module__.startswith(f"{drawings.__name__}.")
    }
    assert set(drawn.values()) <= files
    for file, claims_of_file in ours().items():
        for claim in claims_of_file:
            assert {drawn[name].split(".")[0] for name in claim.figures} == {file.split("/")[0]}, claim.id
    assert {name for some in ours().values() for claim in some for name in claim.figures} == set(drawn)
