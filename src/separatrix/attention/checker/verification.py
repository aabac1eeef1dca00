r"""Checks a certificate: recomputes chosen queries of a call in ball arithmetic and compares them with its results.

A packed call is checked sequence by sequence, and the verdicts are combined.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol, Unpack

import numpy as np
import torch
from torch import Tensor

from separatrix.attention.checker.problem import CallResults, as_problem, exact_floats, subnormal_numbers
from separatrix.checks import is_whole
from separatrix.errors import ArgumentError, SeparatrixError

if TYPE_CHECKING:
    from separatrix.attention.arguments import CallOptions


@dataclass(frozen=True)
class Verification:
    """Whether a certificate held at the queries that were recomputed.

    `margin` is the largest ratio of an error to its certificate, rounded up: at most 1 if it held. `worst` is the index
    of the query that has it, first in the batch and then by position, and `what` names the result, "output" or "lse".
    `error` and `certificate` are those of this query. `queries` is the number of recomputed queries. `fault` is a
    sentence about a result that is wrong under any error bound, such as NaN; otherwise it is empty. `reproducer` is
    empty if the certificate held; otherwise it is a program in Python's decimal arithmetic that shows the violation, or
    a text that says how to show it.
    """

    held: bool
    margin: float
    worst: tuple[int, ...]
    what: str
    error: float
    certificate: float
    queries: int
    fault: str = ""
    reproducer: str = ""

    def __str__(self) -> str:
        """A sentence, followed by the reproducer if the certificate is broken."""
        if self.held and not self.worst:
            return "nothing was recomputed: there are no queries"
        names = {"output": "the output at query", "lse": "the log-sum-exp at query"}
        of = f"{names.get(self.what, f'the gradient of {self.what} at entry')} {', '.join(map(str, self.worst))}"
        if self.held:
            checked = "query was" if self.queries == 1 else "queries were"
            return f"held, with margin {self.margin:.3g} ({of}): {self.queries} {checked} recomputed"
        error = f"its error {self.error:.6g} exceeds its certificate {self.certificate:.6g}"
        return f"broken, {of}: {self.fault or error}.\n\n{self.reproducer}".rstrip()


class _Certificate(Protocol):
    @property
    def total(self) -> float: ...
    @property
    def lse(self) -> float: ...
    @property
    def per_query(self) -> Tensor: ...


class Result(Protocol):
    """The attributes of a result that `verify` uses; results of `certified_attention` and saved calls have them."""

    @property
    def output(self) -> Tensor: ...
    @property
    def lse(self) -> Tensor: ...
    @property
    def certificate(self) -> _Certificate: ...


def verify(
    result: Result,
    query: Tensor,
    keys: Tensor | Sequence[Tensor],
    values: Tensor | Sequence[Tensor],
    *,
    cu_seqlens: Tensor | Sequence[Tensor] | None = None,
    query_offsets: Sequence[int] | Tensor | None = None,
    queries: int = 16,
    **options: Unpack[CallOptions],
) -> Verification:
    r"""Recompute chosen queries of a certified call in ball arithmetic, and say whether its certificate held.

    The arithmetic is done by python-flint (``pip install 'separatrix[verify]'``): every number has a bound on its own
    error, so that the verdict is a proof for the recomputed queries. The check shares no code with the operators. The
    chosen queries are spread evenly over the call and include the first, the last, and those with the smallest and the
    largest certificate. All queries are searched for impossible results, such as an output that is not finite or a
    log-sum-exp that is NaN; if there are any, one of them is included. The output of each chosen query is checked
    against `certificate.per_query`, and its log-sum-exp against `certificate.lse`; a query that may attend to no tuple
    must have zeros and -inf.

    For a query with up to two million tuples, all of them are summed. For more tuples an expansion of the exponential
    is summed, and the bound on its remainder is added to the ball: a million tokens take a minute at order 3 and d = 8,
    if the scores are small enough for near-linear attention.

    Args:
        result: What `certified_attention` returned.
        query: The queries of the call. All arguments but `queries` are those of the call.
        keys: As in the call.
        values: As in the call.
        cu_seqlens: As in the call. At least one query of each packed sequence is recomputed.
        query_offsets: As in the call.
        queries: The number of queries to recompute; all queries if the call has fewer.
        **options: `is_causal`, `query_offset`, `key_masks`, `windows`, `scale` and `enable_gqa`, as in the call. A
            `scale` of None means the float64 number nearest to 1/d.

    Returns:
        A `Verification` with `held`, `margin` (the largest ratio of an error to its certificate) and `worst` (the query
        that has it). Printed, it is a sentence, followed by a program that shows it if the certificate is broken.

    Raises:
        ArgumentError: An argument is inconsistent with the others.
        SeparatrixError: python-flint is not installed, or a query cannot be decided within the limits.

    Example:
        >>> from separatrix import certified_attention
        >>> q, k1, k2, v1, v2 = torch.randn(5, 40, 4, generator=torch.Generator().manual_seed(0))
        >>> result = certified_attention(q, [k1, k2], [v1, v2], tolerance=1e-3)
        >>> verified = verify(result, q, [k1, k2], [v1, v2])
        >>> verified.held, verified.queries, verified.margin < 1
        (True, 16, True)
        >>> wrong = verify(result, q, [k1, k2], [v1, v2], scale=0.3)
        >>> wrong.held, wrong.margin > 1
        (False, True)
    """
    if not all(hasattr(result, name) for name in ("output", "lse", "certificate")):
        expected = "what certified_attention returned: its output, log-sum-exp and certificate"
        raise ArgumentError("result", expected=expected, got=f"an object of type {type(result).__name__}")
    certificate = result.certificate
    with subnormal_numbers():
        bounds = torch.from_numpy(np.asarray(np.minimum(exact_floats(certificate.per_query), certificate.total)))
    if cu_seqlens is None and query_offsets is not None:
        raise ArgumentError("query_offsets", expected="None without cu_seqlens", got=type(query_offsets).__name__)
    packed = {} if cu_seqlens is None else {"cu_seqlens": cu_seqlens, "query_offsets": query_offsets}
    return (check if cu_seqlens is None else check_packed)(
        result.output,
        bounds,
        query,
        keys,
        values,
        lse=result.lse,
        lse_bound=certificate.lse,
        queries=queries,
        **options,
        **packed,  # type: ignore[arg-type]
    )


def check(
    output: Tensor,
    bounds: Tensor,
    query: Tensor,
    keys: Tensor | Sequence[Tensor],
    values: Tensor | Sequence[Tensor],
    *,
    lse: Tensor | None = None,
    lse_bound: float = math.inf,
    queries: int = 16,
    **options: Unpack[CallOptions],
) -> Verification:
    """Check an output from any source, such as a state, a layer or a shard, as `verify` does.

    `bounds` are the error bounds of the queries, and broadcast with (..., L_q); without `lse` only outputs are checked.
    """
    if not is_whole(queries, low=1):
        raise ArgumentError("queries", expected="an integer >= 1", got=repr(queries))
    try:
        from separatrix.attention.checker.deciding import decide
    except ModuleNotFoundError as missing:
        if missing.name != "flint":
            raise
        raise SeparatrixError(
            "verify needs python-flint, which is not installed: pip install 'separatrix[verify]'"
        ) from None
    problem = as_problem(query, keys, values, **options)
    with subnormal_numbers():
        return decide(problem, CallResults.of(problem, output, bounds, lse, lse_bound), queries)


def check_packed(
    output: Tensor,
    bounds: Tensor,
    query: Tensor,
    keys: Tensor | Sequence[Tensor],
    values: Tensor | Sequence[Tensor],
    *,
    lse: Tensor,
    cu_seqlens: Tensor | Sequence[Tensor],
    query_offsets: Sequence[int] | Tensor | None,
    queries: int,
    query_offset: int = 0,
    key_masks: Tensor | Sequence[Tensor | None] | None = None,
    **options: Any,
) -> Verification:
    """The verdict on a packed call; at least one query of every sequence is recomputed.

    `queries` is the total number of queries to recompute, unless there are more sequences.
    """
    sets, beside = ([x] if isinstance(x, Tensor) else list(x) for x in (keys, values))
    masks = [key_masks] * len(sets) if key_masks is None or isinstance(key_masks, Tensor) else list(key_masks)
    given = [cu_seqlens] * (1 + len(sets)) if isinstance(cu_seqlens, Tensor) else list(cu_seqlens)
    lengths = [query.shape[-2], *(key.shape[-2] for key in sets)]
    if len(given) != len(lengths):
        expected = f"one tensor, or {len(lengths)}: one for the query and one for each key set"
        raise ArgumentError("cu_seqlens", expected=expected, got=str(len(given)))
    ranges = [_ranges(f"cu_seqlens[{m}]", x, length) for m, (x, length) in enumerate(zip(given, lengths, strict=True))]
    count = len(ranges[0])
    offsets = [query_offset] * count if query_offsets is None else [int(offset) for offset in query_offsets]
    if len(offsets) != count or any(len(of_set) != count for of_set in ranges):
        got = [len(offsets), *map(len, ranges)]
        raise ArgumentError("cu_seqlens", expected="as many sequences and offsets in every entry", got=str(got))
    bounds = bounds.expand(lse.shape)

    def verdicts() -> Iterator[Verification]:
        for sequence, (start, stop) in enumerate(ranges[0]):
            if start == stop:
                continue
            parts = [of_set[sequence] for of_set in ranges[1:]]
            verdict = check(
                _cut(output, start, stop, -2),
                _cut(bounds, start, stop, -1),
                _cut(query, start, stop, -2),
                [_cut(key, *part, -2) for key, part in zip(sets, parts, strict=True)],
                [_cut(value, *part, -2) for value, part in zip(beside, parts, strict=True)],
                lse=_cut(lse, start, stop, -1),
                key_masks=[
                    None if mask is None else _cut(mask, *part, -1) for mask, part in zip(masks, parts, strict=True)
                ],
                query_offset=offsets[sequence],
                queries=max(1, queries // count),
                **options,
            )
            *batch, position = verdict.worst or (0,)
            yield replace(verdict, worst=(*batch, start + position))

    every = list(verdicts())
    if not every:
        return Verification(True, 0.0, (), "output", 0.0, 0.0, 0)
    worst = max(every, key=lambda verdict: (not verdict.held, verdict.margin))
    return replace(worst, queries=sum(verdict.queries for verdict in every))


def _cut(x: Tensor, start: int, stop: int, axis: int) -> Tensor:
    """The entries of x from start to stop; a dimension of size 1 is broadcast over all tokens."""
    return x if x.shape[axis] == 1 and stop != 1 else x.narrow(axis, start, stop - start)


def _ranges(name: str, cu_seqlens: object, length: int) -> list[tuple[int, int]]:
    """The start and the end of each sequence among `length` tokens."""
    whole = isinstance(cu_seqlens, Tensor) and cu_seqlens.dtype in (torch.int32, torch.int64) and cu_seqlens.dim() == 1
    stops: list[int] = cu_seqlens.tolist() if whole else []  # type: ignore[attr-defined]
    if not stops or stops[0] != 0 or stops[-1] != length or sorted(stops) != stops:
        expected = f"a tensor of cumulative lengths, int32 or int64, which increase from 0 to {length}"
        raise ArgumentError(name, expected=expected, got=str(stops) if whole else type(cu_seqlens).__name__)
    return list(pairwise(stops))
