"""The GPUs that the kernels are compiled for: the limits of a multiprocessor, and the peaks of the largest model.

The limits are those of the CUDA programming guide (compute capabilities 8.0 and 9.0) and of AMD's description of CDNA3;
the peaks are from the data sheets of A100 SXM, H100 SXM and MI300X, dense and at the boost clock; float64 is without
matrix units.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Target:
    """A GPU that is compiled for.

    Attributes:
        name: The name that its compiler knows it by.
        vendor: "cuda" or "hip".
        arch: The architecture as Triton names it.
        lanes: Threads of a warp.
        shared: The largest number of bytes of shared memory that one program may have.
        shared_total: That of a multiprocessor, which its programs divide among them.
        registers: Vector registers of 32 bits for each lane of a scheduler, to be divided among its warps.
        warps: The largest number of warps of a scheduler.
        schedulers: Schedulers of a multiprocessor.
        granule: Registers are given out in multiples of this.
        tera: Peak of 10^12 floating-point operations a second, for each kind of product.
        exponentials: Peak of 10^12 exponentials of float32 a second.
    """

    name: str
    vendor: str
    arch: int | str
    lanes: int
    shared: int
    shared_total: int
    registers: int
    warps: int
    schedulers: int
    granule: int
    tera: dict[str, float]
    exponentials: float

    def programs(self, registers: int, shared: int, warps: int) -> int:
        """How many programs a multiprocessor holds at once.

        >>> TARGETS["sm_80"].programs(registers=128, shared=32768, warps=4)
        4
        """
        per_scheduler = min(self.warps, self.registers // (math.ceil(max(registers, 1) / self.granule) * self.granule))
        by_registers = per_scheduler * self.schedulers // warps
        return min(by_registers, self.shared_total // shared if shared else by_registers)

    def occupancy(self, registers: int, shared: int, warps: int) -> float:
        """The share of a multiprocessor's warps that programs with these needs fill.

        >>> TARGETS["sm_80"].occupancy(registers=128, shared=32768, warps=4)
        0.25
        """
        return self.programs(registers, shared, warps) * warps / (self.warps * self.schedulers)


KIB = 1024
TARGETS = {
    target.name: target
    for target in (
        Target(
            "sm_80", "cuda", 80, 32, 163 * KIB, 164 * KIB, 512, 16, 4, 8,
            {"bfloat16": 312.0, "float16": 312.0, "tf32": 156.0, "float32": 19.5, "float64": 9.7},
            108 * 16 * 1.41e-3,
        ),
        Target(
            "sm_90", "cuda", 90, 32, 227 * KIB, 228 * KIB, 512, 16, 4, 8,
            {"bfloat16": 989.0, "float16": 989.0, "tf32": 494.0, "float32": 67.0, "float64": 33.5},
            132 * 16 * 1.83e-3,
        ),
        Target(
            "gfx942", "hip", "gfx942", 64, 64 * KIB, 64 * KIB, 512, 8, 4, 8,
            {"bfloat16": 1307.0, "float16": 1307.0, "float32": 163.4, "float64": 81.7},
            304 * 16 * 2.1e-3,
        ),
    )
}  # fmt: skip
