"""The strict DIMACS reader, against python-sat's where both accept, and on files that only python-sat accepts."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pysat.formula import CNF

from separatrix.errors import ArgumentError, SeparatrixError
from separatrix.hardness.cnf import Formula
from separatrix.hardness.dimacs import (
    LARGEST_FILE,
    LONGEST_LINE,
    MOST_IDLE_LINES,
    dimacs,
    parse_dimacs,
    read_admitted,
    read_dimacs,
)
from separatrix.hardness.orthogonal_vectors import to_orthogonal_vectors

LITERALS = st.integers(-9, 9).filter(bool)
FORMULAS = st.builds(
    lambda clauses, extra: Formula(
        max([abs(literal) for clause in clauses for literal in clause] + [0]) + extra, clauses
    ),
    st.lists(st.lists(LITERALS, max_size=4).map(tuple), max_size=6).map(tuple),
    st.integers(0, 3),
)


@given(FORMULAS)
def test_written_values_are_read_again(formula: Formula) -> None:
    assert parse_dimacs(dimacs(formula)) == formula


@given(FORMULAS.filter(lambda formula: all(formula.clauses)))
def test_the_reader_agrees_with_python_sat(formula: Formula) -> None:
    assert [list(clause) for clause in parse_dimacs(dimacs(formula)).clauses] == CNF(
        from_string=dimacs(formula)
    ).clauses


@given(FORMULAS, st.randoms(use_true_random=False))
def test_line_ends_may_stand_anywhere_between_words(formula: Formula, random) -> None:
    head, *rest = dimacs(formula).splitlines()
    words = " ".join(rest).split()
    text = head + "\n" + "".join(word + random.choice([" ", "\n", "\t", "\nc a comment\n", "\r\n"]) for word in words)
    assert parse_dimacs(text) == formula


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("", None, "no problem line"),
        ("c nothing\n", 1, "no problem line"),
        ("1 2 0\np cnf 2 1\n", 1, "before any clause"),
        ("p cnf 2 1\np cnf 2 1\n1 0\n", 2, "one problem line"),
        ("p cnf 2\n1 0\n", 1, "VARIABLES CLAUSES"),
        ("p dnf 2 1\n1 0\n", 1, "VARIABLES CLAUSES"),
        ("p cnf -2 1\n1 0\n", 1, "VARIABLES CLAUSES"),
        ("p cnf 2.0 1\n1 0\n", 1, "VARIABLES CLAUSES"),
        (f"p cnf {10**30} 1\n1 0\n", 1, "18 digits"),
        (f"p cnf 2 {LARGEST_FILE}\n1 0\n", 1, "at most 134,217,728 clauses"),
        ("p cnf 2 1\n1 3 0\n", 2, "the 2 variables announced, got 3"),
        ("p cnf 2 1\n1 -3 0\n", 2, "the 2 variables announced, got -3"),
        ("p cnf 2 2\n1 0\n", 2, "the 2 clauses announced, got 1"),
        ("p cnf 2 1\n1 0\n2 0\n", 3, "nothing after the 1 clauses announced, got 2"),
        ("p cnf 2 1\n1 0\n%\n0\n", 3, "SATLIB"),
        ("p cnf 2 1\n1 2\n", 2, "a 0 that ends the last clause"),
        ("p cnf 2 1\n1 x 0\n", 2, "an integer"),
        ("p cnf 2 1\n+1 0\n", 2, "an integer"),
        ("p cnf 2 1\n01 0\n", 2, "an integer"),
        ("p cnf 2 1\n-0 1 0\n", 2, "an integer"),
        ("p cnf 2 1\n1 00\n", 2, "an integer"),
        ("p cnf 2 1\ncomment 1 0\n", 2, "an integer"),
        (f"p cnf 2 1\n{'9' * 5000} 0\n", 2, "an integer"),
        ("p cnf 2 1\n1 2 0 c trailing\n", 2, "nothing after"),
    ],
)
def test_malformed_files_are_refused_with_the_line(tmp_path: Path, text: str, line: int | None, what: str) -> None:
    file = tmp_path / "bad.cnf"
    file.write_text(text)
    with pytest.raises(ArgumentError, match=what) as caught:
        read_dimacs(file)
    assert caught.value.argument == (str(file) if line is None else f"{file}, line {line}")
    assert len(str(caught.value)) < 400


@pytest.mark.filterwarnings("ignore")
def test_python_sat_accepts_files_that_are_refused_here() -> None:
    """python-sat accepts invalid files, which is why it is not used as the reader."""
    assert CNF(from_string="p cnf 2 3\n1 0\n2 0\n").clauses == [[1], [2]]
    assert CNF(from_string="p cnf 2 1\n1 5 0\n").clauses == [[1, 5]]


def test_a_missing_file_a_folder_and_other_bytes(tmp_path: Path) -> None:
    with pytest.raises(SeparatrixError, match=r"none\.cnf cannot be read: No such file or directory\.$"):
        read_dimacs(tmp_path / "none.cnf")
    with pytest.raises(SeparatrixError, match="cannot be read: Is a directory"):
        read_dimacs(tmp_path)
    (tmp_path / "bytes.cnf").write_bytes(b"p cnf 1 1\nc caf\xe9\n1 0\n")
    with pytest.raises(ArgumentError, match=r"line 2: expected ASCII text, got the byte 0xe9"):
        read_dimacs(tmp_path / "bytes.cnf")


def test_other_characters_in_a_text() -> None:
    with pytest.raises(ArgumentError, match=r"line 2: expected ASCII text, got the character 0x2212"):
        parse_dimacs("p cnf 1 1\n\N{MINUS SIGN}1 0\n")


@given(FORMULAS, st.sampled_from(["\n", "\r\n", "\r"]))
def test_a_file_and_its_text_give_the_same_formula(tmp_path_factory, formula: Formula, end: str) -> None:
    text = f"c first{end}" + dimacs(formula).replace("\n", end)
    file = tmp_path_factory.mktemp("alike") / "one.cnf"
    file.write_bytes(text.encode())
    assert read_dimacs(file) == parse_dimacs(text) == formula


def test_a_large_file_is_refused_unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sparse file: it takes no disk space, and would take a gigabyte of memory if it were read."""
    file = tmp_path / "large.cnf"
    with file.open("wb") as sparse:
        sparse.truncate(LARGEST_FILE + 1)
    monkeypatch.setattr("separatrix.hardness.dimacs._lines", lambda file, name: pytest.fail("it was read"))
    with pytest.raises(ArgumentError, match="at most 268,435,456 bytes, got 268,435,457"):
        read_dimacs(file)


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="no endless file here")
def test_an_endless_line_is_refused() -> None:
    with pytest.raises(ArgumentError, match=f"line 1: expected at most {LONGEST_LINE:,} characters"):
        read_dimacs("/dev/zero")


@pytest.mark.parametrize("idle", ["\n", "c\n", " \t\n"])
def test_blank_lines_and_comments_without_end_are_refused(idle: str) -> None:
    most = MOST_IDLE_LINES
    assert parse_dimacs("p cnf 1 1\n" + idle * 1000 + "1 0\n") == Formula(1, ((1,),))
    with pytest.raises(ArgumentError, match=rf"line {most + 2}: expected at most {most:,} blank lines and comments"):
        parse_dimacs("p cnf 1 1\n" + idle * (most + 9) + "1 0\n")


def test_streams_without_a_size_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    text = dimacs(Formula(1, ((1,),) * 9))
    monkeypatch.setattr("separatrix.hardness.dimacs.LARGEST_FILE", len(text))
    assert len(parse_dimacs(text).clauses) == 9
    with pytest.raises(ArgumentError, match=f"line 11: expected at most {len(text)} characters up to here"):
        parse_dimacs(text + "c more\nc\n")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_named_pipe_is_read_if_someone_writes_it_and_refused_if_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe, formula = tmp_path / "pipe.cnf", Formula(9, ((1, -2),) * 9)
    os.mkfifo(pipe)
    with pytest.raises(SeparatrixError, match=r"pipe\.cnf cannot be read: it is a pipe that no program writes"):
        read_dimacs(pipe)
    opened, open_file = threading.Event(), os.open

    def open_and_tell(*arguments: Any, **options: Any) -> int:
        handle = open_file(*arguments, **options)
        opened.set()
        return handle

    monkeypatch.setattr(os, "open", open_and_tell)
    for early in (True, False):
        writer = open_file(pipe, os.O_RDWR)  # does not wait for a reader
        opened.clear()

        def write(end: int = writer, early: bool = early) -> None:
            if early:
                os.write(end, dimacs(formula).encode())
            opened.wait()  # data written and closed before anyone reads it is lost
            if not early:
                os.write(end, dimacs(formula).encode())
            os.close(end)

        threading.Thread(target=write).start()
        assert read_dimacs(pipe) == formula


def calls_of(function: Callable[[], object]) -> int:
    """The number of function calls, in Python or in C."""
    count = 0

    def note(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(None)
    return count


def test_a_clause_of_many_literals_takes_as_many_steps_as_one_of_few() -> None:
    """If each literal took a step in Python, long clauses would take seconds."""
    texts = [f"p cnf 9 1\n{'1 -2 ' * count}0\n" for count in (10, 50_000)]
    assert parse_dimacs(texts[1]).clauses == ((1, -2) * 50_000,)
    read = [calls_of(lambda text=text: parse_dimacs(text)) for text in texts]
    assert read[0] == read[1]
    formulas = [parse_dimacs(text) for text in texts]
    calls = [calls_of(lambda formula=formula: to_orthogonal_vectors(formula)) for formula in formulas]
    assert calls[0] == calls[1]


def test_a_word_after_the_last_clause_is_reported_anywhere() -> None:
    for text in ("p cnf 2 1\n1 0 2 0\n", "p cnf 2 1\n1\n0 2\n", "p cnf 2 1\n1 0 0\n", "p cnf 2 1\n1 0 9\n"):
        with pytest.raises(ArgumentError, match="nothing after the 1 clauses announced"):
            parse_dimacs(text)
    with pytest.raises(ArgumentError, match="2 variables announced, got 9"):
        parse_dimacs("p cnf 2 1\n1 9 0 x\n")


def test_announced_sizes_can_be_refused_before_the_clauses_are_read(tmp_path: Path) -> None:
    file = tmp_path / "announced.cnf"
    file.write_text("c first\np cnf 4 3\nno clause\n")

    def refuse(variables: int, clauses: int) -> None:
        raise ArgumentError("counts", expected="fewer", got=(variables, clauses))

    with pytest.raises(ArgumentError, match=r"counts: expected fewer, got \(4, 3\)"):
        read_admitted(file, refuse)
    with pytest.raises(ArgumentError, match="line 3: expected an integer"):
        read_admitted(file, lambda variables, clauses: None)
