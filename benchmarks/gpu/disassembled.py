"""The innermost loops of a compiled kernel that compute scores, counted instruction by instruction.

NVIDIA's machine code is disassembled by the `nvdisasm` that comes with Triton; AMD's compiler writes assembly. A loop
is the code between a label and a later branch to it. A loop computes scores if it has float32 exponentials: one for
each score, unless threads repeat work.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

INSTRUCTION = {"cuda": r"^\s*/\*[0-9a-f]+\*/\s+(.*;)", "hip": r"^\s+([a-z]\w+.*)"}
LABEL = {"cuda": r"^(\.L\w+):", "hip": r"^(\.LBB\w+):"}
BRANCH = {"cuda": r"\bBRA\S*\s.*`\((\.L\w+)\)", "hip": r"^s_c?branch\w*\s+(\.LBB\w+)"}
EXPONENTIAL = {"cuda": r"\bMUFU\.EX2\b", "hip": r"^v_exp_f32"}
LOCAL = {"cuda": r"\b(?:LDL|STL)\b", "hip": r"^scratch_"}
MATRIX = {
    "cuda": r"\b(HGMMA)\.(\d+)x(\d+)x(\d+)|\b([HIQD]MMA)\.(\d+)",
    "hip": r"^(v_mfma)_\w+?_(\d+)x(\d+)x(\d+)",
}
SHAPES = {"16816": 16 * 8 * 16, "1688": 16 * 8 * 8, "1684": 16 * 8 * 4, "16832": 16 * 8 * 32, "884": 8 * 8 * 4}
"""Multiply-adds of a warp's matrix instruction, by the digits of its name."""
BLACKWELL = r"\bUTC[A-Z]*MMA\b"
"""Matrix instructions whose shapes are in a register, not in the text."""


@dataclass(frozen=True)
class Loop:
    """An innermost loop.

    Attributes:
        instructions: Instructions of a thread.
        exponentials: Exponentials of a thread.
        multiply_adds: Multiply-adds of matrix units, of one warp; None if the code does not show their number.
        local: Instructions that read or write local memory.
        around: Instructions of the enclosing loop, without those of its innermost loops; 0 without an enclosing loop.
    """

    instructions: int
    exponentials: int
    multiply_adds: float | None
    local: int
    around: int = 0


def sass(cubin: bytes) -> str:
    """The instructions of a CUDA binary."""
    return _tool("nvdisasm", "-c", cubin=cubin)


def resources(cubin: bytes) -> tuple[int, int]:
    """The numbers of registers and of stack bytes of a thread; spilled registers are on the stack."""
    text = _tool("cuobjdump", "--dump-resource-usage", cubin=cubin)
    found = re.search(r"REG:(\d+) STACK:(\d+) SHARED:\d+ LOCAL:(\d+)", text)
    if found is None:
        raise RuntimeError(f"cuobjdump did not report the resources of a kernel: {text}")
    return int(found[1]), int(found[2]) + int(found[3])


def _tool(name: str, *options: str, cubin: bytes) -> str:
    import triton

    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / name
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kernel.cubin"
        file.write_bytes(cubin)
        return subprocess.run([str(tool), *options, str(file)], capture_output=True, text=True, check=True).stdout


def score_loops(vendor: str, text: str) -> list[Loop]:
    """The innermost loops with exponentials, in the order of the code.

    >>> inner = "/*10*/ MUFU.EX2 R1, R2 ; \\n /*20*/ HMMA.16816.F32.BF16 R4 ; \\n /*30*/ @P0 BRA `(.L_x_1) ; \\n"
    >>> score_loops("cuda", ".L_x_0:\\n.L_x_1:\\n " + inner + " /*40*/ @P1 BRA `(.L_x_0) ; \\n")
    [Loop(instructions=3, exponentials=1, multiply_adds=2048, local=0, around=1)]
    """
    instructions: list[str] = []
    labels: dict[str, int] = {}
    loops: set[tuple[int, int]] = set()
    for line in text.splitlines():
        if label := re.match(LABEL[vendor], line):
            labels[label[1]] = len(instructions)
        elif instruction := re.match(INSTRUCTION[vendor], line):
            instructions.append(instruction[1])
            branch = re.search(BRANCH[vendor], instruction[1])
            if branch and branch[1] in labels:
                loops.add((labels[branch[1]], len(instructions)))
    counted = {loop: _count(vendor, instructions[slice(*loop)]) for loop in loops}
    with_scores = [loop for loop in sorted(loops) if counted[loop].exponentials]
    innermost = [
        loop for loop in with_scores if not any(loop != other and _holds(loop, other) for other in with_scores)
    ]
    around = {}
    for loop in innermost:
        outer = min(
            (other for other in with_scores if other != loop and _holds(other, loop)), key=_length, default=loop
        )
        around[loop] = _length(outer) - sum(_length(other) for other in innermost if _holds(outer, other))
    return [replace(counted[loop], around=around[loop]) for loop in innermost]


def _holds(loop: tuple[int, int], other: tuple[int, int]) -> bool:
    return loop[0] <= other[0] and other[1] <= loop[1]


def _length(loop: tuple[int, int]) -> int:
    return loop[1] - loop[0]


def _count(vendor: str, instructions: list[str]) -> Loop:
    products: float | None = 0
    for instruction in instructions:
        if vendor == "cuda" and re.search(BLACKWELL, instruction):
            products = None
        found = re.search(MATRIX[vendor], instruction)
        if found and products is not None:
            products += _multiply_adds(found)
    return Loop(
        len(instructions),
        sum(bool(re.search(EXPONENTIAL[vendor], instruction)) for instruction in instructions),
        products,
        sum(bool(re.search(LOCAL[vendor], instruction)) for instruction in instructions),
    )


def _multiply_adds(found: re.Match[str]) -> float:
    """The multiply-adds of one warp: an HGMMA is one instruction of four warps."""
    if found[1] is None:
        return SHAPES[found[6]]
    product = int(found[2]) * int(found[3]) * int(found[4])
    return product / 4 if found[1] == "HGMMA" else product
