"""What the compilers make of the kernels in Triton, for GPUs that need not be there: one row for each configuration.

Registers and spills are those that `ptxas` reports for NVIDIA's GPUs and that AMD's assembly carries as metadata; both
compilers come with Triton. The throughput is an estimate: the peak of the GPU's matrix units and of its exponentials,
whichever is reached first, with nothing lost to memory, to waiting or to tuples that a block holds and may not attend.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import astuple, dataclass, fields
from importlib import import_module
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any

import torch

from benchmarks.gpu.targets import TARGETS, Target
from separatrix.attention.dispatch.gpu import REGISTERS
from separatrix.attention.exact.gpu.configurations import (
    KERNELS,
    SHIPPED,
    WIDTHS,
    Configuration,
    configuration,
    kind_of,
)
from separatrix.attention.near_linear.triton import launch as near_linear

HERE = Path(__file__).resolve().parents[1]
RESULTS = HERE / "results"
ATTENTION = HERE.parent / "src" / "separatrix" / "attention"
SOURCES = (
    "exact/gpu/programs/*.py",
    "exact/gpu/configurations.py",
    "near_linear/triton/programs/*.py",
    "near_linear/triton/launch.py",
    "dispatch/gpu.py",
)
"""Everything that decides what is compiled."""
KINDS = {
    "bfloat16": (torch.bfloat16, "bf16", "fp32", "ieee"),
    "float16": (torch.float16, "fp16", "fp32", "ieee"),
    "tf32": (torch.float32, "fp32", "fp32", "tf32"),
    "float32": (torch.float32, "fp32", "fp32", "ieee"),
    "float64": (torch.float64, "fp64", "fp64", "ieee"),
}
"""For each kind of product the type of the tensors, its name and that of the sums in Triton, and the precision."""
NEAR_LINEAR = (*near_linear.KERNELS, *near_linear.SCANS, *near_linear.STREAMS, "carry")
"""The kernels of near-linear attention: a score of theirs is a monomial of a token."""
PRODUCTS = {"attend": (1, 1), "query_gradient": (2, 1), "inner_gradient": (2, 2), "prefix_gradient": (2, 2)}
"""How many products over the columns of keys, and over those of values, a kernel has for each score."""
MATRIX = {
    "cuda": r"^\s*(?:@\S+\s+)?(wgmma\.mma_async|mma\.sync)\.\S*?\.m(\d+)n(\d+)k(\d+)()",
    "hip": r"^\s*(v_mfma)_\w+?_(\d+)x(\d+)x(\d+)(?:_(\d+)b)?",
}
"""Instructions for matrix units, with their shapes: wgmma is one for four warps, and AMD's may have several blocks."""
NUMBERS = ("left", "incoming", "lse", "delta", "share", "gradient", "_gradient", "key_gradient", "value_gradient")
WAYS = {
    "everything hidden": (3, True),
    "nothing hidden": (3, False),
    "order 4 and up, everything hidden": (4, True),
    "order 4 and up, nothing hidden": (4, False),
}
"""What a kernel is compiled for: its order; and causality, windows and masks, or none of them, which is less code."""
PER_SET = ("states",)
"""Arguments that are a tuple, with one for each set."""


@dataclass(frozen=True)
class Compiled:
    """What a compiler made of a kernel.

    Attributes:
        target: The GPU.
        kernel: The kernel.
        kind: The kind of its products.
        width: The columns of keys and of values.
        way: Whether anything is hidden; of near-linear attention, the number of key sets and which pass it is.
        block: Queries and inner keys of a block, warps, and stages of the pipeline.
        registers: Vector registers of a thread.
        spilled: Bytes of a thread that its registers do not hold and memory does.
        moved: Scalar registers that AMD's compiler keeps in lanes of vector registers; these are not in memory.
        shared: Bytes of shared memory.
        matrix: Instructions for matrix units in the text of the kernel; 0 where multiply-adds do their work.
        per_score: The multiply-adds that these come to for one score of a block, by their own shapes.
        inexact: How many kinds of instructions are approximate or flush subnormal numbers.
        occupancy: The share of a multiprocessor's warps that can run at once.
        estimate: At most so many 10^9 scores a second, an estimate.
    """

    target: str
    kernel: str
    kind: str
    width: int
    way: str
    block: tuple[int, int, int, int]
    registers: int
    spilled: int
    moved: int
    shared: int
    matrix: int
    per_score: float
    inexact: int
    occupancy: float
    estimate: float


def configurations() -> Iterator[tuple[str, str, str, int, str]]:
    """Everything that ships: a target, a kernel, a kind of product, a width and what is hidden."""
    for name, kernel, kind, width, way in product(TARGETS, KERNELS, KINDS, WIDTHS, WAYS):
        dtype, _, _, precision = KINDS[kind]
        shipped = (TARGETS[name].vendor, kernel, kind_of(dtype, precision), WAYS[way][0]) in SHIPPED
        if shipped and (kind, WAYS[way][0]) != ("float16", 4):  # which has the blocks and the code of bfloat16
            yield name, kernel, kind, width, way
    for name in TARGETS:
        for kernel, kind, width in product(near_linear.KERNELS, ("float32", "float64"), WIDTHS):
            yield name, kernel, kind, width, "sums"
        yield name, "coordinate_gradient", "float64", WIDTHS[0], "given"
        yield name, "carry", "float64", WIDTHS[0], "sums"
        for width in WIDTHS:
            yield name, "scan", "float64", width, "any key sets"
            yield name, "scan_back", "float64", width, "any key sets"
            yield name, "scan_back", "float64", width, "any key sets, whole"
            yield name, "append_tokens", "float32", width, "sums"
            yield name, "ask_states", "float32", width, f"{near_linear.MOST_SETS} key sets"  # fewer have less code


def block_of(target: Target, kernel: str, kind: str, width: int, way: str) -> Configuration:
    """The block of a configuration on a target; of near-linear attention, monomials and tokens."""
    dtype, _, _, precision = KINDS[kind]
    if kernel == "carry":
        return Configuration(near_linear.ENTRIES, 1, 4, 1)
    if kernel in NEAR_LINEAR:
        block = near_linear.block_of(kernel, dtype, width, target.vendor)
        return Configuration(block.rows, block.tokens, block.warps, 1)
    return configuration(kernel, dtype, width, of=target.vendor, precision=precision, order=WAYS[way][0])


def constants_of(target: Target, kernel: str, kind: str, width: int, way: str) -> dict[str, Any]:
    """What a kernel is compiled for, by the names of its arguments."""
    block = block_of(target, kernel, kind, width, way)
    if kernel not in NEAR_LINEAR:
        order, hidden = WAYS[way]
        return {
            **dict.fromkeys(("CAUSAL", "PREFIX_WINDOW", "INNER_WINDOW", "MASKED"), hidden),
            **({"sets": 1} if order == 3 else {}),  # an argument that is 1 is compiled as a constant
            **{"PRECISION": KINDS[kind][3]},
            **{"d": width, "d_v": width, "D": width, "D_V": width, "QUERIES": block.queries, "KEYS": block.keys},
        }
    if kernel == "carry":
        return {"ENTRIES": near_linear.ENTRIES, "BACK": True}
    tiled = kind == "float32" and near_linear.block_of(kernel, torch.float32, width, target.vendor).tiled
    found = {"ROWS": block.queries, "TOKENS": block.keys, "COLUMNS": width, "TILED": tiled, "GIVEN": way == "given"}
    names = {
        "add_state": ("ROWS", "TOKENS", "COLUMNS", "TILED"),
        "against_state": ("ROWS", "TOKENS", "COLUMNS", "TILED"),
        "coordinate_gradient": ("ROWS", "TOKENS", "COLUMNS", "TILED", "GIVEN"),
        "append_tokens": ("ROWS", "COLUMNS"),
        "ask_states": ("ROWS", "COLUMNS", "SETS"),
        "scan": ("TOKENS", "COLUMNS"),
        "scan_back": ("TOKENS", "COLUMNS", "WHOLE"),
    }[kernel]
    found |= {"SETS": near_linear.MOST_SETS, "WHOLE": way.endswith("whole")}
    return {name: found[name] for name in names}


def make(name: str, kernel: str, kind: str, width: int, way: str) -> Any:
    """What Triton's compiler gives for one configuration and a target: its texts and its metadata."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    target = TARGETS[name]
    _, narrow, wide, _ = KINDS[kind]
    block, constants = block_of(target, kernel, kind, width, way), constants_of(target, kernel, kind, width, way)
    package = "near_linear.triton" if kernel in NEAR_LINEAR else "exact.gpu"
    program = getattr(import_module(f"separatrix.attention.{package}.programs.{kernel}"), kernel)
    limit = {} if REGISTERS[target.vendor] is None else {"maxnreg": REGISTERS[target.vendor]}
    types = _near_linear_type if kernel in NEAR_LINEAR else _type
    sets = constants.get("SETS", 1)
    signature: dict[str, Any] = {}
    aligned = {}  # tensors of PyTorch begin at multiples of 16 bytes
    for at, each in enumerate(program.arg_names):
        kind_here = "constexpr" if each in constants else types(each, narrow, wide)
        several = each in PER_SET and kernel != "add_state"
        signature[each] = (kind_here,) * sets if several else kind_here
        if kind_here[0] == "*":
            places = [(at, m) for m in range(sets)] if several else [(at,)]
            aligned |= {place: [["tt.divisibility", 16]] for place in places}
    return triton.compile(
        ASTSource(fn=program, signature=signature, constexprs=constants, attrs=aligned),
        target=GPUTarget(target.vendor, target.arch, target.lanes),
        options={"num_warps": block.warps, "num_stages": block.stages, **limit},
    )


def inexact(vendor: str, text: str) -> set[str]:
    """The instructions of a text that are not rounded correctly or flush subnormal numbers, and modes that flush.

    >>> sorted(inexact("cuda", "fma.rn.f32 %f1, %f2, %f3, %f4; ex2.approx.ftz.f32 %f5, %f6; add.ftz.f32 %f1, %f2;"))
    ['add.ftz.f32', 'ex2.approx.ftz.f32']
    >>> sorted(inexact("hip", "v_fma_f32 v1, v2; v_exp_f32_e32 v1, v2; .amdhsa_float_denorm_mode_32 0"))
    ['.amdhsa_float_denorm_mode_32 0', 'v_exp_f32']
    """
    if vendor == "cuda":
        return set(re.findall(r"\b[a-z0-9]+\.(?:[a-z0-9]+\.)*(?:approx|ftz|full)\b[a-z0-9.]*", text))
    instructions = re.findall(r"\bv_(?:exp|log|rcp|rsq|sqrt|sin|cos|mad|mac)_f(?:16|32|64)", text)
    modes = re.findall(r"\.amdhsa_float_denorm_mode_\S+ [012]\b|\.amdhsa_float_round_mode_\S+ [123]\b", text)
    return {*instructions, *modes}


def compile_one(name: str, kernel: str, kind: str, width: int, way: str) -> Compiled:
    """Compile one configuration for a target, and look at what came out."""
    target = TARGETS[name]
    made, block = make(name, kernel, kind, width, way), block_of(target, kernel, kind, width, way)
    registers, spilled, moved = (_of_ptx if target.vendor == "cuda" else _of_amdgcn)(made.asm)
    text = made.asm["ptx" if target.vendor == "cuda" else "amdgcn"]
    matrix, work = matrix_work(target.vendor, text, block.warps)
    shared = made.metadata.shared
    return Compiled(
        name,
        kernel,
        kind,
        width,
        way,
        tuple(block),
        registers,
        spilled,
        moved,
        shared,
        matrix,
        round(work / (block.queries * block.keys), 3),
        len(inexact(target.vendor, text)),
        round(target.occupancy(registers, shared, block.warps), 4),
        round(estimate(target, kernel, kind, width, way), 2),
    )


def matrix_work(vendor: str, text: str, warps: int) -> tuple[int, int]:
    """The instructions for matrix units in a text, and the multiply-adds that they are for all warps of a block.

    >>> matrix_work("cuda", "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {", 8)
    (1, 16384)
    >>> matrix_work("cuda", "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {", 8)
    (1, 131072)
    >>> matrix_work("hip", "v_mfma_f32_4x4x4_16b_f16 a[0:3]", 2)
    (1, 2048)
    """
    found = re.findall(MATRIX[vendor], text, re.M)
    work = sum(
        int(m) * int(n) * int(k) * int(blocks or 1) * (warps // 4 if name == "wgmma.mma_async" else warps)
        for name, m, n, k, blocks in found
    )
    return len(found), work


def estimate(target: Target, kernel: str, kind: str, width: int, way: str) -> float:
    """At most so many 10^9 scores a second: by the peak of the products, and by that of the exponentials.

    >>> round(estimate(TARGETS["sm_80"], "attend", "bfloat16", 64, "nothing hidden"))
    1219
    """
    if kernel in NEAR_LINEAR:
        wide = kernel not in near_linear.KERNELS
        return 1e3 * target.tera["float64" if wide else kind] / (2 * width)
    operations = 2 * width * sum(PRODUCTS[kernel])
    return 1e3 * min(target.tera[kind] / operations, target.exponentials)


def _near_linear_type(name: str, narrow: str, wide: str) -> str:
    if name in ("factors", "begins", "pairs"):
        return "*i32"
    if name in ("x", "weights", "out", "M", "gradient", "keys", "values", "query"):
        return f"*{narrow}"
    whole = ("rank", "n", "d", "degree", "columns", "parts", "length", "heads", "pieces", "size", "sets")
    return "i32" if name in whole else "*fp64"


def _type(name: str, narrow: str, wide: str) -> str:
    if name in NUMBERS:
        return f"*{wide}"
    if name.endswith("_mask"):
        return "*u8"
    if name == "table":
        return "*i32"
    return f"*{narrow}" if name == "out" or name.endswith(("_keys", "_values")) else "i32"


def _of_ptx(asm: dict[str, Any]) -> tuple[int, int, int]:
    """Registers, bytes spilled, and 0, as the assembler that comes with Triton reports them."""
    import triton

    assembler = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "ptxas"
    arch = re.search(r"^\.target (\w+)", asm["ptx"], re.M)[1]  # type: ignore[index]
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "kernel.ptx").write_text(asm["ptx"])
        command = [str(assembler), "-v", f"--gpu-name={arch}", "kernel.ptx", "-o", "kernel.cubin"]
        said = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stderr
    used = re.search(r"Used (\d+) registers", said)
    spills = re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", said)
    if not (used and spills):
        raise RuntimeError(f"ptxas did not say what it used: {said}")
    return int(used[1]), int(spills[1]) + int(spills[2]), 0


def _of_amdgcn(asm: dict[str, Any]) -> tuple[int, int, int]:
    """Vector registers, bytes spilled, and scalar registers that were moved to vector ones, from the metadata."""

    def number(name: str) -> int:
        return int(re.search(rf"^\s*\.{name}:\s+(\d+)", asm["amdgcn"], re.M)[1])  # type: ignore[index]

    spilled = 4 * number("vgpr_spill_count") + number("private_segment_fixed_size")
    return number("vgpr_count"), spilled, number("sgpr_spill_count")


def digest() -> str:
    """A hash of everything that decides what is compiled: the kernels, their configurations and Triton's version."""
    found = hashlib.sha256(version("triton").encode())
    for file in sorted(file for pattern in SOURCES for file in ATTENTION.glob(pattern)):
        found.update(file.name.encode() + file.read_bytes())
    return found.hexdigest()


def compile_all(workers: int = 2) -> list[Compiled]:
    """Compile everything that ships."""
    with ProcessPoolExecutor(workers) as pool:
        return list(pool.map(compile_one, *zip(*configurations(), strict=True), chunksize=4))


def faults(rows: list[Compiled]) -> list[str]:
    """A sentence for each configuration that spills, or has more shared memory than its target."""
    found = []
    for row in rows:
        what = f"{row.kernel} of {row.kind}, {row.width} columns, {row.way}, on {row.target}"
        if row.spilled:
            found.append(f"{what}: {row.spilled} bytes spilled.")
        if row.shared > TARGETS[row.target].shared:
            found.append(f"{what}: {row.shared} bytes of shared memory, of {TARGETS[row.target].shared}.")
    return found


def save(rows: list[Compiled], folder: Path = RESULTS) -> None:
    """Write the table as JSON, a line for each row, and as Markdown."""
    head = {"digest": digest(), "triton": version("triton"), "columns": [field.name for field in fields(Compiled)]}
    lines = [json.dumps(list(astuple(row)), separators=(",", ":")) for row in rows]
    text = json.dumps(head)[:-1] + ', "rows": [\n' + ",\n".join(lines) + "\n]}\n"
    (folder / "gpu-compiled.json").write_text(text)
    (folder / "gpu-compiled.md").write_text(markdown(rows))


def load(folder: Path = RESULTS) -> dict[str, Any]:
    """What was saved, with the rows as `Compiled`."""
    saved: dict[str, Any] = json.loads((folder / "gpu-compiled.json").read_text())
    rows = [dict(zip(saved["columns"], row, strict=True)) for row in saved["rows"]]
    saved["rows"] = [Compiled(**{**row, "block": tuple(row["block"])}) for row in rows]
    return saved


HEADINGS = (
    "kernel", "products", "columns", "of", "block", "registers", "spilled", "shared", "matrix multiply-adds per score",
    "occupancy", "at most, 10^9 scores/s",
)  # fmt: skip


def markdown(rows: list[Compiled]) -> str:
    """The table, one section for each target."""
    lines = [
        "# The kernels in Triton, compiled",
        "",
        "Tested in the interpreter, compiled for these targets, not yet timed on hardware. `python -m benchmarks gpu "
        "--compile` makes this table; `benchmarks/gpu/compiled.py` says what its columns are. The last column is an "
        "estimate from peaks. A block is queries x inner keys, warps, stages; for near-linear attention it is "
        "monomials x tokens (entries, for `carry`), and a score is a monomial of a token. Matrix units are counted by "
        "the shapes of their instructions.",
    ]
    for name in TARGETS:
        here = [row for row in rows if row.target == name]
        moved = max((row.moved for row in here), default=0)
        lines += ["", f"## {name}", ""]
        if moved:
            lines += [f"Up to {moved} scalar registers are kept in lanes of vector registers, none in memory.", ""]
        lines += ["| " + " | ".join(HEADINGS) + " |", "| " + " | ".join(["---"] * len(HEADINGS)) + " |"]
        for row in here:
            queries, keys, warps, stages = row.block
            cells = (
                row.kernel, row.kind, row.width, row.way, f"{queries} x {keys}, {warps}, {stages}",
                row.registers, row.spilled, row.shared, f"{row.per_score:.3g}", f"{row.occupancy:.0%}",
                f"{row.estimate:.4g}",
            )  # fmt: skip
            lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines) + "\n"
