"""Packed sequences in one launch of each kernel: their layout in memory, the values of each
sequence, and the arguments of a kernel.

Without this module packed sequences are attended in a loop, with a pass over each of them. Here the tensors of all
sequences are the arguments of one launch. The second coordinate of its grid is the sequence, and `programs.of_sequence`
moves the pointers of the first coordinate's program to it. Programs beyond the last block of a sequence return
immediately, so the cost is proportional to the number of tuples that may be attended.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor

from separatrix.attention.call import Call
from separatrix.attention.dispatch import gpu

NAMES = ("sequence", "first query", "queries", "offset", "first partial", "blocks", "count", "first prefix")
COLUMNS = {name: column for column, name in enumerate((*NAMES, "prefixes", "first inner", "inners"))}
"""The numbers of a sequence: its index and where its rows begin, and its lengths, by the names of the arguments."""
TABLE, SIZES, WIDTH = 12, 16, 28
"""In the numbers of a sequence, the columns where the table of the prefix set and the sizes of all tensors begin, and
the number of columns: all are multiples of 4, so that pointers to them are multiples of 16 bytes.
"""
LENGTHS = ("queries", "prefixes", "inners", "offset", "count", "blocks")
"""The arguments of kernels that have one value for each sequence."""
OF_SET = ("key_gradient", "value_gradient")
"""The results for one of the key sets."""
FIRST = {
    **dict.fromkeys(("left", "incoming", "lse", "delta", "own_exponents", "near", "shift"), "first query"),
    **dict.fromkeys(("out", "gradient", "_gradient", "out_gradient", "lse_gradient"), "first query"),
    **dict.fromkeys(("prefix_keys", "prefix_values", "prefix_mask", *OF_SET), "first prefix"),
    **dict.fromkeys(("inner_keys", "inner_values", "inner_mask"), "first inner"),
    **dict.fromkeys(("key_partials", "value_partials"), "first partial"),
    **dict.fromkeys(("table", "exponents", "multipliers", "top_exponents"), "sequence"),
}
"""For each pointer argument, the column with the offset of a sequence."""


@dataclass(frozen=True)
class PackedCall(Call):
    """A call of order 3 with packed sequences, whose tensors contain the tokens of all sequences.

    In memory one sequence follows another, each with the rows of its first head, then of its second.

    Attributes:
        stops: For the queries and for each key set, the cumulative lengths of the sequences, which begin with 0.
        offsets: The offset of each sequence.
    """

    stops: tuple[tuple[int, ...], ...] = ()
    offsets: tuple[int, ...] = ()

    def lengths(self, axis: int) -> list[int]:
        """The lengths of the sequences in the queries (0) or in a key set (1 and higher)."""
        return [stop - start for start, stop in pairwise(self.stops[axis])]


class Programs(NamedTuple):
    """The programs of a launch: for each of `heads`, one program per block of rows.

    Attributes:
        heads: The number of heads.
        axis: The length of a sequence that is divided among programs: a name in `COLUMNS`.
        rows: The number of rows of all sequences.
        per_row: The number of rows of the kernel for each row of the axis.
        block: The number of rows of a block.
    """

    heads: int
    axis: str
    rows: int
    per_row: int = 1
    block: int = 1

    def of(self, rows: int) -> int:
        """The number of programs for `rows` rows."""
        return self.heads * -(-rows * self.per_row // self.block)


def places(stops: Sequence[int], heads: int, device: torch.device) -> Tensor:
    """For each token of each head, (heads, tokens), its row in the memory of a `PackedCall`.

    >>> places([0, 1, 3], 2, torch.device("cpu"))
    tensor([[0, 2, 3],
            [1, 4, 5]])
    """
    ends = torch.tensor(stops, device=device)
    lengths, tokens = ends.diff(), stops[-1]
    start, length = (torch.repeat_interleave(numbers, lengths, output_size=tokens) for numbers in (ends[:-1], lengths))
    head = torch.arange(heads, device=device).unsqueeze(1)
    return torch.arange(tokens, device=device) + start * (heads - 1) + head * length


def to_sequences(x: Tensor, stops: Sequence[int]) -> Tensor:
    """A copy of a tensor (heads, tokens, ...) whose memory has one sequence after another."""
    if x.shape[0] == 1 or len(stops) == 2:
        return x
    rows = places(stops, x.shape[0], x.device).flatten()
    return torch.empty_like(x.flatten(0, 1)).index_copy_(0, rows, x.flatten(0, 1)).view(x.shape)


def from_sequences(x: Tensor, stops: Sequence[int]) -> Tensor:
    """The inverse of `to_sequences`."""
    if x.shape[0] == 1 or len(stops) == 2:
        return x
    return x.flatten(0, 1).index_select(0, places(stops, x.shape[0], x.device).flatten()).view(x.shape)


def of_rows(call: PackedCall, factors: Tensor) -> Tensor:
    """The factors of the key heads of all sequences (sequences times heads, 1, 1), repeated for each row of queries."""
    heads = call.keys[0].shape[0]
    counts = torch.tensor(call.lengths(0)).repeat_interleave(heads).mul(call.shared).to(factors.device)
    return factors.repeat_interleave(counts, 0, output_size=call.query.shape[0] * call.query.shape[1])


def packed_call(call: Call, stops: Sequence[Sequence[int]], offsets: Sequence[int]) -> PackedCall:
    """The call with the memory of its tensors in the order of the sequences."""
    axes = (0, 1, 2, 1, 2)
    query, *sets = (to_sequences(x, stops[axis]) for x, axis in zip(call.tensors, axes, strict=True))
    masks = tuple(to_sequences(mask, stops[m]) for m, mask in enumerate(call.masks, 1))
    lengths = tuple(tuple(ends) for ends in stops)
    given = tuple(sets[:2]), tuple(sets[2:]), masks, call.positions, call.scale
    return PackedCall(query, *given, stops=lengths, offsets=tuple(offsets))


def numbers_of_sequences(call: PackedCall, inner: int, window: int, rows: int) -> Tensor:
    """The numbers of all sequences, (sequences, WIDTH), on the CPU; see `COLUMNS`.

    Args:
        call: The call.
        inner: The index of the inner key set.
        window: The window of the prefix set, 0 for no window.
        rows: The rows of a block of the kernel `largest`.
    """
    stops = [torch.tensor(ends) for ends in call.stops]
    queries, *lengths = (ends.diff() for ends in stops)
    prefix, count = 1 - inner, queries * call.shared
    columns: dict[int, Any] = {
        COLUMNS["sequence"]: torch.arange(len(queries)),
        COLUMNS["first query"]: stops[0][:-1],
        COLUMNS["queries"]: queries,
        COLUMNS["offset"]: torch.tensor(call.offsets),
        COLUMNS["blocks"]: -(-torch.stack([count, *lengths]).amax(0) // rows),
        COLUMNS["count"]: count,
        COLUMNS["first prefix"]: stops[1 + prefix][:-1],
        COLUMNS["prefixes"]: lengths[prefix],
        COLUMNS["first inner"]: stops[1 + inner][:-1],
        COLUMNS["inners"]: lengths[inner],
        TABLE + 1: lengths[prefix],
        TABLE + 2: window,
    }
    for m, length in enumerate((count, *lengths, *lengths)):
        columns |= {SIZES + 2 * m: length, SIZES + 2 * m + 1: call.tensors[m].shape[2]}
    numbers = torch.zeros(len(queries), WIDTH, dtype=torch.int32)
    for column, entries in columns.items():
        numbers[:, column] = entries
    return numbers


def column_of(kernel: str, name: str, *, masked: bool) -> str | None:
    """The column of the number that replaces an argument of a kernel for a sequence, or that is added to a pointer;
    None if all sequences share the argument.

    >>> column_of("attend", "queries", masked=False), column_of("inner_gradient", "key_gradient", masked=False)
    ('queries', 'first inner')
    """
    if name in LENGTHS:
        return name
    if name.endswith("_mask") and not masked:
        return None
    return "first inner" if kernel == "inner_gradient" and name in OF_SET else FIRST.get(name)


def place_partials(numbers: tuple[Tensor, Tensor], programs: Programs, rows: int) -> int:
    """Write where the partial sums of each sequence begin, and return their number of rows.

    Args:
        numbers: The numbers of all sequences, on the CPU and on the device.
        programs: The programs of the kernel that writes partial sums.
        rows: The rows of a program, or fewer if there are fewer prefix keys.
    """
    on_host, on_device = numbers
    counts: list[int] = [
        programs.of(queries) * min(prefixes, rows)
        for queries, prefixes in on_host[:, [COLUMNS["queries"], COLUMNS["prefixes"]]].tolist()
    ]
    ends = list(accumulate(counts, initial=0))
    on_device[:, COLUMNS["first partial"]] = torch.tensor(ends[:-1], dtype=torch.int32).to(on_device.device)
    return ends[-1]


def launch(
    call: PackedCall,
    inner: int,
    numbers: tuple[Tensor, Tensor],
    kernels: tuple[Any, Any],
    programs: Programs,
    arguments: Sequence[Any],
    options: dict[str, Any],
) -> None:
    """Launch a kernel over the blocks of all sequences.

    Args:
        call: The call.
        inner: The index of the inner key set.
        numbers: The numbers of the sequences, on the CPU and on the device.
        kernels: The kernel `of_sequence`, and the kernel that it runs.
        programs: The launch grid of the second kernel.
        arguments: The run-time arguments of the second kernel.
        options: The compile-time arguments of the second kernel and the compiler's options, by name.
    """
    from triton.language import constexpr

    wrapper, kernel = kernels
    of_sets = ["first inner" if m == inner else "first prefix" for m in range(2)]

    def argument(x: Any, column: str | None) -> tuple[Any, ...]:
        if column is None:
            return x, None, constexpr(-1)
        if column in LENGTHS:
            return None, None, constexpr(COLUMNS[column])
        steps = {"sequence": x.stride(0), "first partial": x.shape[-1]}
        return x, steps.get(column) or x.numel() // x.shape[1], constexpr(COLUMNS[column])

    names = kernel.arg_names
    flags = tuple(constexpr(options.pop(name)) for name in names[len(arguments) :])
    tuples = []
    if names[0] == "factors":
        factors, masks, *arguments = arguments
        tuples.append(tuple(map(argument, factors, ("first query", *of_sets, *of_sets))))
        tuples.append(tuple(map(argument, masks, of_sets if call.masks else (None, None))))
    given = tuple(
        argument(x, column_of(kernel.__name__, name, masked=bool(call.masks)))
        for name, x in zip(names[len(tuples) :], arguments, strict=False)
    )
    most = int(numbers[0][:, COLUMNS[programs.axis]].max())
    gpu.launch(
        wrapper,
        programs.of(most),
        call.query.device,
        *(numbers[1], WIDTH, programs.heads, tuple(tuples), given, flags),
        sequences=len(call.offsets),
        KERNEL=kernel,
        LENGTH=COLUMNS[programs.axis],
        PER_ROW=programs.per_row,
        BLOCK=programs.block,
        **options,
    )
