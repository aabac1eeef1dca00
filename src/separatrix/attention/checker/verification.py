r"""Checks a certificate: chosen queries of a call are recomputed in ball arithmetic and compared with its results."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol, Unpack

import numpy as np
import torch
from torch import Tensor

from separatrix.attention.checker.packed_sequences import check_packed
from separatrix.attention.checker.problem import as_problem, exact_floats, subnormal_numbers
from separatrix.attention.checker.results import CallResults
from separatrix.attention.checker.verdict import Verification
from separatrix.checks import is_whole
from separatrix.errors import ArgumentError, SeparatrixError

if TYPE_CHECKING:
    from separatrix.attention.arguments import CallOptions


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

    The arithmetic is that of python-flint (``pip install 'separatrix[verify]'``): every number has a bound on its own
    error, so that the verdict is a proof for the recomputed queries. It shares no code with the operators. The chosen
    queries are spread evenly over the call and include the first, the last, and those with the smallest and the largest
    certificate. All queries are searched for impossible results, such as an output that is not finite or a log-sum-exp
    that is NaN; if there are any, one of them is included. The output of each chosen query is checked against
    `certificate.per_query`, and its log-sum-exp against `certificate.lse`; a query that may attend to no tuple must
    have zeros and -inf.

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
    return (check if cu_seqlens is None else partial(check_packed, check))(
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
