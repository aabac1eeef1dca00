"""What a disk may hold after a power cut, computed from the calls by which a process changed it.

A system may lose whatever it was not told to flush: the bytes of a file since its last `fsync`, and the names in a
folder since the folder's. It may also have kept a name and lost the bytes. Both are tried.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Call:
    """A call: what it was (write, sync, truncate, rename, link, unlink or mkdir, by its first letter), and on what."""

    what: str
    inode: int
    offset: int
    path: str
    other: str
    data: bytes


def calls(log: bytes) -> Iterator[Call]:
    """The calls that `failing_disk.c` wrote down."""
    at = 0
    while at < len(log):
        end = log.index(b"\n", at)
        what, inode, offset, size, path, other = log[at:end].decode().split("\t")
        at = end + 1 + int(size)
        yield Call(what, int(inode), int(offset), path, other, log[end + 1 : at])


@dataclass
class Disk:
    """The files below a folder: as the process sees them, and as they are on the disk for sure."""

    files: dict[str, int] = field(default_factory=dict)
    folders: set[str] = field(default_factory=set)
    contents: dict[int, bytearray] = field(default_factory=dict)
    sure_files: dict[str, int] = field(default_factory=dict)
    sure_folders: set[str] = field(default_factory=set)
    sure_contents: dict[int, bytes] = field(default_factory=dict)
    made: int = 0

    def do(self, call: Call) -> None:
        """Let a call have its effect."""
        path = call.path
        match call.what:
            case "m":
                self.folders.add(path)
            case "r" if path in self.files:
                self.files[call.other] = self.files.pop(path)
            case "l":
                self.files[call.other] = self.files[path]
            case "u":
                self.files.pop(path, None)
                self.folders.discard(path)
            case "s" if call.other == "folder":
                self.flush_names(path)
            case "s":
                self.sure_contents[self.number(path)] = bytes(self.contents[self.number(path)])
            case "t":
                content = self.contents[self.number(path)]
                content[call.offset :] = bytes(max(0, call.offset - len(content)))
            case "w" if not path.endswith(" (deleted)"):
                content = self.contents[self.number(path)]
                content.extend(bytes(max(0, call.offset - len(content))))
                content[call.offset : call.offset + len(call.data)] = call.data

    def number(self, path: str) -> int:
        """The file of a name, which is made when it is first written."""
        if path not in self.files:
            self.made += 1
            self.files[path] = self.made
            self.contents[self.made] = bytearray()
        return self.files[path]

    def flush_names(self, folder: str) -> None:
        """Bring the names in a folder to the disk."""

        def inside(path: str) -> bool:
            return str(Path(path).parent) == folder

        self.sure_files = {path: number for path, number in self.sure_files.items() if not inside(path)}
        self.sure_files |= {path: number for path, number in self.files.items() if inside(path)}
        self.sure_folders = {path for path in self.sure_folders if not inside(path)}
        self.sure_folders |= {path for path in self.folders if inside(path)}

    def left(self, above: str, target: Path, *, names_are_early: bool) -> None:
        """Write into `target` what is left of the files below `above` after a power cut."""
        files = self.files if names_are_early else self.sure_files
        folders = self.folders if names_are_early else self.sure_folders
        target.mkdir(parents=True)
        for folder in sorted(folders):
            place = target / Path(folder).relative_to(above)
            if place.parent.is_dir():
                place.mkdir(exist_ok=True)
        for path, number in files.items():
            place = target / Path(path).relative_to(above)
            if place.parent.is_dir() and not path.endswith("-shm"):  # which SQLite makes anew
                place.write_bytes(self.sure_contents.get(number, b""))
