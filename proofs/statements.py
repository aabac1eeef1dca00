"""The statements of the theorems in `proofs/`, read from the files without Coq.

`python -m proofs.statements` writes them to `statements.json`, each beside what its claim says in the ledger. A test
fails when a statement, or what the ledger says, differs from the record: compare the two, then run the command.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from separatrix.claims.ledger import claims
from separatrix.claims.machine_checked import PROOFS
from separatrix.studies import load

FOLDER = Path(__file__).parent
RECORD = FOLDER / "statements.json"
_COMMENT = re.compile(r"\(\*.*?\*\)", re.DOTALL)
_THEOREM = re.compile(r"^Theorem\s+(?P<name>\w+)(?P<statement>.*?)\.\s*\nProof\b", re.MULTILINE | re.DOTALL)


def source_files() -> list[Path]:
    """The files of `_CoqProject`, in the order in which they are compiled."""
    lines = (FOLDER / "_CoqProject").read_text("utf-8").split()
    return [FOLDER / line for line in lines if line.endswith(".v")]


def without_comments(text: str) -> str:
    """The text of a Coq file without its comments, which do not nest in this folder."""
    return _COMMENT.sub("", text)


def theorems(file: Path) -> dict[str, str]:
    """The theorems of a file by their names: each statement in one line, from its variables to its conclusion."""
    text = without_comments(file.read_text("utf-8"))
    return {match["name"]: " ".join(match["statement"].split()) for match in _THEOREM.finditer(text)}


def statements() -> dict[str, dict[str, str]]:
    """Every theorem with its file, its statement, its claim, and what the ledger says of that claim."""
    load()
    says = {claim.id: claim.says for claim in claims()}
    about = {proof.theorem: proof.claim for proof in PROOFS}
    return {
        name: {
            "file": f"proofs/{file.name}",
            "statement": statement,
            "claim": about.get(name, ""),
            "says": says.get(about.get(name, ""), ""),
        }
        for file in source_files()
        for name, statement in theorems(file).items()
    }


if __name__ == "__main__":
    RECORD.write_text(json.dumps(statements(), indent=1, ensure_ascii=False) + "\n", "utf-8")
