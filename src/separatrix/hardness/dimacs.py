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

A file is read line by line, so that what it announces can be refused before its clauses are read.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TextIO

from separatrix.errors import ArgumentError
from separatrix.hardness.cnf import Formula

_LITERAL = re.compile(r"-?[1-9][0-9]{0,17}")
_COUNT = re.compile(r"0|[1-9][0-9]{0,17}")
_PROBLEM = "'p cnf VARIABLES CLAUSES', two counts of at most 18 digits"


LARGEST_FILE = 1 << 28
"""Bytes of a file, at most: 256 MiB, whose formula takes a few gigabytes."""
LONGEST_LINE = 1 << 24
"""Characters of a line, at most; a clause may take several lines."""


def read_dimacs(path: str | Path) -> Formula:
    """The formula in a file of at most 256 MiB."""
    return read_admitted(path, lambda variables, clauses: None)


def read_admitted(path: str | Path, admit: Callable[[int, int], object]) -> Formula:
    """The same; `admit` is given the numbers of variables and clauses announced, and may raise before any is read."""
    try:
        with open(path, encoding="ascii", errors="surrogateescape") as file:
            size = os.fstat(file.fileno()).st_size
            if size > LARGEST_FILE:
                raise ArgumentError(str(path), expected=f"a file of at most {LARGEST_FILE:,} bytes", got=f"{size:,}")
            return _formula(file, str(path), admit)
    except OSError as error:
        raise ArgumentError(str(path), expected="a DIMACS file that can be read", got=str(error.strerror)) from None


def parse_dimacs(text: str, *, name: str = "the text") -> Formula:
    """The formula in a text; `name` is what an error calls it.

    >>> parse_dimacs("p cnf 3 2\\n1 -3 0\\n2 3 -1 0\\n")
    Formula(variables=3, clauses=((1, -3), (2, 3, -1)))
    >>> parse_dimacs("p cnf 3 2\\n1 -3 0\\n2 3 -1\\n")
    Traceback (most recent call last):
        ...
    separatrix.errors.ArgumentError: the text, line 3: expected a 0 that ends the last clause, got the end of the text.
    """
    return _formula(io.StringIO(text, newline=None), name, lambda variables, clauses: None)


def _formula(file: TextIO, name: str, admit: Callable[[int, int], object]) -> Formula:
    problem: tuple[int, int] | None = None
    clauses: list[tuple[int, ...]] = []
    clause: list[int] = []
    line = 0
    for line, content in _lines(file, name):
        words = content.split()
        if not words or words[0] == "c":
            continue
        if words[0] == "p":
            if problem is not None:
                raise _wrong(name, line, "one problem line", "another")
            problem = _problem(name, line, words)
            admit(*problem)
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


def _lines(file: TextIO, name: str) -> Iterator[tuple[int, str]]:
    """Each line with its number. The sizes are checked here too: a pipe or a device does not tell its own."""
    line, left = 0, LARGEST_FILE
    while content := file.readline(LONGEST_LINE + 1):
        line, left = line + 1, left - len(content)
        if len(content) > LONGEST_LINE:
            raise _wrong(name, line, f"at most {LONGEST_LINE:,} characters", "more")
        if left < 0:
            raise _wrong(name, line, f"at most {LARGEST_FILE:,} characters up to here", "more")
        if not content.isascii():
            other = next(ord(character) for character in content if not character.isascii())
            # An undecodable byte b comes as the character 0xdc00 + b.
            got = f"the byte {other - 0xDC00:#04x}" if 0xDC80 <= other <= 0xDCFF else f"the character {other:#x}"
            raise _wrong(name, line, "ASCII text", got)
        yield line, content


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
    clauses = int(words[3])
    if 2 * clauses > LARGEST_FILE:  # each has at least its 0 and what separates it from the next
        raise _wrong(name, line, f"at most {LARGEST_FILE // 2:,} clauses", f"{clauses:,}")
    return int(words[2]), clauses


def _literal(name: str, line: int, word: str, variables: int) -> int:
    if not _LITERAL.fullmatch(word):
        raise _wrong(name, line, "an integer without leading zeros or '+', of at most 18 digits", word[:40])
    literal = int(word)
    if abs(literal) > variables:
        raise _wrong(name, line, f"literals up to the {variables} variables announced", literal)
    return literal


def _wrong(name: str, line: int, expected: str, got: object) -> ArgumentError:
    return ArgumentError(f"{name}, line {line}" if line else name, expected=expected, got=got)
