"""Private files that are complete or absent, and locks."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from separatrix import files
from separatrix.files import (
    Held,
    draft_folder,
    drafts_in,
    held,
    hold,
    hold_bytes,
    is_held,
    make_folder,
    put_in_place,
    write_whole,
)


@pytest.fixture
def open_to_all() -> Iterator[None]:
    """The process's umask removes no bit of a mode."""
    before = os.umask(0)
    yield
    os.umask(before)


class Order:
    """Record the calls to the disk between which a power failure may occur."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[tuple[str, str]] = []
        for name in ("fsync", "replace", "mkdir"):
            monkeypatch.setattr(os, name, self.noting(name, getattr(os, name)))

    def noting(self, name: str, call):
        def noted(what, *more, **named):
            path = os.readlink(f"/proc/self/fd/{what}") if isinstance(what, int) else str(more[0] if more else what)
            self.calls.append((name, Path(path).name if not path.endswith(".draft") else "draft"))
            return call(what, *more, **named)

        return noted


@pytest.mark.skipif(sys.platform != "linux", reason="reads the names of open files from /proc")
def test_a_file_is_on_the_disk_before_its_name_and_its_name_before_the_call_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = Order(monkeypatch)
    write_whole(tmp_path / "a" / "b" / "file", b"data")
    assert [call for call in order.calls if call[0] != "mkdir"] == [
        ("fsync", tmp_path.name),
        ("fsync", "a"),
        ("fsync", "draft"),
        ("replace", "file"),
        ("fsync", "b"),
    ]


def test_created_files_are_private(tmp_path: Path, open_to_all: None) -> None:
    write_whole(tmp_path / "new" / "file", b"data")
    os.close(hold(tmp_path / "new" / "lock"))
    for name, mode in {"new": 0o700, "new/file": 0o600, "new/lock": 0o600}.items():
        assert (tmp_path / name).stat().st_mode & 0o777 == mode, name


@pytest.mark.parametrize("call", ["fsync", "replace"])
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_failed_write_leaves_the_old_file_and_no_temporary_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, error: BaseException
) -> None:
    path = tmp_path / "file"
    write_whole(path, b"old")

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(type(error)):
        write_whole(path, b"new")
    assert [(file.name, file.read_bytes()) for file in tmp_path.iterdir()] == [("file", b"old")]


def test_a_folder_is_put_in_place_whole_or_removed(tmp_path: Path) -> None:
    with draft_folder(tmp_path / "made") as draft:
        (draft / "file").write_bytes(b"all")
        assert drafts_in(tmp_path) == [draft]
        put_in_place(draft, tmp_path / "made")
    with pytest.raises(RuntimeError), draft_folder(tmp_path / "failed"):
        raise RuntimeError
    assert [path.relative_to(tmp_path).as_posix() for path in sorted(tmp_path.rglob("*"))] == ["made", "made/file"]
    assert drafts_in(tmp_path) == []


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such locks")
def test_bytes_are_held_by_one_process(run, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    other = (
        "import sys; from separatrix.files import Held, hold_bytes\n"
        "try: hold_bytes(open(sys.argv[1], 'r+b'), int(sys.argv[2]), 10); print('free')\n"
        "except Held: print('held')"
    )
    with path.open("r+b") as file:
        hold_bytes(file, 100, 5)
        assert [run(other, str(path), first).stdout for first in ("80", "95")] == ["free\n", "held\n"]


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such locks")
def test_a_lock_is_held_during_a_block(tmp_path: Path) -> None:
    with held(tmp_path / "lock"):
        assert is_held(tmp_path / "lock")
        with pytest.raises(Held), held(tmp_path / "lock"):
            pass
    assert not is_held(tmp_path / "lock")


def test_a_folder_where_a_file_is(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    make_folder(tmp_path)
    for path in (tmp_path / "file", tmp_path / "file" / "deeper"):
        with pytest.raises(OSError, match=r"File exists|Not a directory"):
            make_folder(path)


def test_a_lock_is_held_by_one_and_let_go_when_its_process_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    assert not is_held(path)
    code = (
        "import sys; from pathlib import Path; from separatrix.files import hold\n"
        "hold(Path(sys.argv[1])); print(); input()"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", code, str(path)], env=_here(), **pipes) as other:
        assert other.stdout.readline() == "\n"
        assert is_held(path)
        with pytest.raises(Held):
            hold(path)
        other.kill()
    assert not is_held(path)
    os.close(hold(path))


def _here() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(files.__file__).parents[1])}


def test_a_lock_whose_file_was_removed_is_created_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, named = tmp_path / "lock", files._is_named
    tries = []

    def removed_at_first(handle: int, place: Path) -> bool:
        tries.append(handle)
        if len(tries) == 1:
            place.unlink()
        return named(handle, place)

    monkeypatch.setattr(files, "_is_named", removed_at_first)
    handle = hold(path)
    assert len(tries) == 2
    assert is_held(path)
    os.close(handle)


def test_a_lock_can_be_waited_for(tmp_path: Path) -> None:
    first = hold(tmp_path / "lock")
    threading.Timer(0.1, os.close, [first]).start()
    os.close(hold(tmp_path / "lock", wait=True))


def test_a_file_is_read_without_nonblocking_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On Windows a file has no such mode, and setting it is an error."""
    (tmp_path / "note").write_bytes(b"all of it")
    monkeypatch.delattr(os, "O_NONBLOCK")
    monkeypatch.delattr(os, "set_blocking")
    assert files.read_at_most(tmp_path / "note", 6) == b"all of"
