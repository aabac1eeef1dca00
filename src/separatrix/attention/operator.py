"""The public functions `tensor_attention`, `certified_attention` (with a proven error bound) and `plan_attention`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Unpack, overload

from torch import Tensor

from separatrix.attention.arguments import CallOptions, check_arguments
from separatrix.attention.bounds import check_readable
from separatrix.attention.call import check_call, flattened, grouped
from separatrix.attention.certified import Certified, Sets, certify_call
from separatrix.attention.duration import warn_if_long
from separatrix.attention.exact.fused import fused_attention, plain_attention
from separatrix.attention.exact.operators import exact_attention
from separatrix.attention.exact.plain_tuples import plain_tuples
from separatrix.attention.near_linear.plan import Plan
from separatrix.attention.near_linear.planner import NOTHING_TO_ATTEND, plan_call
from separatrix.attention.packed import (
    Lengths,
    attend_at_once,
    attend_packed,
    certify_packed,
    merge_plans,
    pack,
)
from separatrix.attention.plain_certified import plain_certified
from separatrix.attention.visible_keys import Places, attend_places
from separatrix.checks import positive
from separatrix.errors import ArgumentError

METHODS = ("exact", "polynomial")
"""The algorithms by name; "polynomial" needs a tolerance."""


class AttentionOptions(CallOptions, total=False):
    """The optional arguments of `tensor_attention` other than `return_lse`, for its signatures."""

    cu_seqlens: Lengths | None
    query_offsets: Sequence[int] | Tensor | None
    lookahead: int
    sinks: int
    prefix: int
    distinct: bool
    method: str
    tolerance: float | None


@overload
def tensor_attention(
    query: Tensor,
    keys: Sets,
    values: Sets,
    *,
    return_lse: Literal[False] = ...,
    **options: Unpack[AttentionOptions],
) -> Tensor: ...


@overload
def tensor_attention(
    query: Tensor,
    keys: Sets,
    values: Sets,
    *,
    return_lse: Literal[True],
    **options: Unpack[AttentionOptions],
) -> tuple[Tensor, Tensor]: ...


def tensor_attention(
    query: Tensor,
    keys: Sets,
    values: Sets,
    *,
    is_causal: bool = False,
    query_offset: int = 0,
    key_masks: Tensor | Sequence[Tensor | None] | None = None,
    windows: int | Sequence[int | None] | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    cu_seqlens: Lengths | None = None,
    query_offsets: Sequence[int] | Tensor | None = None,
    lookahead: int = 0,
    sinks: int = 0,
    prefix: int = 0,
    distinct: bool = False,
    method: str = "auto",
    tolerance: float | None = None,
    return_lse: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    r"""Attention of order k: every query attends to tuples of k-1 keys.

        out_i = sum_j  softmax_j( scale * sum_l q_il k_1,j1,l ... k_{k-1},j_{k-1},l )  v_1,j1 * ... * v_{k-1},j_{k-1}

    where j runs over all tuples (j_1, ..., j_{k-1}) and * is entrywise (Alman and Song, "How to Capture Higher-order
    Correlations?", Definition 1.5). Order 2 is ordinary attention.

    **The scale is 1/d by default, as in the paper**, not PyTorch's 1/sqrt(d): pass ``scale=d**-0.5`` for that.

    Args:
        query: The queries, (..., L_q, d).
        keys: The k-1 key sets, (..., L_m, d) each, or one tensor for order 2. Leading dimensions broadcast. Our k-1 key
            sets are the paper's K_1, ..., K_{k-1}; at order 2 they are PyTorch's key.
        values: The k-1 value sets, (..., L_m, d_v) each, or one tensor for order 2.
        is_causal: Whether only tuples with every j_m <= i + query_offset are attended. Without an offset all lengths
            must then be equal.
        query_offset: The position of the first query among the keys.
        key_masks: For each key set None or a bool tensor (..., L_m), **True where a key may be attended**; a single
            tensor applies to all sets.
        windows: For each key set None or a number w that allows only j_m in (i + query_offset - w, i + query_offset]; a
            single number applies to all sets.
        scale: The factor of every score; None is 1/d.
        enable_gqa: Whether heads, in dimension -3, are grouped: each key head is shared by (query heads / key heads)
            consecutive query heads.
        cu_seqlens: The cumulative lengths of packed sequences, an integer tensor (sequences + 1,) for query and keys
            alike, or a list with one for the query and one for each key set. **A token attends only to tokens of its
            own sequence**, and positions start at 0 in each sequence: the result is that of a loop over the sequences.
            Sequences of equal lengths are computed as one batch; the docstring of `separatrix.attention.packed` lists
            the calls whose bits this changes.
        query_offsets: The `query_offset` of each packed sequence, if they differ; requires `cu_seqlens`.
        lookahead: The number of later keys in a window, in a call that is not causal: a set with the window w has only
            j_m in (i + query_offset - w, i + query_offset + lookahead].
        sinks: The number of first keys of each set that all later queries attend, even outside the window (attention
            sinks). A set with a window is then attended in two parts, and the call is computed as one call for each
            combination of parts, at the cost of the tuples attended.
        prefix: The number of first positions that are attended in both directions in a causal call (a prefix language
            model): a query at a position below `prefix` attends all keys below it.
        distinct: Whether only tuples of pairwise different positions j_1, ..., j_{k-1} are attended. At order 3 it
            costs as much as attention to all tuples, or several times as much for queries that would attend mostly
            pairs of equal positions; at orders above 3 all scores of a query are materialized.
        method: "exact", "polynomial" (near-linear, needs a tolerance), or "auto" for the cheapest method that satisfies
            the tolerance.
        tolerance: An absolute error allowed on every entry of the output; None never approximates. With a tolerance
            this is ``certified_attention(...).output``.
        return_lse: Whether to return the log-sum-exp of the scores as well, (..., L_q), float32 for half types; the
            log-sum-exp keeps the tolerance too, except for rounding to its dtype.

    Returns:
        The output, (..., L_q, d_v), or with ``return_lse`` a pair of output and log-sum-exp.

    The output of a query that may attend to no tuple is zero, with a log-sum-exp of -inf, and zero gradients. Inside
    `torch.autocast` the inputs keep their dtypes.

    **Exact attention has a bounded error, or raises an error.** Without a tolerance, and for finite input, no entry of
    the output differs from the exact value by more than `exact_error_bound` of the same arguments. If scores or outputs
    overflow or underflow, a `SeparatrixError` names the factors to rescale. Numbers as large as 10^30 in float32 are
    allowed as long as the scores themselves are moderate. A NaN or an infinity in a key or a value affects only the
    queries that may attend to it, in the output and in the gradient; causality, windows and masks exclude it for all
    other queries.

    Raises:
        SeparatrixError: If the scores or the outputs overflow their dtype; the message names the factors with their
            sizes. Inside `torch.compile` and `torch.func`, where order 2 is always computed by PyTorch's fused
            attention, the error is also raised for factors that need balancing and, with ``is_causal``, for keys and
            values that are not finite.
        ArgumentError: If an argument is not as described above.

    Example:
        >>> import torch
        >>> q, k1, k2, v1, v2 = torch.randn(5, 2, 7, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        >>> tensor_attention(q, [k1, k2], [v1, v2]).shape
        torch.Size([2, 7, 4])
        >>> out, lse = tensor_attention(q, [k1, k2], [v1, v2], is_causal=True, return_lse=True)
        >>> torch.allclose(out[:, 0], v1[:, 0] * v2[:, 0])  # the first query sees one tuple
        True
    """
    check_method(method)
    if method == "polynomial" and tolerance is None:
        raise ArgumentError("tolerance", expected="a positive finite number for method 'polynomial'", got=None)
    options: CallOptions = {"is_causal": is_causal, "windows": windows, "scale": scale, "enable_gqa": enable_gqa}
    if cu_seqlens is not None or query_offsets is not None:
        packing = pack(query, keys, values, key_masks, cu_seqlens, query_offset, query_offsets)
        tuples: dict[str, Any] = {"lookahead": lookahead, "sinks": sinks, "prefix": prefix, "distinct": distinct}

        def attend(q: Tensor, key_sets: Sets, value_sets: Sets, **places: Any) -> tuple[Tensor, ...]:
            run: dict[str, Any] = {"method": method, "tolerance": tolerance, "return_lse": return_lse}
            result = tensor_attention(q, key_sets, value_sets, **options, **tuples, **places, **run)
            return result if return_lse else (result,)

        at_once = None if tolerance is not None or any(tuples.values()) else attend_at_once(packing, **options)
        results = at_once or attend_packed(packing, attend)
        return (results[0], results[1]) if return_lse else results[0]
    options["query_offset"], options["key_masks"] = query_offset, key_masks
    if lookahead or sinks or prefix or distinct:
        places = Places(lookahead, sinks, prefix, distinct)
        if tolerance is not None and not places.keeps_certificates:
            name, none = ("sinks", 0) if sinks else ("distinct", False)
            expected = f"{none} with a tolerance: results that are merged have no certificate"
            raise ArgumentError(name, expected=expected, got=getattr(places, name))

        def attend_usual(*tensors: Any, **call: Any) -> tuple[Tensor, Tensor]:
            return tensor_attention(*tensors, method=method, tolerance=tolerance, return_lse=True, **call)

        merged = attend_places(attend_usual, query, keys, values, places, **options)
        return merged if return_lse else merged[0]
    if tolerance is None:
        unhidden = enable_gqa is False and key_masks is None and windows is None and type(is_causal) is bool
        if unhidden and not return_lse and type(query_offset) is int and query_offset == 0:
            plain = plain_attention(query, _only(keys), _only(values), is_causal, scale)
            if plain is not None:
                return plain
        options_of_sets = (query_offset, key_masks, windows, enable_gqa)
        unchecked = plain_tuples(query, keys, values, is_causal, scale, *options_of_sets)
        if unchecked is not None:
            return unchecked if return_lse else unchecked[0]
    else:
        promise: dict[str, Any] = {"tolerance": tolerance, "method": method, "with_lse": return_lse}
        certified = plain_certified(query, keys, values, **promise, **options)
        if certified is not None:
            return (certified.output, certified.lse) if return_lse else certified.output
    given = check_arguments(query, keys, values, **options)
    if tolerance is not None:
        certified = certify_call(flattened(given), positive("tolerance", tolerance), method, with_lse=return_lse)
        return (certified.output, certified.lse) if return_lse else certified.output
    fused = None if return_lse else fused_attention(given)
    if fused is not None:
        return fused
    call = grouped(given)
    warn_if_long(call)
    out, lse = exact_attention(call)
    return (out, lse) if return_lse else out


def certified_attention(
    query: Tensor,
    keys: Sets,
    values: Sets,
    *,
    tolerance: float,
    is_causal: bool = False,
    query_offset: int = 0,
    key_masks: Tensor | Sequence[Tensor | None] | None = None,
    windows: int | Sequence[int | None] | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    cu_seqlens: Lengths | None = None,
    query_offsets: Sequence[int] | Tensor | None = None,
    method: str = "auto",
) -> Certified:
    """Order-k attention within `tolerance` of the exact output in every entry, with a certificate.

    The arguments are those of `tensor_attention`; the tolerance is absolute. If the entries are small enough, the
    polynomial method of Alman and Song runs, in time linear in the length: the degree is predicted from a sample, and
    raised while the certificate exceeds the tolerance. If that costs more than exact attention, exact attention runs,
    and the certificate bounds its rounding error. If neither is possible, a `SeparatrixError` names a tolerance or
    dtype that would work.

    **Gradients** are those of the computed output, with the coefficients of the polynomial as constants, and have a
    separate certificate, ``certificate.gradient``: every entry of a vector-Jacobian product differs from exact
    attention's by at most ``certificate.gradient.total`` times the sum of magnitudes of the incoming gradients (see
    `GradientCertificate` for the bound of each query, key set and value set). If inputs require gradients, the degree
    is chosen so that both the output and the gradient keep the tolerance, and ``result.keeps`` is
    ``("output", "gradient")``. If this is impossible, because the rounding error of gradients in a half type exceeds
    the tolerance, or because no degree of ``method="polynomial"`` satisfies it, the tolerance holds only for the
    output, and ``result.keeps`` is ``("output",)``. So training may need a higher degree than evaluation, which may
    also use smaller index sets without the coordinates that only gradients need. There are no second derivatives.

    **Packed sequences** (`cu_seqlens`) are certified one by one: each number of the certificate is the maximum over the
    sequences, and the plan has the sum of their costs, with the method "mixed" if sequences of different lengths use
    different algorithms.

    Example:
        >>> import torch
        >>> x = 2 * torch.rand(5, 2000, 4, generator=torch.Generator().manual_seed(0)) - 1
        >>> result = certified_attention(x[0], [x[1], x[2]], [x[3], x[4]], tolerance=1e-4)
        >>> result.plan.method, result.plan.rank, result.certificate.total < 1e-4
        ('polynomial', 70, True)
        >>> result = certified_attention(x[0].requires_grad_(), [x[1], x[2]], [x[3], x[4]], tolerance=1e-4)
        >>> result.plan.rank, result.certificate.gradient.total < 1e-4, result.keeps
        (70, True, ('output', 'gradient'))
    """
    check_method(method)
    options: CallOptions = {"is_causal": is_causal, "windows": windows, "scale": scale, "enable_gqa": enable_gqa}

    def certify(q: Tensor, key_sets: Sets, value_sets: Sets, **places: Any) -> Certified:
        certified = plain_certified(q, key_sets, value_sets, tolerance=tolerance, method=method, **options, **places)
        if certified is not None:
            return certified
        call = check_call(q, key_sets, value_sets, **options, **places)
        return certify_call(call, positive("tolerance", tolerance), method)

    if cu_seqlens is None and query_offsets is None:
        return certify(query, keys, values, query_offset=query_offset, key_masks=key_masks)
    packing = pack(query, keys, values, key_masks, cu_seqlens, query_offset, query_offsets)
    return certify_packed(packing, certify)


def plan_attention(
    query: Tensor,
    keys: Sets,
    values: Sets,
    *,
    tolerance: float,
    is_causal: bool = False,
    query_offset: int = 0,
    key_masks: Tensor | Sequence[Tensor | None] | None = None,
    windows: int | Sequence[int | None] | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    cu_seqlens: Lengths | None = None,
    query_offsets: Sequence[int] | Tensor | None = None,
    method: str = "auto",
) -> Plan:
    """The plan that `certified_attention` would start with, for the same arguments.

    Example:
        >>> import torch
        >>> x = torch.rand(5, 4096, 4, generator=torch.Generator().manual_seed(0))
        >>> plan = plan_attention(x[0], [x[1], x[2]], [x[3], x[4]], tolerance=1e-4)
        >>> plan.method, plan.rank
        ('polynomial', 70)
    """
    check_method(method)
    options: CallOptions = {"is_causal": is_causal, "windows": windows, "scale": scale, "enable_gqa": enable_gqa}

    def plan(q: Tensor, key_sets: Sets, value_sets: Sets, **places: Any) -> Plan:
        call = check_call(q, key_sets, value_sets, **options, **places)
        check_readable(call)
        target = positive("tolerance", tolerance)
        return NOTHING_TO_ATTEND if call.is_empty else plan_call(call, target, method).plan

    if cu_seqlens is None and query_offsets is None:
        return plan(query, keys, values, query_offset=query_offset, key_masks=key_masks)
    packing = pack(query, keys, values, key_masks, cu_seqlens, query_offset, query_offsets)
    plans = [plan(group.query, group.keys, group.values, **group.places) for group in packing.groups()]
    return merge_plans(plans or [plan(query, keys, values)], len(packing.offsets))


def _only(sets: Sets) -> object:
    """The single set of order 2, from a tensor or a list of one tensor."""
    return sets[0] if isinstance(sets, (list, tuple)) and len(sets) == 1 else sets


def check_method(method: str) -> None:
    if method != "auto" and method not in METHODS:
        raise ArgumentError("method", expected=f"'auto' or one of {METHODS}", got=repr(method))
