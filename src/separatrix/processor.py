"""Properties of the processor, and a defect of some virtual machines."""

from __future__ import annotations

import platform
from pathlib import Path

_TILE_LEAF = 0x1D
"""The leaf of CPUID that describes the tiles of AMX."""

ONEDNN_WITHOUT_AMX = "AVX512_CORE_FP16"
"""The value of ONEDNN_MAX_CPU_ISA that disables AMX in PyTorch's matrix products."""


def processor_name(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """The model name of the processor, with its family, because virtual machines may shorten the name.

    AMD's family 25 is Zen 3 and Zen 4, and its family 26 is Zen 5.
    """
    fields = _fields(cpuinfo)
    name = fields.get("model name") or platform.processor() or platform.machine()
    return f"{name}, family {fields['cpu family']}" if "cpu family" in fields else name


def amx_is_incomplete(cpuinfo: Path = Path("/proc/cpuinfo")) -> bool:
    """Whether the processor reports AMX without the CPUID leaf that describes its tiles.

    Some hypervisors do. oneDNN then configures tiles of a wrong shape, and the first large bfloat16 product of PyTorch
    ends the process with an illegal instruction.
    """
    fields = _fields(cpuinfo)
    return "amx_tile" in fields.get("flags", "").split() and int(fields.get("cpuid level", _TILE_LEAF)) < _TILE_LEAF


def _fields(cpuinfo: Path) -> dict[str, str]:
    """The entries of /proc/cpuinfo for the first processor; empty on systems without this file."""
    if not cpuinfo.exists():
        return {}
    first, _, _ = cpuinfo.read_text().partition("\n\n")
    pairs = (line.partition(":") for line in first.splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}
