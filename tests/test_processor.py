"""Reading the fields of Linux's /proc/cpuinfo."""

from __future__ import annotations

import pytest

from separatrix.processor import amx_is_incomplete, processor_name


@pytest.mark.parametrize(
    ("flags", "level", "incomplete"),
    [("fpu amx_bf16 amx_tile", 28, True), ("fpu amx_bf16 amx_tile", 31, False), ("fpu avx2", 16, False)],
)
def test_amx_needs_the_description_of_its_tiles(tmp_path, flags, level, incomplete):
    file = tmp_path / "cpuinfo"
    first = f"model name\t: Some Processor\ncpuid level\t: {level}\nflags\t\t: {flags}\n"
    file.write_text(first + "\nmodel name\t: Another\ncpuid level\t: 28\nflags\t: amx_tile\n")
    assert amx_is_incomplete(file) is incomplete
    assert processor_name(file) == "Some Processor"


def test_the_name_has_the_family(tmp_path):
    file = tmp_path / "cpuinfo"
    file.write_text("model name\t: AMD EPYC\ncpu family\t: 26\n")
    assert processor_name(file) == "AMD EPYC, family 26"


def test_a_system_without_the_file_has_no_such_fault(tmp_path):
    assert not amx_is_incomplete(tmp_path / "missing")
    assert processor_name(tmp_path / "missing")
