r"""Packed sequences: several sequences concatenated in one tensor, each attended separately.

    out = sx.tensor_attention(query, keys, values, cu_seqlens=torch.tensor([0, 5, 12, 17]), is_causal=True)

`cu_seqlens` are cumulative lengths, as in flash-attention: sequence s has the tokens cu_seqlens[s] up to
cu_seqlens[s + 1]. On a GPU, one launch of each Triton kernel computes exact attention of order 3 over all sequences.
Every other call is split at these boundaries, and sequences of equal lengths are attended in one call, as a batch. So
the cost is that of the tuples that may be attended, positions (causality, windows, rotary, biases) start at 0 in each
sequence, and every algorithm supports packed sequences. The boundaries are read on the host.

On the CPU, outputs and gradients of exact attention are bitwise those of a loop over the sequences, except where
sequences of equal lengths are a batch in which sums are added in another order, because that order depends on the
number of heads:

- `sinks` and `distinct`, which merge or sum partial results by operations of PyTorch;
- gradients, if a sequence has fewer than nine query heads: the keys are then divided into more groups, which are added
  up separately, so that several threads share the work of a head;
- gradients for 4 to 23 queries, if a sequence has fewer than four key heads: the batch takes another backward pass;
- order 2, if only the batch has so many scores that our kernels replace PyTorch's (`exact.fused.FEWEST_SCORES`).

In these cases the results differ only by rounding. On GPUs there are other exceptions: see the guide.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor

from separatrix.attention.arguments import check_arguments, check_tensor
from separatrix.attention.arithmetic.device_reads import numbers
from separatrix.attention.call import grouped
from separatrix.attention.certified import Certified, Sets
from separatrix.attention.dispatch import gpu
from separatrix.attention.exact.sequences import attend_sequences
from separatrix.attention.near_linear.certificate import Certificate
from separatrix.attention.near_linear.gradient_certificate import GradientCertificate
from separatrix.attention.near_linear.plan import Plan
from separatrix.errors import ArgumentError

Lengths = Tensor | Sequence[Tensor]
"""Cumulative lengths: one tensor for query and keys, or a list with one for the query and one for each key set."""


class Group(NamedTuple):
    """Sequences of equal lengths: their indices, and the tensors of one call, with a batch dimension for several."""

    sequences: list[int]
    query: Tensor
    keys: list[Tensor]
    values: list[Tensor]
    places: dict[str, Any]


@dataclass(frozen=True)
class Packing:
    """A packed call: its tensors, the boundaries of the sequences in query and key sets, and the offset of each."""

    query: Tensor
    keys: list[Tensor]
    values: list[Tensor]
    key_masks: list[Tensor | None] | None
    boundaries: list[list[int]]
    offsets: list[int]

    def groups(self) -> Iterator[Group]:
        """The sequences by their lengths and offsets, in the order in which these occur first."""
        alike: dict[tuple[int, ...], list[int]] = {}
        for sequence, offset in enumerate(self.offsets):
            lengths = (stops[sequence + 1] - stops[sequence] for stops in self.boundaries)
            alike.setdefault((*lengths, offset), []).append(sequence)
        rank = max(x.dim() for x in (self.query, *self.keys, *self.values))
        for (*_, offset), sequences in alike.items():
            masks = None
            if self.key_masks is not None:
                masks = [
                    None if mask is None else self._part(mask, sequences, m, -1, rank - 1)
                    for m, mask in enumerate(self.key_masks, 1)
                ]
            yield Group(
                sequences,
                self._part(self.query, sequences, 0, -2, rank),
                [self._part(x, sequences, m, -2, rank) for m, x in enumerate(self.keys, 1)],
                [self._part(x, sequences, m, -2, rank) for m, x in enumerate(self.values, 1)],
                {"query_offset": offset, "key_masks": masks},
            )

    def _part(self, x: Tensor, sequences: list[int], which: int, axis: int, rank: int) -> Tensor:
        """The tokens of these sequences: a view for one sequence, stacked along a new first dimension for several."""
        stops = self.boundaries[which]
        parts = [x.narrow(axis, stops[s], stops[s + 1] - stops[s]) for s in sequences]
        if len(parts) == 1:
            return parts[0]
        return torch.stack([part.reshape(*(1,) * (rank - x.dim()), *part.shape) for part in parts])

    def joined(self, groups: Sequence[list[int]], results: Sequence[Tensor], axis: int) -> Tensor:
        """The results of the groups, concatenated in the order of the call."""
        parts: dict[int, Tensor] = {}
        for sequences, result in zip(groups, results, strict=True):
            stacked = [result] if len(sequences) == 1 else result.unbind(0)
            parts.update(zip(sequences, stacked, strict=True))
        return torch.cat([parts[sequence] for sequence in sorted(parts)], axis)


def pack(
    query: Tensor,
    keys: Sets,
    values: Sets,
    key_masks: Tensor | Sequence[Tensor | None] | None,
    cu_seqlens: Lengths | None,
    query_offset: int,
    query_offsets: Sequence[int] | Tensor | None,
) -> Packing:
    """The packed call for these arguments; an `ArgumentError` if the lengths do not match the tensors."""
    if cu_seqlens is None:
        raise ArgumentError("query_offsets", expected="None without cu_seqlens", got=type(query_offsets).__name__)
    check_tensor("query", query)
    sets, beside = ([x] if isinstance(x, Tensor) else list(x) for x in (keys, values))
    for name, entries in (("keys", sets), ("values", beside)):
        if len(entries) != len(sets) or not entries:
            expected = "a tensor (order 2) or a list with one entry for each set"
            raise ArgumentError(name, expected=expected, got=str(len(entries)))
        for m, x in enumerate(entries):
            check_tensor(f"{name}[{m}]", x, dtype=query.dtype, device=query.device)
    given = [cu_seqlens] * (1 + len(sets)) if isinstance(cu_seqlens, Tensor) else list(cu_seqlens)
    if len(given) != 1 + len(sets):
        expected = f"one tensor, or {1 + len(sets)}: one for the query and one for each key set"
        raise ArgumentError("cu_seqlens", expected=expected, got=str(len(given)))
    boundaries = [sequence_boundaries(f"cu_seqlens[{m}]", x) for m, x in enumerate(given)]
    masks = [key_masks] * len(sets) if isinstance(key_masks, Tensor) else key_masks
    if masks is not None and len(masks) != len(sets):
        raise ArgumentError("key_masks", expected=f"{len(sets)}, one for each key set", got=str(len(masks)))
    lengths = [("query", query.shape[-2], 0)]
    for m, (key, value) in enumerate(zip(sets, beside, strict=True)):
        lengths += [(f"keys[{m}]", key.shape[-2], m + 1), (f"values[{m}]", value.shape[-2], m + 1)]
        mask = None if masks is None else masks[m]
        if isinstance(mask, Tensor) and mask.dim() > 0:
            lengths.append((f"key_masks[{m}]", mask.shape[-1], m + 1))
    for name, length, which in lengths:
        stops = boundaries[which]
        if len(stops) != len(boundaries[0]):
            got = f"{len(stops) - 1} against {len(boundaries[0]) - 1}"
            raise ArgumentError(f"cu_seqlens[{which}]", expected="as many sequences as in cu_seqlens[0]", got=got)
        if length != stops[-1]:
            expected = f"{stops[-1]} tokens, the last entry of cu_seqlens[{which}]"
            raise ArgumentError(name, expected=expected, got=f"{length}")
    count = len(boundaries[0]) - 1
    if query_offsets is None:
        offsets = [query_offset] * count
    else:
        offsets = numbers(query_offsets) if isinstance(query_offsets, Tensor) else list(query_offsets)
        if query_offset != 0 or len(offsets) != count:
            expected = f"{count} integers, one for each sequence, and a query_offset of 0"
            raise ArgumentError("query_offsets", expected=expected, got=f"{len(offsets)} and {query_offset}")
    return Packing(query, sets, beside, None if masks is None else list(masks), boundaries, offsets)


def sequence_boundaries(name: str, cu_seqlens: object) -> list[int]:
    """Cumulative lengths as integers, which start with 0 and never decrease."""
    expected = (
        "a tensor of cumulative lengths, (sequences + 1,), of int32 or int64, which begin with 0 and never decrease"
    )
    if not isinstance(cu_seqlens, Tensor):
        raise ArgumentError(name, expected=expected, got=type(cu_seqlens).__name__)
    if cu_seqlens.dtype not in (torch.int32, torch.int64) or cu_seqlens.dim() != 1:
        raise ArgumentError(name, expected=expected, got=f"{cu_seqlens.dtype} of shape {tuple(cu_seqlens.shape)}")
    _check_entries(name, cu_seqlens)
    stops: list[int] = numbers(cu_seqlens)
    if not stops or stops[0] != 0 or any(later < earlier for earlier, later in pairwise(stops)):
        raise ArgumentError(name, expected=expected, got=str(stops))
    return stops


def _check_entries(name: str, x: Tensor) -> None:
    """Raise an error if the entries of x, which decide the shapes of the calls, may not be read."""
    if x.is_meta or torch.compiler.is_exporting() or torch._C._functorch.is_batchedtensor(x):
        expected = "a tensor with entries, because the lengths of packed sequences decide which tensors are computed"
        raise ArgumentError(name, expected=expected, got="one of an export, of torch.vmap or of the device 'meta'")


def attend_packed(packing: Packing, attend: Callable[..., tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
    """The results of a packed call: the outputs, and the log-sum-exps if `attend` returns them.

    `attend` takes query, keys, values, `query_offset` and `key_masks` of sequences of equal lengths, with or without a
    further leading dimension, and returns the output (..., L_q, d_v), alone or with the log-sum-exp (..., L_q).
    """
    groups, results = [], []
    for group in packing.groups():
        groups.append(group.sequences)
        results.append(attend(group.query, group.keys, group.values, **group.places))
    if not groups:  # without tokens there is no sequence
        return attend(packing.query, packing.keys, packing.values, query_offset=0, key_masks=None)
    return tuple(packing.joined(groups, parts, axis) for axis, parts in enumerate(zip(*results, strict=True), -2))


def attend_at_once(packing: Packing, **options: Any) -> tuple[Tensor, Tensor] | None:
    """The output and the log-sum-exp of exact attention by one launch for all sequences; None if that is not supported.

    The options are `is_causal`, `windows`, `scale` and `enable_gqa` of `tensor_attention`.
    """
    is_causal = options.pop("is_causal")
    if type(is_causal) is not bool or packing.query.device.type not in gpu.DEVICES:
        return None
    call = grouped(check_arguments(packing.query, packing.keys, packing.values, key_masks=packing.key_masks, **options))
    call = replace(call, positions=replace(call.positions, is_causal=is_causal))
    return attend_sequences(call, packing.boundaries, packing.offsets)


def certify_packed(packing: Packing, certify: Callable[..., Certified]) -> Certified:
    """The certified results of a packed call, computed by a call for each group of sequences of equal lengths.

    Every bound of the certificate is the maximum over the sequences.
    """
    results: list[Certified] = []

    def attend(*tensors: Any, **places: Any) -> tuple[Tensor, Tensor]:
        results.append(certify(*tensors, **places))
        return results[-1].output, results[-1].lse

    out, lse = attend_packed(packing, attend)
    certificates = [result.certificate for result in results]
    groups = [group.sequences for group in packing.groups()]

    def per_query(parts: Sequence[Tensor]) -> Tensor:
        return packing.joined(groups, parts, -1) if groups else parts[0]

    gradients = [x.gradient for x in certificates if x.gradient is not None]
    gradient = None
    if len(gradients) == len(certificates):
        of_keys, of_values = (
            tuple(max(bounds) for bounds in zip(*sets, strict=True))
            for sets in ([x.keys for x in gradients], [x.values for x in gradients])
        )
        gradient = GradientCertificate(per_query([x.query for x in gradients]), of_keys, of_values)
    bounds = {name: max(getattr(x, name) for x in certificates) for name in ("truncation", "rounding", "total", "lse")}
    certificate = Certificate(**bounds, per_query=per_query([x.per_query for x in certificates]), gradient=gradient)
    plan = merge_plans([result.plan for result in results], len(packing.offsets))
    return Certified(out, lse, certificate, plan, results[0].tolerance)


def merge_plans(plans: Sequence[Plan], sequences: int) -> Plan:
    """One plan for the calls of a packed call: the sum of their costs, and the largest of their degrees and errors. The
    method is "mixed" if the calls have different methods.
    """
    if len(plans) == 1:
        return plans[0]
    methods = {plan.method for plan in plans}
    largest = max(plans, key=lambda plan: (plan.rank or 0, plan.flops))
    return replace(
        largest,
        method=methods.pop() if len(methods) == 1 else "mixed",
        predicted_error=max(plan.predicted_error for plan in plans),
        flops=sum(plan.flops for plan in plans),
        bytes=max(plan.bytes for plan in plans),
        why=f"{sequences} packed sequences in {len(plans)} calls; the largest: {largest.why}",
        recipe=None,
    )


def lengths_of_runs(sequence_ids: Tensor) -> Tensor:
    """The cumulative lengths of the sequences in rows of tokens that have the same id: `cu_seqlens` of the flat rows.

    Args:
        sequence_ids: Integers (..., L). Tokens of one row with the same id are one sequence, and must be neighbours.

    Raises:
        ArgumentError: The ids are not integers, or the tokens of an id are not contiguous in a row.

    Example:
        >>> lengths_of_runs(torch.tensor([[0, 0, 1], [0, 5, 5]])).tolist()
        [0, 2, 3, 4, 6]
    """
    integer = isinstance(sequence_ids, Tensor) and not (sequence_ids.is_floating_point() or sequence_ids.is_complex())
    if not integer or sequence_ids.dtype == torch.bool or sequence_ids.dim() == 0:
        got = f"{sequence_ids.dtype}" if isinstance(sequence_ids, Tensor) else type(sequence_ids).__name__
        raise ArgumentError("sequence_ids", expected="a tensor of integers, (..., length)", got=got)
    _check_entries("sequence_ids", sequence_ids)
    rows = sequence_ids.flatten(0, -2) if sequence_ids.dim() > 1 else sequence_ids.unsqueeze(0)
    begins = torch.ones_like(rows, dtype=torch.bool)
    begins[:, 1:] = rows[:, 1:] != rows[:, :-1]
    for row, first in zip(numbers(rows), numbers(begins), strict=True):
        ids = [number for number, begin in zip(row, first, strict=True) if begin]
        if len(set(ids)) != len(ids):
            expected = "the tokens of a sequence next to each other"
            raise ArgumentError("sequence_ids", expected=expected, got=f"a row with the ids {ids} in this order")
    starts = begins.flatten().nonzero().flatten()
    return torch.cat([starts, starts.new_tensor([rows.numel()])])
