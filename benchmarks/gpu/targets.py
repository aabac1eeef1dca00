"""The GPUs that the kernels are compiled for: the limits of a multiprocessor, and the peaks of the largest model.

The limits are those of the CUDA programming guide, by compute capability, and of AMD's descriptions of CDNA2 and CDNA3.
The peaks are from the data sheets of A100 SXM, A40, L40S, H100 SXM, B200, B300, RTX PRO 6000 Blackwell, one die of
MI250X, and MI300X, dense and at the boost clock; those of float64 are without matrix units.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Target:
    """A GPU for which the kernels are compiled.

    Attributes:
        name: The name of the GPU in its compiler.
        vendor: "cuda" or "hip".
        arch: The architecture as Triton names it.
        lanes: Threads of a warp.
        shared: The largest number of bytes of shared memory that one program may have.
        shared_total: Bytes of shared memory of a multiprocessor, which its programs share.
        registers: Vector registers of 32 bits for each lane of a scheduler, to be divided among its warps.
        warps: The largest number of warps of a scheduler.
        schedulers: Schedulers of a multiprocessor.
        granule: Registers are allocated in multiples of this number.
        tera: The peak throughput in 10^12 floating-point operations per second, for each kind of product.
        processors: Multiprocessors.
        clock: The boost clock, in 10^9 cycles a second.
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
    processors: int
    clock: float

    @property
    def exponentials(self) -> float:
        """The peak throughput in 10^12 float32 exponentials per second: 16 per cycle and multiprocessor."""
        return self.processors * 16 * self.clock * 1e-3

    @property
    def issued(self) -> float:
        """The peak of 10^12 thread instructions per second: a scheduler issues one warp instruction per cycle.

        A warp of an AMD GPU has 64 threads, and an instruction takes 4 cycles on 16 lanes.
        """
        lanes = self.lanes if self.vendor == "cuda" else 16
        return self.processors * self.schedulers * lanes * self.clock * 1e-3

    def programs(self, registers: int, shared: int, warps: int) -> int:
        """How many programs a multiprocessor holds at once.

        >>> TARGETS["sm_80"].programs(registers=128, shared=32768, warps=4)
        4
        """
        per_scheduler = min(self.warps, self.registers // (math.ceil(max(registers, 1) / self.granule) * self.granule))
        by_registers = per_scheduler * self.schedulers // warps
        return min(by_registers, self.shared_total // shared if shared else by_registers)

    def occupancy(self, registers: int, shared: int, warps: int) -> float:
        """The occupancy: the share of a multiprocessor's warps that programs with these requirements fill.

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
            {"bfloat16": 312.0, "float16": 312.0, "tf32": 156.0, "float32": 19.5, "float64": 9.7}, 108, 1.41,
        ),
        Target(
            "sm_86", "cuda", 86, 32, 99 * KIB, 100 * KIB, 512, 12, 4, 8,
            {"bfloat16": 149.7, "float16": 149.7, "tf32": 74.8, "float32": 37.4, "float64": 0.58}, 84, 1.74,
        ),
        Target(
            "sm_89", "cuda", 89, 32, 99 * KIB, 100 * KIB, 512, 12, 4, 8,
            {"bfloat16": 362.0, "float16": 362.0, "tf32": 183.0, "float32": 91.6, "float64": 1.4}, 142, 2.52,
        ),
        Target(
            "sm_90", "cuda", 90, 32, 227 * KIB, 228 * KIB, 512, 16, 4, 8,
            {"bfloat16": 989.0, "float16": 989.0, "tf32": 494.0, "float32": 67.0, "float64": 33.5}, 132, 1.83,
        ),
        Target(
            "sm_100", "cuda", 100, 32, 227 * KIB, 228 * KIB, 512, 16, 4, 8,
            {"bfloat16": 2250.0, "float16": 2250.0, "tf32": 1125.0, "float32": 75.0, "float64": 37.0}, 148, 1.96,
        ),
        Target(
            "sm_103", "cuda", 103, 32, 227 * KIB, 228 * KIB, 512, 16, 4, 8,
            {"bfloat16": 2250.0, "float16": 2250.0, "tf32": 1125.0, "float32": 75.0, "float64": 1.2}, 148, 1.92,
        ),
        Target(
            "sm_120", "cuda", 120, 32, 99 * KIB, 100 * KIB, 512, 12, 4, 8,
            {"bfloat16": 503.0, "float16": 503.0, "tf32": 251.0, "float32": 125.0, "float64": 1.9}, 188, 2.6,
        ),
        Target(
            "gfx90a", "hip", "gfx90a", 64, 64 * KIB, 64 * KIB, 512, 8, 4, 8,
            {"bfloat16": 191.5, "float16": 191.5, "float32": 47.9, "float64": 23.9}, 110, 1.7,
        ),
        Target(
            "gfx942", "hip", "gfx942", 64, 64 * KIB, 64 * KIB, 512, 8, 4, 8,
            {"bfloat16": 1307.0, "float16": 1307.0, "float32": 163.4, "float64": 81.7}, 304, 2.1,
        ),
    )
}  # fmt: skip
