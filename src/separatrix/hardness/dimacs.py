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

A file is read line by line, so that what it announces can be refused before its clauses are read. The time it takes
grows with the length of the file and no faster.
"""

from __future__ import annotations

import io
import os
import re
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TextIO

from separatrix.errors import ArgumentError
from separatrix.files import read_at_most
from separatrix.hardness.cnf import Formula

_NO_NUMBER = re.compile(r"(?<!\S)(?!(?:0|-?[1-9][0-9]{0,17})(?!\S))\S")
"""The beginning of a word that is neither a literal nor 0."""
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
    """The same; `admit` is given the numbers of variables and clauses announced, and may raise before any is read.

    A pipe is read to its end first; a named one that no program writes is refused.
    """
    try:
        about = os.stat(path)
        if about.st_size > LARGEST_FILE:
            expected = f"a file of at most {LARGEST_FILE:,} bytes"
            raise ArgumentError(str(path), expected=expected, got=f"{about.st_size:,}")
        if stat.S_ISFIFO(about.st_mode):
            text = read_at_most(Path(path), LARGEST_FILE + 1).decode("ascii", "surrogateescape")
            return _formula(io.StringIO(text, newline=None), str(path), admit)
        with open(path, encoding="ascii", errors="surrogateescape") as file:
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
        numbers = _numbers(content, words, problem[0])
        if numbers is None or len(clauses) + numbers.count(0) + (numbers[-1] != 0) > problem[1]:
            raise _first_wrong(name, line, words, problem, len(clauses))
        start = 0
        for _ in range(numbers.count(0)):
            end = numbers.index(0, start)
            clauses.append((*clause, *numbers[start:end]))
            clause, start = [], end + 1
        clause += numbers[start:]
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


def _numbers(content: str, words: list[str], variables: int) -> list[int] | None:
    """The literals and zeros of a line, or None if one of its words is neither."""
    if _NO_NUMBER.search(content):
        return None
    numbers = list(map(int, words))
    return numbers if -variables <= min(numbers) and max(numbers) <= variables else None


def _first_wrong(name: str, line: int, words: list[str], problem: tuple[int, int], clauses: int) -> ArgumentError:
    """What is wrong first with a line of clauses that has something wrong, when `clauses` came before it."""
    variables, announced = problem
    for word in words:
        if clauses == announced:
            hint = " (files of SATLIB end with '%' and 0: delete them)" if word == "%" else ""
            return _wrong(name, line, f"nothing after the {announced} clauses announced", f"{word[:40]}{hint}")
        if _NO_NUMBER.search(word):
            return _wrong(name, line, "an integer without leading zeros or '+', of at most 18 digits", word[:40])
        if abs(int(word)) > variables:
            return _wrong(name, line, f"literals up to the {variables} variables announced", word)
        clauses += word == "0"
    raise AssertionError(f"nothing is wrong with {words}")


def _wrong(name: str, line: int, expected: str, got: object) -> ArgumentError:
    return ArgumentError(f"{name}, line {line}" if line else name, expected=expected, got=got)
