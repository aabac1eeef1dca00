"""Print the axioms that every theorem of `proofs/` rests on, and fail if there are others than those of the reals.

    python3 proofs/axioms.py build/proofs

The argument is the folder of the compiled files. Coq itself lists the axioms, by `Print Assumptions`; a proof that was
left out by `Admitted` is one of them. This script needs Python and Coq alone.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

REALS = {
    "ClassicalDedekindReals.sig_forall_dec": "decides a property of all natural numbers; the reals are built with it",
    "ClassicalDedekindReals.sig_not_dec": "decides a negated proposition; the reals are built with it",
    "FunctionalExtensionality.functional_extensionality_dep": "functions that agree everywhere are equal",
    "Classical_Prop.classic": "a proposition or its negation holds; the analysis of the standard library uses it",
}
"""The axioms of the reals of Coq's standard library."""

_THEOREM = re.compile(r"^(?:Theorem|Lemma|Corollary)\s+(\w+)", re.MULTILINE)
_AXIOM = re.compile(r"^(?P<name>[\w.']+)(?: :|$)", re.MULTILINE)


def axioms(folder: Path, name: str, theorems: list[str]) -> dict[str, set[str]]:
    """The axioms of the theorems of a file, as Coq prints them."""
    lines = [f"From Separatrix Require {name}."]
    lines += [f'Redirect "axioms_{n}" Print Assumptions {name}.{theorem}.' for n, theorem in enumerate(theorems)]
    script = folder / "print_axioms.v"
    script.write_text("\n".join([*lines, ""]), "utf-8")
    subprocess.run(["coqc", "-Q", ".", "Separatrix", script.name], cwd=folder, check=True)
    found: dict[str, set[str]] = {}
    for number, theorem in enumerate(theorems):
        printed = (folder / f"axioms_{number}.out").read_text("utf-8")
        if "Closed under the global context" in printed:
            found[theorem] = set()
        elif printed.startswith("Axioms:"):
            found[theorem] = set(_AXIOM.findall(printed.partition("\n")[2]))
        else:
            sys.exit(f"axioms.py: expected the axioms of {name}.{theorem}, but Coq printed: {printed!r}")
    return found


def main(folder: Path) -> None:
    """Print the axioms of every theorem; exit with 1 if one is not among those of the reals."""
    beyond = 0
    for file in sorted(folder.glob("[A-Z]*.v")):
        theorems = _THEOREM.findall(re.sub(r"\(\*.*?\*\)", "", file.read_text("utf-8"), flags=re.DOTALL))
        for theorem, names in axioms(folder, file.stem, theorems).items():
            other = names - REALS.keys()
            beyond += len(other)
            told = ", ".join(sorted(name.rpartition(".")[2] for name in names)) or "none"
            wrong = [f"  not an axiom of the reals: {name}" for name in sorted(other)]
            print(f"{file.stem}.{theorem}: {told}", *wrong, sep="\n")
    print("\nThe axioms of the reals:", *(f"  {name}: {why}" for name, why in REALS.items()), sep="\n")
    if beyond:
        sys.exit(f"axioms.py: {beyond} axioms are not those of the reals of the standard library")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: axioms.py FOLDER, the folder of the compiled files")
    main(Path(sys.argv[1]))
