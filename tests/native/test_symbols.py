"""The exports of the shared library, and the symbols that the linker may share between two architectures.

A function template of the standard library that kernels for AVX-512 instantiate is a weak symbol, which the linker
merges with the same symbol of the baseline; a processor without AVX-512 would then run it. So all symbols of an
architecture are in its own namespace.
"""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(shutil.which("nm") is None, reason="nm, of binutils, is not installed")
# The unwinding routine of exceptions is named in every object, and has no code there.
NAMED_EVERYWHERE = {"DW.ref.__gxx_personality_v0"}


def symbols(file: Path, *options: str) -> Iterator[tuple[str, str]]:
    """Kind and name of each symbol that a file defines."""
    said = subprocess.run(["nm", "-C", "--defined-only", *options, file], capture_output=True, text=True, check=True)
    for line in said.stdout.splitlines():
        if match := re.match(r"[0-9a-f]* +([A-Za-z]) (.*)", line):
            yield match[1], match[2]


def merged(file: Path, architecture: str) -> set[str]:
    """The symbols that the linker may merge with another object's, outside the architecture's namespace.

    A name may begin with the return type of a function, or with a note of the compiler; the relevant part is the
    namespace of the function or of a type that it is a template of.
    """
    weak = {name for kind, name in symbols(file) if kind in "WVu"}
    return {name for name in weak if f"separatrix::{architecture}::" not in name} - NAMED_EVERYWHERE


def test_nothing_is_exported_but_the_interface(library: ctypes.CDLL, root: Path) -> None:
    exported = {name for _, name in symbols(Path(library._name), "--dynamic")}
    declared = set(re.findall(r"\b(separatrix_\w+)\(", (root / "csrc" / "separatrix.h").read_text()))
    assert exported == declared


def test_architectures_share_no_code(root: Path) -> None:
    """The test reads the object files that `make native` leaves in the build folder."""
    found = sorted((root / "build" / "native").rglob("kernels.cpp.o"))
    if not found:
        pytest.skip("There are no objects of the kernels here; `make native` makes them.")
    for file in found:
        name = file.parent.name.removeprefix("kernels_").removesuffix(".dir")
        assert any(f"separatrix::{name}::" in symbol for _, symbol in symbols(file))
        assert merged(file, name) == set()


def test_products_of_tiles_are_compiled(root: Path) -> None:
    """No processor of the tests supports them, so the object file is inspected for the instruction."""
    objects = list((root / "build" / "native").rglob("kernels_avx512_amx.dir/kernels.cpp.o"))
    if not objects or shutil.which("objdump") is None:
        pytest.skip("There is no object of these kernels here, or nothing to disassemble it with.")
    lines = subprocess.run(["objdump", "-d", *objects], capture_output=True, text=True, check=True).stdout
    for instruction in ("ldtilecfg", "tileloadd", "tdpbf16ps", "tilestored"):
        assert instruction in lines


def test_shared_code_is_detected(tmp_path: Path) -> None:
    compiler = shutil.which("c++")
    if compiler is None:
        pytest.skip("There is no C++ compiler.")
    source = tmp_path / "shared.cpp"
    source.write_text(
        "#include <vector>\n"
        "namespace separatrix { namespace own { struct Row { int n; };\n"
        "int f(int n) { std::vector<double> a(n); a.resize(2 * n); return static_cast<int>(a.size()); }\n"
        "int g(int n) { std::vector<Row> a(n); a.resize(2 * n); return static_cast<int>(a.size()); } } }\n"
    )
    subprocess.run([compiler, "-O0", "-c", "-o", tmp_path / "shared.o", source], check=True)
    names = merged(tmp_path / "shared.o", "own")
    assert any("std::vector<double" in name for name in names)
    assert not any("own::Row" in name for name in names)
