"""The layer of multi-head attention of any order: exact, or near-linear with a bound on its scores."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NoReturn, Self

import torch
from torch import Tensor, nn

from separatrix.attention.call import check_call
from separatrix.attention.near_linear.bounded_plan import BoundedPlan
from separatrix.attention.near_linear.certificate import Certificate
from separatrix.attention.streaming.saved_state import as_bytes
from separatrix.attention.streaming.state import TensorAttentionState
from separatrix.attention.visible_keys import Places
from separatrix.attention.weights.top_tuples import TopTuples, top_tuples
from separatrix.checks import flag, whole
from separatrix.errors import ArgumentError
from separatrix.nn.cache import DecodingCache
from separatrix.nn.call_inputs import (
    attend_tokens,
    call_inputs,
    call_jagged,
    is_jagged,
    refuse_torchscript,
    trace_as_leaf,
)
from separatrix.nn.configuration import (
    PLACES,
    UNSAVED,
    changed_arguments,
    check_config,
    check_extra_state,
    check_state_dict,
    constructor_arguments,
    parameter_of,
    saved_configuration,
)
from separatrix.nn.decoding import decode_heads, decode_packed, new_cache
from separatrix.nn.head_groups import kv_heads_of_sets, local_part, orders_of_heads
from separatrix.nn.layer_checks import (
    alibi_of_sets,
    check_form,
    check_input,
    check_norms,
    check_orders,
    check_places,
    check_scoring,
    refuse,
    windows_of_sets,
)
from separatrix.nn.projections import draw_weights, empty_linear, normalise_heads, project_heads
from separatrix.nn.score_bound import ScoreBound, call_certificate
from separatrix.nn.scoring import attend_heads, factors, positioned, scoring


class TensorAttention(nn.Module):
    """Multi-head attention of order k: `torch.nn.MultiheadAttention` with k - 1 key sets and k - 1 value sets.

    Args:
        embed_dim: As in `nn.MultiheadAttention`.
        num_heads: As in `nn.MultiheadAttention`; each head has head_dim = embed_dim / num_heads.
        order: k >= 2. Order 2 is ordinary attention. A list has the order of each head, ascending, for example
            [2, 2, 3, 3] for a layer with heads of both orders; not available with a bound.
        kdim: The width of the key input, embed_dim by default. All k - 1 key sets are projections of one key input by
            different weights, or of one key input each.
        vdim: The width of the value input, embed_dim by default. All k - 1 value sets are projections of it.
        bias: Whether the projections have biases.
        batch_first: Whether inputs and outputs are (batch, length, width) rather than (length, batch, width).
        scale: The factor of the scores; **None is the papers' 1 / head_dim**, where `nn.MultiheadAttention` has
            1 / sqrt(head_dim).
        windows: The number of latest keys of each set that a query attends (see `tensor_attention`): one number for all
            sets, or one for each set.
        lookahead: The number of later keys in a window, for calls that are not causal.
        sinks: The number of first keys that are attended even outside the windows; the cache of `decode` keeps them.
        distinct: Whether only tuples of pairwise different positions are attended (see `tensor_attention`).
        method: The `method` of `tensor_attention`.
        num_kv_heads: The number of heads of keys and values, num_heads by default. Each is shared by num_heads /
            num_kv_heads consecutive heads of queries, as with ``enable_gqa`` in `tensor_attention`; 1 is known as
            multi-query attention.
        rotary: None, or the base of rotary positions, for example 10000: scores then depend on the distances from a
            query to its keys (see `nn.rotary`). Keys are at the positions 0, 1, ..., and queries from `query_offset`
            on.
        form: The score form: "product", "pairwise" (Strassen attention, which at order 3 has a fast algorithm) or
            "determinant", for which head_dim must be a multiple of the order: see `separatrix.forms`. Every
            form is multiplied by the scale, which is 1 / head_dim if it is None.
        alibi: None, or True for a bias that falls off linearly with the distance to the keys of every set, with the
            slopes `forms.alibi_slopes` of the heads; or a list with a factor of the slopes for each key set, 0 for a
            set without a bias. Attention must then be causal. Not available with a tolerance.
        key_bias: The rank r of a learned bias b(j_1, ..., j_{k-1}) = sum_r g_1,r(j_1) ... on tuples of keys, the same
            for all queries; 0 for none. The factors g_m are projections of the key inputs by ``bias_proj.m``, and the
            bias is initially zero. See `forms.key_bias`.
        qk_norm: Whether the queries and keys of each head are divided by their root mean square and multiplied by
            learned gains, one for each coordinate of each head, before `rotary` and the score form. Not available with
            a bound, which has its own norm.
        head_norm: Whether the outputs of each head are normalised in the way of `qk_norm`, before ``out_proj``.
        learned_scale: Whether each head multiplies its scores by a learned factor, exp(``log_scale``), initially 1. Not
            available for the pairwise form, and with a bound, which has a learned temperature.
        bound: None, or an upper bound on the magnitudes of all scores: see `BoundedTensorAttention`.
        tolerance: None, or, for a layer with a bound, the error tolerance of near-linear attention.
        dropout: 0. Any other number raises an error: the weights, to which `nn.MultiheadAttention` applies dropout, are
            never materialized.
        add_bias_kv: False. True raises an error: learned keys and values are not supported.
        add_zero_attn: False. True raises an error: keys and values of zeros are not supported.
        generator: Draws the initial weights; None for PyTorch's global generator, as in any `torch.nn` layer.
        device: The device of the weights.
        dtype: The dtype of the weights.

    Intended differences from `nn.MultiheadAttention`:

    - **The call returns only the output, not a pair**: there would be length^(k-1) weights per query. In
      `nn.TransformerEncoderLayer` and wherever a pair is expected, use `MultiheadTensorAttention`.
    - `batch_first` is True by default.
    - The weights are never materialized, so `dropout`, `need_weights` and `attn_mask` raise an error.
    - `is_causal=True` applies the causal mask; it is not a hint about `attn_mask`.
    - For a query whose keys are all padding the output is the output bias, not NaN.
    - The projections are `nn.Linear` modules (``q_proj``, ``k_proj.m``, ``v_proj.m``, ``out_proj``), not packed.

    **Initially** every weight is Xavier-uniform and every bias zero, so inputs of unit variance give q, k_m and v_m
    of unit variance. A coordinate of q * k_1 * ... * k_{k-1} then has variance 1 at any order (with tails that grow
    heavier: its fourth moment is about 3^k). The score is the scale times a sum of d = head_dim coordinates, so its
    standard deviation at every order is scale * sqrt(d): d^(-1/2) by default, which makes attention almost uniform,
    and 1 with scale = d^(-1/2). An almost uniform attention multiplies k - 1 averages over n tokens, each of size
    n^(-1/2) when tokens are independent: expect initial outputs of size n^(-(k-1)/2). With `head_norm` they have unit
    size before ``out_proj``, for any order, length and size of the weights. With `qk_norm` the standard deviation of
    the scores is scale * sqrt(d) for any size of the weights. So `head_norm` and `qk_norm` also work with initialisers
    that overwrite the weights of all `nn.Linear` modules, such as nanoGPT's.

    **A state dict holds the configuration**, the order, the heads, the scale, the score form, the positions, the bound
    and the tolerance, as a tensor beside the weights. Loading it into a layer that differs in any of these but the
    tolerance raises an error.

    Example:
        >>> layer = TensorAttention(8, 2, order=3, generator=torch.Generator().manual_seed(0))
        >>> layer(torch.zeros(4, 5, 8)).shape
        torch.Size([4, 5, 8])
        >>> layer
        TensorAttention(
          embed_dim=8, num_heads=2, order=3
          (q_proj): Linear(in_features=8, out_features=8, bias=True)
          (k_proj): ModuleList(
            (0-1): 2 x Linear(in_features=8, out_features=8, bias=True)
          )
          (v_proj): ModuleList(
            (0-1): 2 x Linear(in_features=8, out_features=8, bias=True)
          )
          (out_proj): Linear(in_features=8, out_features=8, bias=True)
        )
        >>> TensorAttention(8, 2, bound=1.0, tolerance=1e-3).plan.rank
        70
    """

    in_proj_bias: ClassVar[None] = None
    """None, so that PyTorch's encoder layers call this layer, which raises an error, instead of their fused kernel."""

    temperature: nn.Parameter
    log_scale: nn.Parameter
    q_gain: nn.Parameter
    k_gain: nn.ParameterList
    out_gain: nn.Parameter
    bias_proj: nn.ModuleList
    _orders: tuple[int, ...] | None = None
    """The orders of the heads if they differ; None if they do not."""

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        order: int | Sequence[int] = 3,
        kdim: int | None = None,
        vdim: int | None = None,
        bias: bool = True,
        batch_first: bool = True,
        *,
        scale: float | None = None,
        windows: int | Sequence[int | None] | None = None,
        lookahead: int = 0,
        sinks: int = 0,
        distinct: bool = False,
        method: str = "auto",
        num_kv_heads: int | None = None,
        rotary: float | None = None,
        form: str = "product",
        alibi: bool | Sequence[float] | None = None,
        key_bias: int = 0,
        qk_norm: bool = False,
        head_norm: bool = False,
        learned_scale: bool = False,
        bound: float | None = None,
        tolerance: float | None = None,
        dropout: float = 0.0,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        generator: torch.Generator | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        refuse("dropout", dropout, 0, "the weights are never materialized; apply dropout to the output instead")
        refuse("add_bias_kv", add_bias_kv, False, "append a token to key and value instead")
        refuse("add_zero_attn", add_zero_attn, False, "append a token to key and value instead")
        super().__init__()
        self.embed_dim, self.num_heads = whole("embed_dim", embed_dim, low=1), whole("num_heads", num_heads, low=1)
        orders = orders_of_heads(order, self.num_heads)
        self.order = max(orders)
        if len(set(orders)) > 1:
            self._orders = orders
        self.kdim = self.embed_dim if kdim is None else whole("kdim", kdim, low=1)
        self.vdim = self.embed_dim if vdim is None else whole("vdim", vdim, low=1)
        self.num_kv_heads = self.num_heads if num_kv_heads is None else whole("num_kv_heads", num_kv_heads, low=1)
        if embed_dim % num_heads:
            raise ArgumentError("embed_dim", expected=f"a multiple of num_heads = {num_heads}", got=embed_dim)
        if num_heads % self.num_kv_heads:
            raise ArgumentError("num_kv_heads", expected=f"a divisor of num_heads = {num_heads}", got=num_kv_heads)
        check_orders(orders, bound)
        of_sets = kv_heads_of_sets(orders, self.num_kv_heads)
        self.head_dim = self.embed_dim // self.num_heads
        self.batch_first, self.method = batch_first, method
        self.windows = windows_of_sets(windows, self.order)
        check_scoring(scale, rotary, self.windows, bound, tolerance)
        self.scale, self.rotary = scale, None if rotary is None else float(rotary)
        self.form, self.alibi = form, alibi_of_sets(alibi, self.order)
        self.key_bias = whole("key_bias", key_bias, low=0)
        check_form(form, self.alibi, self.key_bias, orders, self.head_dim, scale, rotary, tolerance)
        self.qk_norm, self.head_norm = flag("qk_norm", qk_norm), flag("head_norm", head_norm)
        self.learned_scale = flag("learned_scale", learned_scale)
        check_norms(self.qk_norm, self.learned_scale, form, bound)
        self.lookahead, self.sinks, self.distinct = lookahead, sinks, distinct
        check_places(Places(lookahead, sinks, 0, distinct), self.windows, self.alibi, tolerance)
        self._score_bound = (
            None if bound is None else ScoreBound(self.order, self.head_dim, bound, tolerance, form, self.key_bias)
        )

        def linear(width: int, heads: int) -> nn.Linear:
            return empty_linear(width, heads * self.head_dim, bias, device, dtype)

        self.q_proj = linear(self.embed_dim, self.num_heads)
        self.k_proj = nn.ModuleList(linear(self.kdim, heads) for heads in of_sets)
        self.v_proj = nn.ModuleList(linear(self.vdim, heads) for heads in of_sets)
        self.out_proj = linear(self.embed_dim, self.num_heads)
        if self.key_bias:
            self.bias_proj = nn.ModuleList(
                empty_linear(self.kdim, heads * self.key_bias, False, device, dtype) for heads in of_sets
            )
        if self._score_bound is not None:
            self._score_bound.plan(self.dtype)  # raises an error for a tolerance that is too small for the dtype
            self.temperature = nn.Parameter(self.out_proj.weight.new_empty(self.num_heads))

        def vector(projection: nn.Linear, size: int | None = None) -> nn.Parameter:
            return nn.Parameter(projection.weight.new_empty(projection.out_features if size is None else size))

        if self.qk_norm:
            self.q_gain = vector(self.q_proj)
            self.k_gain = nn.ParameterList(vector(projection) for projection in self.k_proj)  # type: ignore[arg-type]
        if self.head_norm:
            self.out_gain = vector(self.q_proj)
        if self.learned_scale:
            self.log_scale = vector(self.q_proj, self.num_heads)
        self.reset_parameters(generator)

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Redraw every weight, Xavier-uniform, and set every bias to zero and every gain to one.

        With `num_kv_heads` < num_heads, key and value weights have the variance of a layer with all heads.
        """
        draw_weights(self, self.embed_dim, generator)

    @property
    def orders(self) -> tuple[int, ...]:
        """The order of each head, ascending; `order` is the largest of them."""
        return (self.order,) * self.num_heads if self._orders is None else self._orders

    @property
    def has_mixed_orders(self) -> bool:
        """Whether the heads have different orders."""
        return self._orders is not None

    @property
    def key_dim(self) -> int:
        """The dimension of the keys that `project` returns."""
        return self.head_dim + self.key_bias if self._score_bound is None else self._score_bound.factor_dim

    @property
    def bound(self) -> float | None:
        """The upper bound on the magnitudes of all scores; None if there is none."""
        return None if self._score_bound is None else self._score_bound.bound

    @property
    def tolerance(self) -> float | None:
        """The error tolerance of near-linear attention; None for a layer that attends exactly."""
        return None if self._score_bound is None else self._score_bound.tolerance

    @property
    def plan(self) -> BoundedPlan | None:
        """The polynomial for the tolerance in the layer's current dtype; None for a layer that attends exactly."""
        return None if self._score_bound is None else self._score_bound.plan(self.temperature.dtype)

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the inputs: that of the weights, or float32 if `torch.ao.quantization` has quantised them."""
        dtype: torch.dtype = parameter_of(self.out_proj, "weight").dtype
        return dtype if dtype.is_floating_point else torch.float32

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        device: torch.device = parameter_of(self.out_proj, "weight").device
        return device

    def forward(
        self,
        query: Tensor,
        key: Tensor | Sequence[Tensor] | None = None,
        value: Tensor | Sequence[Tensor] | None = None,
        *,
        key_padding_mask: Tensor | Sequence[Tensor | None] | None = None,
        is_causal: bool = False,
        query_offset: int = 0,
        prefix: int = 0,
        cu_seqlens: Tensor | Sequence[Tensor] | None = None,
        sequence_ids: Tensor | None = None,
        need_weights: None = None,
        attn_mask: Tensor | None = None,
    ) -> Tensor:
        """The attention of `query` to `key` and `value`, as one tensor shaped like `query`.

        Args:
            query: (batch, L, embed_dim), or (L, embed_dim) without a batch. The batch may have several dimensions:
                (..., L, embed_dim), or (L, ..., embed_dim) without `batch_first`. Self-attention also takes a nested
                tensor in the layout `torch.jagged`, and returns one.
            key: (batch, S, kdim) or (S, kdim), with the batch of `query`; None for `query`. A list of k - 1 tensors
                gives each key set its own input; their lengths may differ.
            value: (batch, S, vdim) or (S, vdim); None for `key`. A list if `key` is a list.
            key_padding_mask: A bool tensor, (batch, S) or (S,), or (..., S) for a batch of several dimensions. **True
                means: ignore this key**, as in `nn.MultiheadAttention`; the `key_masks` of `tensor_attention` mean the
                opposite. It applies to every key set; a list has a mask or None for each set.
            is_causal: Whether query i attends only keys with j_m <= i + query_offset.
            query_offset: The position of the first query among the keys; without an offset, a causal call needs L = S.
            prefix: The number of first positions that attend each other in both directions in a causal call, as in a
                prefix language model. The number is the same for all entries of the batch and all packed sequences.
            cu_seqlens: The cumulative lengths of packed sequences, an integer tensor (sequences + 1,), or two of them,
                for the queries and for the keys: **tokens attend only within their own sequence**, and positions start
                from 0 in each. The lengths are the same for all entries of the batch.
            sequence_ids: Integers (batch, L) or (L,), for self-attention: in a row, neighbouring tokens with the same
                id are one sequence, as in packed batches for pre-training.
            need_weights: None. True and False raise an error, because a caller who passes either expects a pair of
                output and weights; `MultiheadTensorAttention` returns a pair.
            attn_mask: None. A mask of pairs of query and key raises an error: use `is_causal`, `windows` or
                `key_padding_mask`.
        """
        if is_jagged(query):
            refused = {"key": key, "value": value, "key_padding_mask": key_padding_mask}
            refused |= {"cu_seqlens": cu_seqlens, "sequence_ids": sequence_ids}
            options = {"is_causal": is_causal, "query_offset": query_offset, "prefix": prefix}
            return call_jagged(self, query, refused, options)
        arguments: dict[str, Any] = {"query": query, "key": key, "value": value, "key_padding_mask": key_padding_mask}
        more = {
            "cu_seqlens": cu_seqlens,
            "sequence_ids": sequence_ids,
            "prefix": None if type(prefix) is int and prefix == 0 else prefix,
        }
        arguments |= {name: given for name, given in more.items() if given is not None}
        node = trace_as_leaf(self, arguments | {"is_causal": is_causal, "query_offset": query_offset})
        if node is not None:
            return node  # type: ignore[no-any-return]
        refuse("need_weights", need_weights, None, "the layer returns no pair; MultiheadTensorAttention does")
        refuse("attn_mask", attn_mask, None, "use is_causal, windows or key_padding_mask")
        q, keys, values, options = call_inputs(self, query, key, value, key_padding_mask, is_causal, query_offset)
        options["prefix"] = prefix
        if cu_seqlens is None and sequence_ids is None:
            return self._output(self._attend(q, keys, values, **options))
        if isinstance(key, (list, tuple)):
            raise ArgumentError("key", expected="one tensor for packed sequences", got=f"{len(key)} tensors")
        return self._output(attend_tokens(self._attend, q, keys, values, options, cu_seqlens, sequence_ids))

    def project(
        self, query: Tensor, key: Tensor | Sequence[Tensor], value: Tensor | Sequence[Tensor]
    ) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """The queries (..., num_heads, length, head_dim), and keys and values (..., num_kv_heads, length, head_dim).

        `key` and `value` are the inputs of all sets, or one for each. If the heads have different orders, a key set
        has the heads that attend to it. With `key_bias`, the factors of the bias follow the coordinates of a key.
        With a bound, or with `qk_norm`, queries and keys are normalised, and queries multiplied by their temperature or
        their learned scale; with a bound and another form or a bias they are mapped to the product form as well. With
        tensor parallelism these are the heads of this rank.
        """
        return project_heads(self, query, key, value)

    def _attend(self, q: Tensor, keys: list[Tensor], values: list[Tensor], **options: Any) -> Tensor:
        """The outputs of the heads, (..., num_heads, L, head_dim), with these options of `tensor_attention`."""
        return attend_heads(self, q, keys, values, **options)

    def _output(self, heads: Tensor) -> Tensor:
        """The output of the layer from the outputs of its heads, (..., num_heads, length, head_dim)."""
        if self.head_norm:
            heads = normalise_heads(heads, local_part(self.out_gain, self.q_proj))
        out: Tensor = self.out_proj(heads.transpose(-3, -2).flatten(-2))
        return out if self.batch_first else out.movedim(-2, 0)

    def certificate(
        self,
        query: Tensor | None = None,
        key: Tensor | Sequence[Tensor] | None = None,
        value: Tensor | Sequence[Tensor] | None = None,
        *,
        key_padding_mask: Tensor | Sequence[Tensor | None] | None = None,
        is_causal: bool = False,
        query_offset: int = 0,
    ) -> Certificate:
        """A bound on the error of the heads' outputs, before ``out_proj``, in a call with the same arguments.

        It requires a layer with a bound and a tolerance, and bounds the difference from exact attention with the
        queries, keys and values that the layer computes.

        Args:
            query: As in a call. The values are computed and attention is not, because the certificate is proportional
                to the magnitudes of the values. Without a query it is the certificate for values of magnitude 1, at
                any length.
            key, value, key_padding_mask, is_causal, query_offset: As in a call.

        Returns:
            The certificate, whose `per_query` is (batch, num_heads, L), without the batch if the query has none, and
            a single number if there is no query.

        Raises:
            ArgumentError: The layer has no bound or no tolerance, or a call with these arguments would raise an error.

        Example:
            >>> layer = TensorAttention(8, 2, bound=1.0, tolerance=1e-3, generator=torch.Generator().manual_seed(0))
            >>> layer.certificate().total < 1e-3
            True
            >>> layer.certificate(torch.zeros(4, 5, 8)).per_query.shape
            torch.Size([4, 2, 5])
        """
        plan = self.plan
        if plan is None:
            raise self._without_tolerance("certificate")
        if query is None:
            for name, given in (("key", key), ("value", value), ("key_padding_mask", key_padding_mask)):
                if given is not None:
                    raise ArgumentError(name, expected="None without a query", got=type(given).__name__)
            return plan.certificate(plan.roundings, torch.ones((), dtype=torch.float64))
        with torch.no_grad():
            q, keys, values, options = call_inputs(self, query, key, value, key_padding_mask, is_causal, query_offset)
            return call_certificate(plan, check_call(q, keys, values, **options, **scoring(self)))

    def top_tuples(
        self,
        query: Tensor,
        key: Tensor | Sequence[Tensor] | None = None,
        k: int = 10,
        *,
        key_padding_mask: Tensor | Sequence[Tensor | None] | None = None,
        is_causal: bool = False,
        query_offset: int = 0,
    ) -> TopTuples:
        """The k tuples of keys with the largest weights, for each query of each head, in a call of the layer.

        The weights are those of exact attention, which a layer with a tolerance approximates.

        Args:
            query, key: As in a call.
            k: The number of tuples per query.
            key_padding_mask, is_causal, query_offset: As in a call.

        Returns:
            The indices (batch, num_heads, L, k, order - 1) and weights (batch, num_heads, L, k) of the tuples, and
            the log-sum-exp of the scores, without the batch if the query has none: see `separatrix.top_tuples`.

        Example:
            >>> layer = TensorAttention(8, 2, order=3, generator=torch.Generator().manual_seed(0))
            >>> top = layer.top_tuples(torch.zeros(5, 8), k=2, is_causal=True)
            >>> top.indices.shape, top.weights[0, 1].tolist()  # the second token attends four pairs alike
            (torch.Size([2, 5, 2, 2]), [0.25, 0.25])
        """
        refuse("sinks", self.sinks, 0, "top_tuples of layers with sinks are not available")
        refuse("distinct", self.distinct, False, "top_tuples of layers with distinct tuples are not available")
        refuse("order", self.has_mixed_orders, False, "top_tuples of heads of different orders have no common shape")
        with torch.no_grad():
            source = query if key is None else key
            widths = [
                x.new_zeros(*x.shape[:-1], self.vdim) for x in ([source] if isinstance(source, Tensor) else source)
            ]
            value = widths[0] if isinstance(source, Tensor) else widths
            q, keys, _, options = call_inputs(self, query, key, value, key_padding_mask, is_causal, query_offset)
            q, keys = positioned(self, q, keys, is_causal, query_offset)
            q, keys = factors(self, q, keys, query_offset)
            windows = self.windows
            if windows is not None and self.lookahead:
                options["query_offset"] += self.lookahead
                windows = tuple(None if window is None else window + self.lookahead for window in windows)
            return top_tuples(q, keys, k, windows=windows, **options, **scoring(self))

    def _without_tolerance(self, name: str) -> ArgumentError:
        return ArgumentError(name, expected="a layer with a bound and a tolerance", got=repr(self.extra_repr()))

    def cache(self, batch_size: int | None = None, *, spare: int = 0) -> DecodingCache:
        """An empty cache for `decode`, for one sequence without a batch or for `batch_size` sequences.

        Args:
            batch_size: The number of sequences that are decoded together; None for inputs without a batch.
            spare: The number of additional tokens that a cache with windows keeps, so that `trim` can remove up to this
                many.

        Returns:
            A `TokenCache` of all keys and values; with `windows`, of those that the next token can attend. For a layer
            with a tolerance, a `TensorAttentionState` of constant size. Both can be saved (`state_dict`) and reordered
            for a beam search (`reorder`); a `TokenCache` can be shortened by `trim`.
        """
        return new_cache(self, batch_size, spare)

    def state(self, batch_size: int | None = None) -> TensorAttentionState:
        """An empty `cache`, for a layer with a tolerance only."""
        cache = self.cache(batch_size)
        if not isinstance(cache, TensorAttentionState):
            raise self._without_tolerance("state")
        return cache

    def decode(
        self,
        x: Tensor,
        cache: DecodingCache | Sequence[DecodingCache],
        *,
        key_padding_mask: Tensor | None = None,
        prefix: int = 0,
        cu_seqlens: Tensor | None = None,
    ) -> Tensor:
        """Append the tokens x to a cache and return their outputs, by causal self-attention to all cached tokens.

        However a sequence is split into calls, for example a prompt and then one token at a time, the outputs equal
        those of ``layer(sequence, is_causal=True)``, up to rounding, or up to the tolerance of a layer that has one.

        Args:
            x: The tokens, (batch, L, embed_dim) or (L, embed_dim); (L, batch, embed_dim) without `batch_first`.
            cache: The result of ``layer.cache(batch_size)``, with all earlier tokens; x is appended to it. With
                `cu_seqlens`, a list of results of ``layer.cache()``, one for each packed sequence.
            key_padding_mask: A bool tensor, (batch, L) or (L,), **True for each of these tokens that no token may
                attend**, now or later, as in a call: prompts of several lengths are padded on the left or the right.
                The cache stores the mask; the cache of a layer with a tolerance omits masked tokens. Padding occupies a
                position like any other token.
            prefix: The number of first tokens that attend each other in both directions, as in a call. These tokens
                must all be in the first call of `decode` with this cache.
            cu_seqlens: The cumulative lengths of packed sequences in x, (L, embed_dim), an integer tensor
                (sequences + 1,): each sequence continues from its own cache, however long it is, and may have no new
                token. All tokens are projected at once; the outputs equal those of one call for each sequence.

        Returns:
            The outputs, shaped like `x`.

        Raises:
            ArgumentError: The cache does not belong to this layer, or x or the mask does not match it. The cache is
                then unchanged.
            SeparatrixError: As in a call of the layer; or another thread is using the cache.

        Example:
            >>> layer = TensorAttention(8, 2, order=3, generator=torch.Generator().manual_seed(0))
            >>> x = torch.randn(4, 10, 8, generator=torch.Generator().manual_seed(1))
            >>> cache = layer.cache(batch_size=4)
            >>> prompt = layer.decode(x[:, :7], cache)
            >>> rest = [layer.decode(x[:, i : i + 1], cache) for i in range(7, 10)]
            >>> torch.allclose(torch.cat([prompt, *rest], 1), layer(x, is_causal=True), atol=1e-6)
            True
        """
        check_input("x", x, self.embed_dim, self.dtype, self.device, self.batch_first)
        if cu_seqlens is not None:
            return self._output(decode_packed(self, x, cache, cu_seqlens, key_padding_mask, prefix))
        if x.dim() > 3:
            raise ArgumentError("x", expected="at most one batch dimension", got=f"shape {tuple(x.shape)}")
        x = x if self.batch_first else x.movedim(0, -2)
        return self._output(decode_heads(self, x, cache, key_padding_mask, prefix))  # type: ignore[arg-type]

    def config(self) -> dict[str, object]:
        """The constructor's arguments, except for the device and dtype of the weights, as numbers, strings and lists.

        They can be saved as JSON; `from_config` creates a layer from them, with new random weights.

        Example:
            >>> config = TensorAttention(8, 2, windows=4, num_kv_heads=1).config()
            >>> config["windows"], config["num_kv_heads"], TensorAttention.from_config(config).config() == config
            ([4, 4], 1, True)
        """
        return constructor_arguments(self)

    @classmethod
    def from_config(
        cls,
        config: Mapping[str, Any],
        *,
        generator: torch.Generator | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> Self:
        """The layer that `config` describes, with new weights.

        Args:
            config: The result of `config`. A missing argument has its default.
            generator, device, dtype: As in the constructor.

        Raises:
            ArgumentError: A name is not an argument of the layer, or the constructor rejects its value.
        """
        arguments = inspect.signature(TensorAttention).parameters
        check_config(config, [name for name in arguments if name not in ("generator", "device", "dtype")])
        return cls(**config, generator=generator, device=device, dtype=dtype)

    def get_extra_state(self) -> Tensor:
        """The configuration that is saved with the weights: order, heads, scale, bound and tolerance, as JSON bytes."""
        return as_bytes(saved_configuration(self))

    def set_extra_state(self, state: Any) -> None:
        """Raise an error for weights of a layer of another order, scale or bound, or with other heads.

        Raises:
            ArgumentError: The configuration that was saved differs in more than the tolerance. The error names the
                difference.
        """
        check_extra_state(saved_configuration(self), state)

    def _load_from_state_dict(self, state_dict: Mapping[str, Any], prefix: str, *rest: Any) -> None:
        check_state_dict(self, state_dict, prefix)
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a pickled layer; in earlier versions bound and tolerance were attributes, and there was no score
        form."""
        kept = {name: value for name, value in state.items() if name not in ("bound", "tolerance")}
        kept = {**PLACES, **UNSAVED, **kept}
        super().__setstate__(kept)  # type: ignore[no-untyped-call]
        if "_score_bound" not in state:
            bound, tolerance = state["bound"], state["tolerance"]
            self._score_bound = None if bound is None else ScoreBound(self.order, self.head_dim, bound, tolerance)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Cast or move the layer; a dtype for which the tolerance is too small raises an error here and in every
        call."""
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        _ = self.plan
        return self

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={value!r}" for name, value in changed_arguments(self).items())

    def __prepare_scriptable__(self) -> NoReturn:
        refuse_torchscript("torch.jit.script")
