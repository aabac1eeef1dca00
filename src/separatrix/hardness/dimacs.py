"""A strict reader of DIMACS files: a formula, or an error with the line and what is wrong there.

What is read::

    c a comment: a line that is "c" or begins with "c "
    p cnf 3 2
    1 -3 0
    2 3
    -1 0

One problem line, before the clauses; then exactly as many clauses as it says, each ended by 0, on one line or several;
no literal beyond the number of variables. Solvers commonly let pass a wrong count, a last clause without its 0, or
text after it: here they are errors, because a formula cut short would be decided as another one.
"""

from __future__ import annotations

import re
from pathlib import Path

from separatrix.errors import ArgumentError
from separatrix.hardness.cnf import Formula

_LITERAL = re.compile(r"-?[1-9][0-9]{0,17}")
_COUNT = re.compile(r"0|[1-9][0-9]{0,17}")
_PROBLEM = "'p cnf VARIABLES CLAUSES', two counts of at most 18 digits"


def read_dimacs(path: str | Path) -> Formula:
    """The formula in a file."""
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise ArgumentError(str(path), expected="a DIMACS file that can be read", got=str(error.strerror)) from None
    try:
        text = content.decode("ascii")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise _wrong(str(path), line, "ASCII text", f"the byte {content[error.start]:#04x}") from None
    return parse_dimacs(text, name=str(path))


def parse_dimacs(text: str, *, name: str = "the text") -> Formula:
    """The formula in a text; `name` is what an error calls it.

    >>> parse_dimacs("p cnf 3 2\\n1 -3 0\\n2 3 -1 0\\n")
    Formula(variables=3, clauses=((1, -3), (2, 3, -1)))
    >>> parse_dimacs("p cnf 3 2\\n1 -3 0\\n2 3 -1\\n")
    Traceback (most recent call last):
        ...
    separatrix.errors.ArgumentError: the text, line 3: expected a 0 that ends the last clause, got the end of the text.
    """
    problem: tuple[int, int] | None = None
    clauses: list[tuple[int, ...]] = []
    clause: list[int] = []
    line = 0
    for line, content in enumerate(text.splitlines(), start=1):
        words = content.split()
        if not words or words[0] == "c":
            continue
        if words[0] == "p":
            if problem is not None:
                raise _wrong(name, line, "one problem line", "another")
            problem = _problem(name, line, words)
            continue
        if problem is None:
            raise _wrong(name, line, f"{_PROBLEM}, before any clause", words[0])
        for word in words:
            if len(clauses) == problem[1]:
                hint = " (files of SATLIB end with '%' and 0: delete them)" if word == "%" else ""
                raise _wrong(name, line, f"nothing after the {problem[1]} clauses announced", f"{word}{hint}")
            if word == "0":
                clauses.append(tuple(clause))
                clause = []
            else:
                clause.append(_literal(name, line, word, problem[0]))
    if problem is None:
        raise _wrong(name, line, _PROBLEM, "no problem line")
    if clause:
        raise _wrong(name, line, "a 0 that ends the last clause", "the end of the text")
    if len(clauses) != problem[1]:
        raise _wrong(name, line, f"the {problem[1]} clauses announced", f"{len(clauses)}")
    return Formula(problem[0], tuple(clauses))


def dimacs(formula: Formula) -> str:
    """The formula as a DIMACS text.

    >>> parse_dimacs(dimacs(Formula(2, ((1, -2), ())))) == Formula(2, ((1, -2), ()))
    True
    """
    lines = [f"p cnf {formula.variables} {len(formula.clauses)}"]
    lines += [" ".join(map(str, (*clause, 0))) for clause in formula.clauses]
    return "\n".join(lines) + "\n"


def _problem(name: str, line: int, words: list[str]) -> tuple[int, int]:
    if len(words) != 4 or words[1] != "cnf" or not all(_COUNT.fullmatch(word) for word in words[2:]):
        raise _wrong(name, line, _PROBLEM, " ".join(words)[:80])
    return int(words[2]), int(words[3])


def _literal(name: str, line: int, word: str, variables: int) -> int:
    if not _LITERAL.fullmatch(word):
        raise _wrong(name, line, "an integer without leading zeros or '+', of at most 18 digits", word[:40])
    literal = int(word)
    if abs(literal) > variables:
        raise _wrong(name, line, f"literals up to the {variables} variables announced", literal)
    return literal


def _wrong(name: str, line: int, expected: str, got: object) -> ArgumentError:
    return ArgumentError(f"{name}, line {line}" if line else name, expected=expected, got=got)
