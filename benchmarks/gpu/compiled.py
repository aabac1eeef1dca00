"""A table of the compiled Triton kernels, which needs no GPU: one row for each configuration.

Registers and spills are read from NVIDIA's binaries and from the metadata of AMD's assembly; both compilers come with
Triton. The cost of a score is counted in the innermost loop of the disassembled kernel (`disassembled`); with windows
the cost is that of the whole kernel, including masked scores and the instructions around the loops (`modelled`). The
throughput is an estimate from the peaks of the GPU's matrix units and of the instructions that it issues, calibrated on
a published time of FBGEMM's kernel.

A row has a digest of all its inputs. `compile_all` compiles only the rows whose digest has changed.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import json
import re
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import astuple, dataclass, fields, replace
from functools import cache
from importlib import import_module
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import torch

from benchmarks.gpu import disassembled
from benchmarks.gpu.disassembled import Loop, resources, sass, score_loops
from benchmarks.gpu.modelled import INNER_WINDOW, PREFIX_WINDOW, Cost, whole_cost
from benchmarks.gpu.targets import TARGETS, Target
from separatrix.attention.dispatch.gpu import OPTIONS
from separatrix.attention.exact.triton.configurations import (
    AROUND,
    ENTRIES_AROUND,
    FUSED,
    FUSED_ON,
    KERNELS,
    LIKE,
    MASKED_WIDE,
    SHIPPED,
    SHIPPED_WIDE,
    WARPS_AROUND,
    WIDE,
    WIDTHS,
    Configuration,
    configuration,
    flags_of,
    kind_of,
    peels,
    rows_around,
)
from separatrix.attention.exact.triton.sequences import COLUMNS, LENGTHS, column_of
from separatrix.attention.near_linear.triton import launch as near_linear

HERE = Path(__file__).resolve().parents[1]
RESULTS = HERE / "results"
KINDS = {
    "bfloat16": (torch.bfloat16, "bf16", "fp32", "ieee"),
    "float16": (torch.float16, "fp16", "fp32", "ieee"),
    "tf32": (torch.float32, "fp32", "fp32", "tf32"),
    "float32": (torch.float32, "fp32", "fp32", "ieee"),
    "float64": (torch.float64, "fp64", "fp64", "ieee"),
}
"""For each kind of product the type of the tensors, its name and that of the sums in Triton, and the precision."""
HALF = ("bfloat16", "float16", "tf32")
"""The kinds of products for matrix units: their kernels have loops without comparisons."""
OF_ANY_KIND = ("prepare", "check_range")
"""Kernels whose arguments have the same types for all kinds of products."""
NEAR_LINEAR = (*near_linear.KERNELS, *near_linear.SCANS, *near_linear.STREAMS, "carry")
"""The kernels of near-linear attention: a score of theirs is a monomial of a token."""
SEPARATE = ("query_gradient", "prefix_gradient")
"""The kernels that compute what `FUSED` computes."""
PRODUCTS = {
    "attend": (1, 1),
    "query_gradient": (2, 1),
    "inner_gradient": (2, 2),
    "prefix_gradient": (2, 2),
    "query_prefix_gradient": (2, 2),
}
"""How many products over the columns of keys, and over those of values, a kernel has for each score."""
MATRIX = {
    "cuda": r"^\s*(?:@\S+\s+)?(?:wgmma\.mma_async|mma\.sync|tcgen05\.mma)\b",
    "hip": r"^\s*v_mfma_",
}
"""Instructions for matrix units, in PTX and in AMD's assembly."""
NUMBERS = (
    *("left", "incoming", "lse", "delta", "scales", "lse_gradient", "near", "shift", "multipliers"),
    *("key_partials", "value_partials", "sums", "peaks"),
)
"""Arguments of the type of the sums."""
OF_TENSORS = (
    "sources",
    "copies",
    "factors",
    "out",
    "out_gradient",
    "gradient",
    "_gradient",
    "key_gradient",
    "value_gradient",
)
"""Arguments of the type of the tensors."""
WHOLE = ("numbers", "masks", "table", "exponents", "bounds", "own_exponents", "top_exponents")
"""Arguments that are 32-bit integers."""


class Way(NamedTuple):
    """The compile-time options of a kernel.

    Attributes:
        order: The order; 4 stands for all orders from 4 on.
        hidden: Whether there are a causal mask and a window on each key set.
        masked: Whether there are masks. Only kernels without masks have loops without comparisons.
        alone: Whether tiles are packed with query heads that share keys, and all rows of a tile have the same position.
        split: Whether tiles are packed, with several positions, and several programs divide the steps of a tile.
        sequences: Whether there are packed sequences, on each of which the kernel is run by `of_sequence`.
    """

    order: int
    hidden: bool
    masked: bool
    alone: bool = False
    split: bool = False
    sequences: bool = False


PACKED, SPLIT = "causal, windows, packed heads", "everything hidden, packed heads, split"
WAYS = {
    "everything hidden": Way(3, True, True),
    "causal, windows": Way(3, True, False),
    "nothing hidden": Way(3, False, False),
    "order 4 and up, everything hidden": Way(4, True, True),
    "order 4 and up, nothing hidden": Way(4, False, False),
    "around others": Way(3, True, True),
    PACKED: Way(3, True, False, alone=True),
    SPLIT: Way(3, True, True, split=True),
    "causal, windows, sequences": Way(3, True, False, sequences=True),
    "everything hidden, sequences": Way(3, True, True, sequences=True),
    "around others, sequences": Way(3, True, True, sequences=True),
}
"""The masks and options that kernels are compiled for: one of them for the kernels `AROUND`, `SPLIT` for `attend`
alone, and `PACKED` for `attend` and the fused kernel. The last three are for packed sequences."""
AXIS_OF = {
    **{"inner_gradient": "inners", "prefix_gradient": "prefixes", "add_partials": "prefixes"},
    **{"largest": "blocks", "incoming_rows": "count"},
}
"""The rows of a sequence that a kernel's programs divide, of kernels for which it is not the queries."""
WAYS_OF = {
    "bfloat16": tuple(WAYS)[:5],
    "float16": ("everything hidden",),
    "tf32": ("everything hidden", "nothing hidden"),
    "float32": ("everything hidden", "nothing hidden", "order 4 and up, everything hidden"),
    "float64": ("everything hidden", "order 4 and up, everything hidden"),
}
"""What kernels of each kind are compiled for. float16 has the blocks and the code of bfloat16. With everything hidden a
kernel has all the code that it has with less hidden, but for the loops without comparisons of half types and TF32."""
COSTED = "causal, windows"
"""The way that costs of a score are published for, in bfloat16 on `FULL` targets."""
SEQUENCES = f"{COSTED}, sequences"
"""The same on packed sequences."""
FULL = ("sm_80", "sm_90", "gfx942")
"""Targets for which all kernels that ship are compiled: for every width with all masks and with the options of the
published costs, and for the two largest widths with all other options."""
BLACKWELL = ("sm_100", "sm_103")
"""Targets whose compiler has put float32 on matrix units: it is compiled for every width, with everything hidden."""
WIDEST = WIDTHS[2:]
"""The widths that are compiled for all targets, which need the most registers and shared memory. For a
target in neither list only the kernels with all masks are compiled, in bfloat16 and in the dtypes that have
certificates, float32 and float64."""
CHOSEN: dict[tuple[str, str], dict[int, float]] = {
    ("sm_90", "attend"): {64: 10.0, 128: 10.0, 256: 36.5},
    ("sm_90", "query_gradient"): {64: 8.0, 128: 11.0},
    ("sm_90", "inner_gradient"): {64: 16.0, 128: 21.0},
    ("sm_90", "prefix_gradient"): {64: 10.0, 128: 16.0},
    ("sm_90", "query_prefix_gradient"): {64: 9.0, 128: 14.0},
    ("sm_80", "attend"): {64: 12.0, 128: 16.0, 256: 36.5},
    ("sm_80", "query_gradient"): {64: 11.0, 128: 18.0, 256: 36.5},
    ("sm_80", "inner_gradient"): {64: 21.5, 128: 30.0},
    ("sm_80", "prefix_gradient"): {64: 16.0, 128: 27.0, 256: 46.0},
    ("sm_80", "query_prefix_gradient"): {64: 15.0, 128: 26.0, 256: 41.5},
    ("sm_100", "attend"): {64: 11.5, 128: 10.5},
    ("sm_100", "query_gradient"): {64: 8.5, 128: 11.5},
    ("sm_100", "inner_gradient"): {64: 20.0, 128: 22.0},
    ("sm_100", "prefix_gradient"): {64: 12.0, 128: 20.0},
    ("sm_100", "query_prefix_gradient"): {64: 10.0, 128: 18.5},
}
"""Blocks that were chosen by what a score costs, by target and kernel: for each number of columns, the largest number
of instructions that a score of bfloat16 may cost in the innermost loop, where there are causality and windows."""
LIMITS_OF = {"sm_86": "sm_80", "sm_89": "sm_80", "sm_120": "sm_80", "sm_103": "sm_100"}
"""Architectures whose blocks have the limits of another architecture."""
MOST_LOCAL, MOST_LOCAL_MASKED = 4, 10
"""The largest number of instructions of the innermost loop, of some three hundred, that may read or write local memory:
in loops without comparisons, and with masks or packed sequences in half types if the blocks were chosen by the cost of
a score.
"""
TENSORS = 5
"""The queries, keys and values of a call of order 3."""
SETS_OF = {
    "factors": ("first query", "first prefix", "first inner", "first prefix", "first inner"),
    "masks": ("first prefix", "first inner"),
}
"""The columns of the numbers of a sequence by which arguments of `largest` are moved, for a window on the first set."""
SEVERAL_IN_A_ROW = (
    *("left", "incoming", "near", "out", "out_gradient", "gradient", "_gradient", "key_gradient", "value_gradient"),
    *("prefix_keys", "prefix_values", "inner_keys", "inner_values", "key_partials", "value_partials", "factors"),
)
"""Arguments whose rows have several columns, so that a multiple of 16 entries moves them by a row."""
NUMBERS_OF_A_CALL = 16
"""The numbers that `prepare` writes for a call of order 3."""
PER_SET = {
    "ask_states": ("states",),
    "largest": ("factors", "masks"),
    "prepare": ("entries",),
    "copy_sets": (
        *("sources", "copies", "heads", "lengths", "columns", "head_strides", "row_strides", "column_strides"),
    ),
}
"""Arguments that are tuples, with an entry for each set; `factors` also have one for the queries, and the tuples of
kernels with a constant COUNT have COUNT entries."""


@dataclass(frozen=True)
class Compiled:
    """The properties of a compiled kernel.

    Attributes:
        target: The GPU.
        kernel: The kernel.
        kind: The kind of the kernel's matrix products.
        width: The number of columns of keys and of values.
        way: For exact attention, whether there are masks; for near-linear attention, the number of key sets and the
            pass.
        block: The numbers of queries and inner keys of a block, of warps, and of pipeline stages.
        registers: Vector registers of a thread.
        spilled: Bytes of registers that a thread spills to local memory.
        moved: Scalar registers that AMD's compiler keeps in lanes of vector registers; these are not in memory.
        shared_bytes: Bytes of shared memory.
        matrix: The number of matrix instructions in the disassembled kernel; 0 if it uses ordinary multiply-adds.
        instructions_per_score: Thread instructions per score in the innermost loop; if there are several, in the loop
            without comparisons. This field and the next four are None if no loop has exponentials (near-linear
            attention, and float64).
        exponentials_per_score: Exponentials for one score.
        matrix_products_per_score: Multiply-adds of matrix units for one score, over the columns; None on Blackwell
            (sm_100, sm_103), where the shapes of matrix instructions are not in their text. The next field is None
            there too.
        replication: How often the threads repeat the work of a score, by exponentials or by matrix products.
        local_memory_in_loop: Instructions of the innermost loop that read or write local memory.
        border_per_score: Thread instructions per score in the costliest innermost loop; this field and the next are
            counted only with windows (`COSTED`, `PACKED`).
        around: Instructions of a thread in the enclosing loop, without those of its innermost loops.
        inexact: The number of kinds of instructions that are approximate or flush subnormal numbers.
        digest: A hash of all inputs of the row (see `digest`).
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
    shared_bytes: int
    matrix: int
    instructions_per_score: float | None
    exponentials_per_score: float | None
    matrix_products_per_score: float | None
    replication: float | None
    local_memory_in_loop: int | None
    border_per_score: float | None
    around: int | None
    inexact: int
    digest: str

    @property
    def of(self) -> tuple[str, str, str, int, str]:
        """The name of the row in `configurations`."""
        return self.target, self.kernel, self.kind, self.width, self.way

    @property
    def occupancy(self) -> float:
        """The share of a multiprocessor's warps that can run at once."""
        return TARGETS[self.target].occupancy(self.registers, self.shared_bytes, self.block[2])

    @property
    def whole(self) -> Cost | None:
        """The cost of a visible score in the whole kernel with windows (see `modelled`), on NVIDIA's GPUs.

        It is None for AMD's GPUs: the order of loops in their assembly does not show which code is around them.
        """
        if self.border_per_score is None or self.around is None or TARGETS[self.target].vendor != "cuda":
            return None
        assert self.instructions_per_score is not None
        queries, keys, warps, _ = self.block
        costs = self.instructions_per_score, self.border_per_score, self.around
        threads = warps * TARGETS[self.target].lanes
        return whole_cost(self.kernel, queries, keys, threads, *costs, alone=WAYS[self.way].alone)

    @property
    def estimate(self) -> float:
        """The estimated throughput in 10^9 scores per second (see `estimate`); with windows, of visible scores."""
        instructions, computed = self.whole or (self.instructions_per_score, 1.0)
        return estimate(TARGETS[self.target], self.kernel, self.kind, self.width, instructions, computed)


def configurations() -> Iterator[tuple[str, str, str, int, str]]:
    """All compiled configurations: a target, a kernel, a kind of product, a width and the masks."""
    for name, kernel, kind, width in product(TARGETS, KERNELS, KINDS, WIDTHS):
        for way in WAYS_OF[kind]:
            order, hidden = WAYS[way][:2]
            runs = kernel != FUSED or (name in FUSED_ON and order == 3 and hidden)
            if runs and _ships(name, kind, order) and _is_compiled(name, kind, width, way):
                yield name, kernel, kind, width, way
    for name, kind, width in product(TARGETS, ("bfloat16", "float32", "float64"), WIDEST):
        if kind == "bfloat16" and (name in FULL or name in LIKE):
            yield name, "attend", kind, width, PACKED
            if name in FUSED_ON:
                yield name, FUSED, kind, width, PACKED
        if _ships(name, kind, 3):
            yield name, "attend", kind, width, SPLIT
    for name, kernel in product((*FULL, *BLACKWELL), KERNELS):
        kind, way = ("float32", "everything hidden") if name in BLACKWELL else ("bfloat16", COSTED)
        yield name, kernel, kind, WIDTHS[-1], f"{way}, sequences"
    for name, kernel in product(FULL, ("largest", "check_range", "incoming_rows", "add_partials")):
        yield name, kernel, "float32", WIDTHS[-1], "around others, sequences"
    for name in sorted({key[0] for key in SHIPPED_WIDE}):
        for kernel in KERNELS:
            yield name, kernel, "bfloat16", WIDE, COSTED
            if name in MASKED_WIDE:
                yield name, kernel, "bfloat16", WIDE, "everything hidden"
            yield name, kernel, "float32", WIDE, "everything hidden"
        for kernel in ("attend", FUSED):
            yield name, kernel, "bfloat16", WIDE, PACKED
        for kind in ("bfloat16", "float32"):
            yield name, "attend", kind, WIDE, SPLIT
        for kernel in ("largest", "check_range", "merge_splits", "incoming_rows", "add_partials"):
            yield name, kernel, "float32", WIDE, "around others"
    for name, kernel, kind in product(TARGETS, AROUND, ("bfloat16", "float32", "float64")):
        runs = kernel not in OF_ANY_KIND and (kernel != "add_partials" or name in FUSED_ON)
        if runs and (name in FULL or kind == "float32") and _ships(name, kind, 3):
            yield name, kernel, kind, WIDTHS[-1], "around others"
    for name in TARGETS:
        for kernel in OF_ANY_KIND:
            yield name, kernel, "float32", WIDTHS[-1], "around others"
        widths = WIDTHS if name in FULL else WIDTHS[-1:]
        for kernel, kind, width in product(near_linear.KERNELS, ("float32", "float64"), widths):
            yield name, kernel, kind, width, "sums"
        yield name, "coordinate_gradient", "float64", WIDTHS[0], "given"
        yield name, "carry", "float64", WIDTHS[0], "sums"
        for width in widths:
            yield name, "scan", "float64", width, "any key sets"
            yield name, "scan_back", "float64", width, "any key sets"
            yield name, "scan_back", "float64", width, "any key sets, whole"
            yield name, "append_tokens", "float32", width, "sums"
            yield name, "ask_states", "float32", width, f"{near_linear.MOST_SETS} key sets"  # most code


def _ships(name: str, kind: str, order: int) -> bool:
    """Whether a kind of product has blocks on a target, for an order."""
    dtype, _, _, precision = KINDS[kind]
    return (TARGETS[name].vendor, KERNELS[0], kind_of(dtype, precision), order) in SHIPPED


def _is_compiled(name: str, kind: str, width: int, way: str) -> bool:
    """Whether a shipped kernel of exact attention is compiled for the table, and not only on the machines of users."""
    if name in FULL:
        return width in WIDEST or (way in ("everything hidden", COSTED) and kind != "float16")
    if name in LIKE and (way, kind) == (COSTED, "bfloat16"):
        return width in WIDEST
    if way != "everything hidden" or kind not in ("bfloat16", "float32", "float64"):
        return False
    return width in WIDEST or (name in BLACKWELL and kind == "float32")


def block_of(target: Target, kernel: str, kind: str, width: int, way: str) -> Configuration:
    """The block of a configuration on a target; for near-linear attention, its numbers of monomials and tokens."""
    dtype, _, _, precision = KINDS[kind]
    if kernel in AROUND:
        rows = {"check_range": 1, "prepare": ENTRIES_AROUND, "copy_sets": ENTRIES_AROUND}
        return Configuration(rows.get(kernel, rows_around(width)), 1, WARPS_AROUND, 1)
    if kernel == "carry":
        return Configuration(near_linear.ENTRIES, 1, 4, 1)
    if kernel in NEAR_LINEAR:
        block = near_linear.block_of(kernel, dtype, width, target.vendor)
        return Configuration(block.rows, block.tokens, block.warps, 1)
    packed = WAYS[way].alone or WAYS[way].split
    return configuration(
        kernel, dtype, width, of=target.name, precision=precision, order=WAYS[way].order, packed=packed
    )


def constants_of(target: Target, kernel: str, kind: str, width: int, way: str) -> dict[str, Any]:
    """The values of a kernel's compile-time arguments, by name."""
    block = block_of(target, kernel, kind, width, way)
    if kernel in AROUND:
        sets = WAYS[way][0] - 1
        return {
            "prepare": {"COUNT": NUMBERS_OF_A_CALL, "BLOCK": block.queries},
            "copy_sets": {"COUNT": TENSORS, "BLOCK": block.queries},
            "largest": {"MASKED": True, "SETS": sets, "ROWS": block.queries, "COLUMNS": width},
            "check_range": {"WRITES": True, "SETS": sets, "COLUMNS": width},
            "merge_splits": {"d_v": width, "D_V": width, "ROWS": block.queries},
            "incoming_rows": {"d_v": width, "D_V": width, "ROWS": block.queries},
            "add_partials": {
                **{"d": width, "d_v": width, "D": width, "D_V": width, "ROWS": block.queries},
                "QUERIES": configuration(FUSED, KINDS[kind][0], width, of=target.name).queries,
                "HEADS": 1,
            },
        }[kernel]
    if kernel not in NEAR_LINEAR:
        order, hidden, masked, alone, split, _ = WAYS[way]
        packing = {"attend": {"PACKED": alone or split, "ALONE": alone, "SPLIT": split}, FUSED: {"ALONE": alone}}
        return {
            **dict.fromkeys(("CAUSAL", "PREFIX_WINDOW", "INNER_WINDOW"), hidden),
            **{"MASKED": masked, "PEELED": peels(masked, KINDS[kind][0], KINDS[kind][3])},
            **({"sets": 1} if order == 3 else {}),  # an argument that is 1 is compiled as a constant
            **{"PRECISION": KINDS[kind][3]},
            **flags_of(kernel, KINDS[kind][0], target.name),
            **packing.get(kernel, {}),
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


@dataclass(frozen=True)
class Source:
    """The input of Triton's compiler for one configuration: a kernel, its arguments, and the compiler's options."""

    program: Any
    signature: dict[str, Any]
    constants: dict[str, Any]
    aligned: dict[tuple[int, ...], Any]
    options: dict[str, Any]


def source_of(name: str, kernel: str, kind: str, width: int, way: str) -> Source:
    """The input of the compiler for one configuration and a target."""
    target = TARGETS[name]
    _, narrow, wide, _ = KINDS[kind]
    block, constants = block_of(target, kernel, kind, width, way), constants_of(target, kernel, kind, width, way)
    package = "near_linear.triton" if kernel in NEAR_LINEAR else "exact.triton"
    program = getattr(import_module(f"separatrix.attention.{package}.programs.{kernel}"), kernel)
    types = _near_linear_type if kernel in NEAR_LINEAR else _type
    sets = constants.get("SETS", 1)
    signature: dict[str, Any] = {}
    aligned: dict[tuple[int, ...], Any] = {}  # tensors of PyTorch begin at multiples of 16 bytes
    for at, each in enumerate(program.arg_names):
        kind_here = "constexpr" if each in constants else types(each, narrow, wide)
        if each == "out" and constants.get("SPLIT"):
            kind_here = f"*{wide}"
        several = each in PER_SET.get(kernel, ())
        count = constants.get("COUNT", TENSORS if each == "factors" else sets)
        signature[each] = (kind_here,) * count if several else kind_here
        if kind_here[0] == "*":
            places = [(at, m) for m in range(count)] if several else [(at,)]
            aligned |= {place: [["tt.divisibility", 16]] for place in places}
    options = {"num_warps": block.warps, "num_stages": block.stages, **OPTIONS[target.vendor]}
    source = Source(program, signature, constants, aligned, options)
    of_sequences = way in WAYS and WAYS[way].sequences
    return _on_sequences(source, kernel, block, masked=WAYS[way].masked) if of_sequences else source


def _on_sequences(source: Source, kernel: str, block: Configuration, *, masked: bool) -> Source:
    """The input of the compiler for a kernel that is run on packed sequences, as `sequences.launch` launches it."""
    from triton.language import constexpr

    from separatrix.attention.exact.triton.programs.of_sequence import of_sequence

    at = {name: place for place, name in enumerate(of_sequence.arg_names)}
    constants: dict[tuple[int, ...], Any] = {}
    aligned: dict[tuple[int, ...], Any] = {(0,): [["tt.divisibility", 16]]}

    def constant(*path: int, of: Any) -> str:
        constants[path] = constexpr(of)
        return "constexpr"

    def argument(path: tuple[int, ...], name: str, kind: str, column: str | None) -> tuple[str, ...]:
        last = constant(*path, 2, of=-1 if column is None else COLUMNS[column])
        if column in LENGTHS or kind == "constexpr":
            of = None if column in LENGTHS else source.constants[name]
            return constant(*path, 0, of=of), constant(*path, 1, of=None), last
        if kind[0] == "*":
            aligned[*path, 0] = [["tt.divisibility", 16]]
        if column is None:
            return kind, constant(*path, 1, of=None), last
        if name in SEVERAL_IN_A_ROW:
            aligned[*path, 1] = [["tt.divisibility", 16]]
        return kind, "i32", last

    given = [name for name in source.program.arg_names if name not in source.constants or name == "sets"]
    tuples = tuple(
        tuple(argument((at["tuples"], m, n), name, kind, column) for n, (kind, column) in enumerate(columns))
        for m, (name, columns) in enumerate(
            (name, zip(source.signature[name], SETS_OF[name], strict=True)) for name in given if name in SETS_OF
        )
    )
    alone = [name for name in given if name not in SETS_OF]
    arguments = tuple(
        argument((at["arguments"], m), name, source.signature[name], column_of(kernel, name, masked=masked))
        for m, name in enumerate(alone)
    )
    flags = [source.constants[name] for name in source.program.arg_names if name not in given]
    signature: dict[str, Any] = {"sequences": "*i32", "width": "i32", "heads": "i32"}
    signature |= {"tuples": tuples, "arguments": arguments}
    signature["flags"] = tuple(constant(at["flags"], m, of=flag) for m, flag in enumerate(flags))
    axis = AXIS_OF.get(kernel, "queries")
    rows = {"inner_gradient": block.keys, "prefix_gradient": 1, "largest": 1}.get(kernel, block.queries)
    numbers = {"LENGTH": COLUMNS[axis], "PER_ROW": 1, "BLOCK": rows}
    for name, number in {"KERNEL": source.program, **numbers}.items():
        constants[(at[name],)], signature[name] = number, "constexpr"
    return Source(of_sequence, signature, constants, aligned, source.options)


def make(name: str, kernel: str, kind: str, width: int, way: str) -> Any:
    """The output of Triton's compiler for one configuration and a target: code and metadata."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    target, source = TARGETS[name], source_of(name, kernel, kind, width, way)
    return triton.compile(
        ASTSource(fn=source.program, signature=source.signature, constexprs=source.constants, attrs=source.aligned),
        target=GPUTarget(target.vendor, target.arch, target.lanes),
        options=source.options,
    )


def inexact(vendor: str, text: str) -> set[str]:
    """The instructions and modes in a kernel's code that round incorrectly or flush subnormal numbers.

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
    """Compile one configuration for a target, and count the instructions of the compiled code."""
    target = TARGETS[name]
    made, block = make(name, kernel, kind, width, way), block_of(target, kernel, kind, width, way)
    if target.vendor == "cuda":
        (registers, spilled), moved = resources(made.asm["cubin"]), 0
        text = made.asm["ptx"]
    else:
        registers, spilled, moved = _of_amdgcn(made.asm)
        text = made.asm["amdgcn"]
    loops = []
    if kernel in KERNELS and kind != "float64":
        loops = score_loops(target.vendor, sass(made.asm["cubin"]) if target.vendor == "cuda" else text)
    costs = costs_of(loops, target, kernel, width, block)
    if way != COSTED:
        costs |= {"border_per_score": None, "around": None}
    return Compiled(
        target=name,
        kernel=kernel,
        kind=kind,
        width=width,
        way=way,
        block=tuple(block),
        registers=registers,
        spilled=spilled,
        moved=moved,
        shared_bytes=made.metadata.shared,
        matrix=len(re.findall(MATRIX[target.vendor], text, re.M)),
        **costs,
        inexact=len(inexact(target.vendor, text)),
        digest=digest(name, kernel, kind, width, way),
    )


def compile_row(name: str, kernel: str, kind: str, width: int, way: str) -> Compiled:
    """The result of `compile_one`; for `PACKED` tiles also the costs of border tiles and of the code around the loops.

    The code of `compile_one` is part of the digests of all rows; the code of this function is part of the digests of
    `PACKED` rows only.
    """
    row = compile_one(name, kernel, kind, width, way)
    if way == PACKED:
        target, made = TARGETS[name], make(name, kernel, kind, width, way)
        text = sass(made.asm["cubin"]) if target.vendor == "cuda" else made.asm["amdgcn"]
        costs = costs_of(score_loops(target.vendor, text), target, kernel, width, Configuration(*row.block))
        row = replace(row, border_per_score=costs["border_per_score"], around=costs["around"])
    return row


def costs_of(loops: list[Loop], target: Target, kernel: str, width: int, block: Configuration) -> dict[str, Any]:
    """The cost of one score of a block in the cheapest innermost loop, by the fields of `Compiled`.

    >>> loops, block = [Loop(64, 16, 2048, 0, 9), Loop(96, 16, 2048, 0, 9)], Configuration(128, 32, 8, 2)
    >>> list(costs_of(loops, TARGETS["sm_80"], "attend", 2, block).values())
    [4.0, 1.0, 2.0, 1.0, 0, 6.0, 9]
    """
    names = (
        "instructions_per_score",
        "exponentials_per_score",
        "matrix_products_per_score",
        "replication",
        "local_memory_in_loop",
        "border_per_score",
        "around",
    )
    if not loops:
        return dict.fromkeys(names)
    threads = block.warps * target.lanes / (block.queries * block.keys)
    loop = min(loops, key=lambda candidate: candidate.instructions)
    exponentials = loop.exponentials * threads
    products = replication = None
    if loop.multiply_adds is not None:
        products = loop.multiply_adds * block.warps / (block.queries * block.keys * width)
        replication = round(max(exponentials, products / sum(PRODUCTS[kernel])), 3)
        products = round(products, 3)
    border = max(candidate.instructions for candidate in loops) * threads
    first = round(loop.instructions * threads, 2), round(exponentials, 3), products, replication, loop.local
    return dict(zip(names, (*first, round(border, 2), loop.around), strict=True))


def estimate(
    target: Target, kernel: str, kind: str, width: int, instructions: float | None, computed: float = 1.0
) -> float:
    """The estimated throughput in 10^9 visible scores per second, if `computed` scores are computed for each of them.

    If the instructions per score are known, the time of a score is that of its matrix products plus that of issuing its
    instructions, times `_CALIBRATION`. Otherwise the estimate is an upper bound by the peaks of products and
    exponentials.

    >>> round(estimate(TARGETS["sm_80"], "attend", "bfloat16", 64, None))
    1219
    >>> scores = estimate(TARGETS["sm_90"], "attend", "bfloat16", 128, FBGEMM_INSTRUCTIONS)
    >>> round(1e-3 * scores * 4 * 128)
    337
    """
    if kernel in AROUND:
        return 0.0
    if kernel in NEAR_LINEAR:
        wide = kernel not in near_linear.KERNELS
        return 1e3 * target.tera["float64" if wide else kind] / (2 * width)
    products = target.tera[kind] / (2 * width * sum(PRODUCTS[kernel]) * computed)
    if instructions is None:
        return 1e3 * min(products, target.exponentials)
    if kind == "float32":  # the multiply-adds of these kinds are counted as instructions
        return 1e3 * _CALIBRATION * target.issued / instructions
    return 1e3 * _CALIBRATION / (1 / products + instructions / target.issued)


FBGEMM_INSTRUCTIONS, FBGEMM_TERA = 13.6, 337.0
"""Thread-instructions of a score of FBGEMM's simplicial forward kernel, bfloat16, 128 columns, on sm_90, and the 10^12
floating-point operations a second that its authors published for H100."""
_CALIBRATION = FBGEMM_TERA * (
    1 / TARGETS["sm_90"].tera["bfloat16"] + FBGEMM_INSTRUCTIONS / (4 * 128 * TARGETS["sm_90"].issued)
)
"""The share of the modelled throughput that this kernel reaches."""


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
    if name in WHOLE or name.endswith("_mask"):
        return "*i32"
    return f"*{narrow}" if name in OF_TENSORS or name.endswith(("_keys", "_values")) else "i32"


def _of_amdgcn(asm: dict[str, Any]) -> tuple[int, int, int]:
    """The vector registers, spilled bytes, and scalar registers kept in vector registers, from the metadata."""

    def number(name: str) -> int:
        return int(re.search(rf"^\s*\.{name}:\s+(\d+)", asm["amdgcn"], re.M)[1])  # type: ignore[index]

    spilled = 4 * number("vgpr_spill_count") + number("private_segment_fixed_size")
    return number("vgpr_count"), spilled, number("sgpr_spill_count")


def digest(name: str, kernel: str, kind: str, width: int, way: str) -> str:
    """A hash of all inputs of a row.

    The inputs are Triton's version, the target, the code of the kernel and of all functions that it calls, its
    arguments and options, and the code that counts instructions, without comments and docstrings.
    """
    source = source_of(name, kernel, kind, width, way)
    parts = (version("triton"), name, kernel, kind, width, way, *_counting(), *code_of(source.program))
    for constant in source.constants.values():
        if hasattr(constant, "fn"):
            parts += code_of(constant)
    if way == PACKED:
        parts += (_parsed(inspect.getsource(compile_row)),)
    arguments = (source.signature, source.constants, source.aligned, source.options)
    return hashlib.sha256(repr((parts, *(sorted(x.items()) for x in arguments))).encode()).hexdigest()[:16]


@cache
def _counting() -> tuple[str, ...]:
    """The code that makes a row from the output of the compiler."""
    parts = (disassembled, costs_of, compile_one, inexact)
    return (*(_parsed(inspect.getsource(part)) for part in parts), repr((MATRIX, PRODUCTS)))


@cache
def code_of(program: Any) -> tuple[str, ...]:
    """The code of a kernel and of all functions that it calls, without comments, and the constants that they read."""
    functions, texts = [program], []
    for function in functions:
        tree = ast.parse(inspect.getsource(function.fn))
        texts.append(_parsed(inspect.getsource(function.fn)))
        for node in sorted({node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}):
            value = function.fn.__globals__.get(node)
            if hasattr(value, "fn"):
                functions += [value] * (value not in functions)
            elif hasattr(value, "value"):
                texts.append(f"{node} = {value.value!r}")
    return tuple(texts)


def _parsed(code: str) -> str:
    """Code as a syntax tree without docstrings.

    >>> _parsed("def f():\\n  'Nothing.'\\n  return 1  # always") == _parsed("def f(): return 1")
    True
    """
    tree = ast.parse(code)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [  # type: ignore[attr-defined]
                each
                for each in body
                if not (
                    isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant) and each.value.value is not ...
                )
            ]
    return ast.dump(tree)


def compile_all(known: list[Compiled], workers: int = 2) -> list[Compiled]:
    """The rows of all shipped configurations; rows of `known` with an unchanged digest are not compiled again."""
    rows, needed = {row.digest: row for row in known}, {digest(*which): which for which in configurations()}
    missing = [which for digest, which in needed.items() if digest not in rows]
    if missing:
        with ProcessPoolExecutor(workers) as pool:
            rows |= {row.digest: row for row in pool.map(compile_row, *zip(*missing, strict=True), chunksize=2)}
    return [rows[digest] for digest in needed]


def faults(rows: list[Compiled]) -> list[str]:
    """An error message for each shipped configuration with too many spills, too much shared memory, or repeated work.

    A kernel whose innermost loop was counted may spill registers outside of this loop. Kernels whose blocks were chosen
    by cost (`CHOSEN`) must not repeat work.
    """
    sentences = []
    for row in rows:
        what = f"{row.kernel} of {row.kind}, {row.width} columns, {row.way}, on {row.target}"
        peeled = row.kernel in KERNELS and row.kind in HALF and not WAYS[row.way][2]
        limit = CHOSEN.get((LIMITS_OF.get(row.target, row.target), row.kernel), {}).get(row.width)
        if row.spilled and row.local_memory_in_loop is None:
            sentences.append(f"{what}: {row.spilled} bytes spilled.")
        masked = MOST_LOCAL_MASKED if limit is not None and row.kind in HALF else 0
        peeled = peeled and row.way != SEQUENCES
        if (row.local_memory_in_loop or 0) > (MOST_LOCAL if peeled else masked):
            sentences.append(f"{what}: {row.local_memory_in_loop} instructions for local memory in the innermost loop.")
        if row.shared_bytes > TARGETS[row.target].shared:
            sentences.append(f"{what}: {row.shared_bytes} bytes of shared memory, of {TARGETS[row.target].shared}.")
        if limit is not None and row.way in (COSTED, PACKED, SEQUENCES):
            # On Blackwell the code does not show the sizes of matrix products, so repeated work is counted by
            # exponentials.
            repeated = row.exponentials_per_score if row.target in BLACKWELL else row.replication
            cost, most = (row.instructions_per_score, repeated), (limit, 1.0)
            if any(number is None or number > largest for number, largest in zip(cost, most, strict=True)):
                sentences.append(
                    f"{what}: instructions of a score and replication are {cost}, expected at most {most}."
                )
        nvidia = TARGETS[row.target].vendor == "cuda"
        if row.matrix and row.kind in ("float32", "float64") and (nvidia or row.kernel in NEAR_LINEAR):
            sentences.append(f"{what}: {row.matrix} instructions for matrix units, whose rounding is not documented.")
    return sentences


def save(rows: list[Compiled], folder: Path = RESULTS) -> None:
    """Write the table as JSON, with one line per row, and as Markdown."""
    head = {"triton": version("triton"), "columns": [field.name for field in fields(Compiled)]}
    lines = [json.dumps(list(astuple(row)), separators=(",", ":")) for row in rows]
    text = json.dumps(head)[:-1] + ', "rows": [\n' + ",\n".join(lines) + "\n]}\n"
    (folder / "gpu-compiled.json").write_text(text)
    (folder / "gpu-compiled.md").write_text(markdown(rows))


def load(folder: Path = RESULTS) -> dict[str, Any]:
    """The saved table, with the rows as `Compiled`."""
    saved: dict[str, Any] = json.loads((folder / "gpu-compiled.json").read_text())
    rows = [dict(zip(saved["columns"], row, strict=True)) for row in saved["rows"]]
    saved["rows"] = [Compiled(**{**row, "block": tuple(row["block"])}) for row in rows]
    return saved


HEADINGS = (
    "kernel", "products", "columns", "of", "block", "registers", "spilled", "shared", "instructions per score",
    "exponentials per score", "matrix products per score", "replication", "instructions per visible score",
    "occupancy", "estimate, 10^9 scores/s",
)  # fmt: skip


def _cell(number: float | None) -> str:
    return "" if number is None else f"{number:.3g}"


def _summary(rows: list[Compiled]) -> list[str]:
    """The cost of a score with a causal mask and windows, forward and backward: in the innermost loops and in total."""
    costed = {(row.target, row.kernel, row.width, row.way): row for row in rows if row.whole}
    lines = [
        f"## Causality and windows of {INNER_WINDOW} and {PREFIX_WINDOW}, bfloat16, order 3",
        "",
        "Thread-instructions of a score: in the innermost loops without comparisons, which the targets are set for; "
        "and in whole kernels for a visible score, with masked scores of border tiles and the code around the loops. "
        "The throughput of the forward pass is modelled from the latter, with 4 d floating-point operations for a "
        f"visible score. FBGEMM's forward kernel has {FBGEMM_INSTRUCTIONS} thread-instructions in its innermost loop "
        f"at 128 columns on sm_90, and its authors published {FBGEMM_TERA:.0f} TFLOP/s, which calibrates the model. It "
        "packs 64 query heads that share keys into a tile, and so has no border tiles; the last two columns are of our "
        "kernel where tiles are packed with query heads, 128 on one key head, or 64 on sm_90 and later.",
        "",
        "| target | columns | forward, loops | backward, loops | forward, whole | backward, whole | forward, TFLOP/s | "
        "packed forward, whole | packed forward, TFLOP/s |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, width in product(TARGETS, WIDEST):
        forward = costed.get((name, "attend", width, COSTED))
        if forward:
            packed = costed[name, "attend", width, PACKED]
            kernels = ("inner_gradient", FUSED) if name in FUSED_ON else ("inner_gradient", *SEPARATE)
            backward = [costed[name, kernel, width, COSTED] for kernel in kernels]
            loops = sum(row.instructions_per_score or 0.0 for row in backward)
            whole = [row.whole.instructions for row in (forward, packed, *backward) if row.whole]
            numbers = (forward.instructions_per_score, loops, whole[0], sum(whole[2:]))
            tera, packed_tera = (4e-3 * width * row.estimate for row in (forward, packed))
            cells = [f"{x or 0:.1f}" for x in numbers] + [f"{tera:.0f}", f"{whole[1]:.1f}", f"{packed_tera:.0f}"]
            lines.append(f"| {name} | {width} | " + " | ".join(cells) + " |")
    return lines


def markdown(rows: list[Compiled]) -> str:
    """The table, one section for each target."""
    lines = [
        "# The kernels in Triton, compiled",
        "",
        "Tested in the interpreter, compiled for these targets, not yet timed on hardware. `python -m benchmarks gpu "
        "--compile` makes this table; `benchmarks/gpu/compiled.py` says what its columns are. The last column is an "
        "estimate from the GPU's peaks, calibrated on FBGEMM's published time. A block is queries x inner keys, warps, "
        "stages; for near-linear attention it is monomials x tokens (entries, for `carry`), and a score is a monomial "
        "of a token. What a score costs is counted in the innermost loop of the disassembled kernel, the one without "
        "comparisons where there is one.",
        "",
        *_summary(rows),
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
                row.registers, row.spilled, row.shared_bytes, _cell(row.instructions_per_score),
                _cell(row.exponentials_per_score), _cell(row.matrix_products_per_score), _cell(row.replication),
                _cell(row.whole and row.whole.instructions), f"{row.occupancy:.0%}", f"{row.estimate:.4g}",
            )  # fmt: skip
            lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines) + "\n"
