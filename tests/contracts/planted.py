"""Errors planted in Triton kernels, one at a time, to show that a check detects each of them."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from separatrix.errors import SeparatrixError


@dataclass(frozen=True)
class Planted:
    """An error: its file, the replaced text, the replacement, and the check that detects it."""

    file: str
    right: str
    wrong: str
    check: Callable[[], None]


@contextmanager
def copied(package: str, folder: Path) -> Iterator[Path]:
    """A copy of a package's kernels, from which they are imported temporarily."""
    copy = folder / "programs"
    shutil.copytree(Path(sys.modules[package].__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in sys.modules if name.startswith(f"{package}.")]:
            patch.delitem(sys.modules, name)
        patch.setattr(sys.modules[package], "__path__", [str(copy)])
        yield copy
        for name in [name for name in sys.modules if name.startswith(f"{package}.")]:
            del sys.modules[name]


def assert_seen(planted: Planted, programs: Path) -> None:
    """Plant an error in a copy of the kernels, and assert that its check fails."""
    file = programs / f"{planted.file}.py"
    source = file.read_text()
    assert planted.right in source
    file.write_text(source.replace(planted.right, planted.wrong))
    with pytest.raises((AssertionError, SeparatrixError)):
        planted.check()


def seen_by(
    package: str, checks: Sequence[Callable[[], None]], errors: Mapping[str, Planted]
) -> tuple[Any, Callable[..., None], Callable[..., None]]:
    """The contents of a test module, to be assigned there under these names: a fixture and two tests.

    Args:
        package: The package of the kernels.
        checks: All checks; each passes on the kernels without an error. errors: The errors by their descriptions.
    """

    @pytest.fixture
    def programs(tmp_path: Path) -> Iterator[Path]:
        """A copy of the kernels, from which they are imported during a test."""
        with copied(package, tmp_path) as copy:
            yield copy

    @pytest.mark.parametrize("check", checks)
    def test_the_checks_pass_without_one(check: Callable[[], None], programs: Path) -> None:
        check()

    @pytest.mark.parametrize("planted", errors.values(), ids=list(errors))
    def test_a_planted_error_is_detected(planted: Planted, programs: Path) -> None:
        assert_seen(planted, programs)

    return programs, test_the_checks_pass_without_one, test_a_planted_error_is_detected
