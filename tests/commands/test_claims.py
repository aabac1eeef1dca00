"""`separatrix claims`: every verdict and id, complete at any terminal width."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from separatrix.claims.ledger import Finding, Verdict
from separatrix.claims.reproduce import reproduce
from separatrix.lab import Store, in_process
from tests.claims.declared import declare
from tests.commands.invoked import invoke
from tests.lab.experiments import number


def test_claims_lists_them_with_or_without_a_store(recorded, tmp_path: Path) -> None:
    assert "No claims are recorded yet" in invoke("claims", "--store", tmp_path / "r").stdout
    made = declare()
    before = invoke("claims", "--store", tmp_path / "r")
    assert (before.exit_code, (tmp_path / "r").exists()) == (0, False)
    assert "not run here" in before.stdout
    assert "No verdict is recorded" in before.stdout
    recorded[made.id] = Verdict.HOLDS
    before = invoke("claims", "--store", tmp_path / "r")
    assert before.stdout.split()[:2] == ["holds", made.id]
    shown = " ".join(before.stdout.split())
    assert f"{made.says} Recorded verdict of version 0.1.0; not rerun here." in shown
    assert "separatrix reproduce" not in before.stdout
    assert not (tmp_path / "r").exists()
    invoke("reproduce", "--store", tmp_path / "r", "--in-process")
    after = invoke("claims", "--store", tmp_path / "r", "--paper", "kronecker")
    assert all(word in after.stdout for word in (made.id, "holds", "least: 1", "5 of 5 cells"))


def told(*options: object) -> list[str]:
    """The ids that `claims` lists as JSON."""
    done = invoke("claims", "--json", *options)
    assert done.exit_code == 0, done.output
    return [one["id"] for one in json.loads(done.stdout)]


def test_claims_are_chosen_by_verdict_place_and_text(recorded, tmp_path: Path) -> None:
    first = declare("Lemma D.6", says="The rank of a sum is at most the sum of the ranks.")
    second = declare("Lemma D.16", says="A sum of n terms.", paper="separation")
    third = declare("Theorems D.6 and 7", part="both", says="Neither is empty.")
    recorded.update({first.id: Verdict.HOLDS, second.id: Verdict.FAILS_AS_PRINTED, third.id: Verdict.HOLDS})
    nowhere = ("--store", tmp_path / "none")
    assert sorted(told(*nowhere)) == sorted([first.id, second.id, third.id])
    assert told(*nowhere, "--verdict", "fails as printed") == [second.id]
    assert len(told(*nowhere, "--verdict", "fails as printed", "--verdict", "holds")) == 3
    assert told(*nowhere, "--place", "lemma d.6") == [first.id]
    assert sorted(told(*nowhere, "--place", "D.6")) == sorted([first.id, third.id])
    assert sorted(told(*nowhere, "--text", "a SUM")) == sorted([first.id, second.id])
    assert told(*nowhere, "--text", "a sum", "--paper", "separation", "--verdict", "holds") == []
    assert "No claim matches" in invoke("claims", *nowhere, "--text", "phlogiston").stdout
    refused = invoke("claims", *nowhere, "--verdict", "true")
    assert refused.exit_code == 2
    assert "--verdict: expected" in refused.stderr


def test_json_has_the_findings(recorded, tmp_path: Path) -> None:
    made = declare()
    recorded[made.id] = Verdict.HOLDS
    invoke("reproduce", "--store", tmp_path, "--in-process")
    (one,) = json.loads(invoke("claims", "--store", tmp_path, "--json").stdout)
    assert (one["id"], one["verdict"], one["cells"], one["missing"]) == (made.id, "holds", 5, 0)
    assert one["rerun"]
    assert (one["place"], one["says"], one["command"]) == (made.where, made.says, made.command)
    assert one["numbers"]["least"] == "1.0"


@pytest.mark.parametrize("columns", [80, 100, 30])
@pytest.mark.parametrize("many", [1, 7])
def test_ids_and_verdicts_are_whole_at_any_width(recorded, tmp_path: Path, columns: int, many: int) -> None:
    words = " ".join(f"word{i}" for i in range(60))
    made = [
        declare(
            f"Theorem {i}", part="a part with a name that goes on and on", cells=lambda: [number.cell(seed=1, x=1.0)]
        )
        for i in range(many)
    ]
    for one in made:
        object.__setattr__(one, "check", lambda found: Finding(Verdict.HOLDS_ASYMPTOTICALLY, note=words))
    with Store.create(tmp_path) as store:
        reproduce(made, store, in_process(), profile="quick")
    told = invoke("claims", "--store", tmp_path, COLUMNS=str(columns)).stdout.splitlines()
    for one in made:
        assert f"holds asymptotically  {one.id}" in told
    counted = "1 claim, quick: 1 holds" if many == 1 else f"{many} claims, all quick: {many} hold"
    assert told[-1] == f"{counted} asymptotically."
    found = [line for line in told if line.startswith("   ")]
    assert max(map(len, found)) <= max(columns, 60)
    head = f"{made[0].says} 1 of 1 cell, 0.0 s. word0"
    assert " ".join(" ".join(found).split()).startswith(head)
    assert "word59" in found[-1], "a note was cut"


@pytest.mark.parametrize("many", [1, 7])
def test_numbers_are_left_out_whole_and_counted(recorded, tmp_path: Path, many: int) -> None:
    made = [declare(f"Theorem {i}", cells=lambda: [number.cell(seed=1, x=1.0)]) for i in range(many)]
    numbers = {f"a number with a name {i}": i for i in range(20)}
    for one in made:
        object.__setattr__(one, "check", lambda found: Finding(Verdict.HOLDS_ASYMPTOTICALLY, numbers))
    with Store.create(tmp_path) as store:
        reproduce(made, store, in_process(), profile="quick")
    told = invoke("claims", "--store", tmp_path, COLUMNS="80").stdout.splitlines()
    found = [line for line in told if line.startswith("   ")]
    text = " ".join(" ".join(found[: len(found) // many]).split())
    if many == 1:  # a few claims are printed in full
        assert text.endswith("a number with a name 19: 19.")
    else:
        assert len(found) == 3 * many
        kept = text.count("a number with a name")
        assert text.endswith(f"a number with a name {kept - 1}: {kept - 1}. (The report has {20 - kept} more numbers.)")


def test_earlier_rules_that_are_left_out_are_not_counted_as_numbers(recorded, tmp_path: Path) -> None:
    declared = [declare(f"Theorem {i}", history=["Until then four of five were enough. " * 9]) for i in range(7)]
    for claim in declared:
        recorded[claim.id] = Verdict.HOLDS
    lines = invoke("claims", "--store", tmp_path / "r", COLUMNS="80").stdout
    assert "more number" not in lines
    assert " ".join(lines.split()).count("--place or --text shows fewer claims in full") == 1
    claim_in_full = " ".join(invoke("claims", "--store", tmp_path / "r", "--place", "Theorem 3").stdout.split())
    assert claim_in_full.count("four of five") == 9
    assert "in full" not in claim_in_full


def test_a_definition_shows_its_code_and_a_claim_its_earlier_rules(recorded, tmp_path: Path) -> None:
    made = declare(
        "Definition 1", defines=["separatrix.tensor_attention"], history=["Until then four of five were enough."]
    )
    recorded[made.id] = Verdict.DEFINED
    shown = " ".join(invoke("claims", "--store", tmp_path / "r").stdout.split())
    assert "In the library: separatrix.tensor_attention." in shown
    assert "Changed after results had been seen: Until then four of five were enough." in shown
