"""A strict reader of DIMACS files: it returns the formula, or raises an error that names the line and what is wrong.

An example of a file::

    c a comment: a line that is "c" or begins with "c "
    p cnf 3 2
    1 -3 0
    2 3
    -1 0

There is one problem line, before the clauses; then exactly as many clauses as it announces, each ended by 0, on one
line or several; and no literal beyond the number of variables. Many solvers accept a wrong count, a last clause without
its 0, or text after it. Here these are errors, because a truncated file would be decided as a different formula.

A file is read line by line, so that a formula that is too large can be refused before its clauses are read. The time
is linear in the length of the file.
"""

from __future__ import annotations

import io
import os
import re
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TextIO

from separatrix.errors import ArgumentError, SeparatrixError
from separatrix.files import read_at_most
from separatrix.hardness.cnf import Formula

_NO_NUMBER = re.compile(r"(?<!\S)(?!(?:0|-?[1-9][0-9]{0,17})(?!\S))\S")
"""Finds the beginning of a word that is neither a literal nor 0."""
_COUNT = re.compile(r"0|[1-9][0-9]{0,17}")
_PROBLEM = "'p cnf VARIABLES CLAUSES', two counts of at most 18 digits"

LARGEST_FILE = 1 << 28
"""The largest number of bytes of a file: 256 MiB, whose formula takes a few gigabytes of memory."""
LONGEST_LINE = 1 << 24
"""The largest number of characters of a line; a clause may take several lines."""
MOST_IDLE_LINES = 1 << 20
"""The largest number of blank lines and comments, which take a second to read."""


def read_dimacs(path: str | Path) -> Formula:
    """Read the formula in a DIMACS file of at most 256 MiB.

    Raises:
        ArgumentError: if the file cannot be read, or is not in the format described in the module's docstring.
    """
    return read_admitted(path, lambda variables, clauses: None)


def read_admitted(path: str | Path, admit: Callable[[int, int], object]) -> Formula:
    """Read the formula in a DIMACS file, unless `admit` raises an error for its size.

    A pipe is read to its end first; a named pipe that no program writes to is an error.

    Args:
        path: the file.
        admit: it is called with the announced numbers of variables and clauses before any clause is read.
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
        raise SeparatrixError(f"{path} cannot be read: {error.strerror}.") from None


def parse_dimacs(text: str, *, name: str = "the text") -> Formula:
    """Read the formula in a DIMACS text.

    Args:
        text: the text.
        name: the name of the text in error messages.

    Raises:
        ArgumentError: if the text is not in the format described in the module's docstring.

    Example:
        >>> parse_dimacs("p cnf 3 2\\n1 -3 0\\n2 3 -1 0\\n")
        Formula(variables=3, clauses=((1, -3), (2, 3, -1)))
        >>> parse_dimacs("p cnf 3 2\\n1 -3 0\\n2 4 -1 0\\n")
        Traceback (most recent call last):
            ...
        separatrix.errors.ArgumentError: the text, line 3: expected literals up to the 3 variables announced, got 4.
    """
    return _formula(io.StringIO(text, newline=None), name, lambda variables, clauses: None)


def _formula(file: TextIO, name: str, admit: Callable[[int, int], object]) -> Formula:
    problem: tuple[int, int] | None = None
    clauses: list[tuple[int, ...]] = []
    clause: list[int] = []
    line = idle = 0
    for line, content in _lines(file, name):
        words = content.split()
        if not words or words[0] == "c":
            idle += 1
            if idle > MOST_IDLE_LINES:
                raise _wrong(name, line, f"at most {MOST_IDLE_LINES:,} blank lines and comments", "more")
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
    """Each line with its number. The sizes are checked here too, since the size of a pipe or a device is not known."""
    line, left = 0, LARGEST_FILE
    while content := file.readline(LONGEST_LINE + 1):
        line, left = line + 1, left - len(content)
        if len(content) > LONGEST_LINE:
            raise _wrong(name, line, f"at most {LONGEST_LINE:,} characters", "more")
        if left < 0:
            raise _wrong(name, line, f"at most {LARGEST_FILE:,} characters up to here", "more")
        if not content.isascii():
            code = next(ord(character) for character in content if not character.isascii())
            # An undecodable byte b is represented by the character 0xdc00 + b.
            got = f"the byte {code - 0xDC00:#04x}" if 0xDC80 <= code <= 0xDCFF else f"the character {code:#x}"
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
    if 2 * clauses > LARGEST_FILE:  # a clause has at least a 0 and a separator
        raise _wrong(name, line, f"at most {LARGEST_FILE // 2:,} clauses", f"{clauses:,}")
    return int(words[2]), clauses


def _numbers(content: str, words: list[str], variables: int) -> list[int] | None:
    """The literals and zeros of a line, or None if one of its words is neither."""
    if _NO_NUMBER.search(content):
        return None
    numbers = list(map(int, words))
    return numbers if -variables <= min(numbers) and max(numbers) <= variables else None


def _first_wrong(name: str, line: int, words: list[str], problem: tuple[int, int], clauses: int) -> ArgumentError:
    """The error for the first wrong word in a line of clauses, where `clauses` clauses ended before the line."""
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
