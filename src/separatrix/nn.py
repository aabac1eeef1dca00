r"""Layers: multi-head attention of any order.

    TensorAttention(x) = Concat(head_1, ..., head_h) W_O^T,
    head = tensor_attention(q, (k_1, ..., k_{k-1}), (v_1, ..., v_{k-1})),    q = x W_Q^T, k_m = x W_{K,m}^T, ...

Each head is the order-k attention of Definition 1.5 of Josh Alman and Zhao Song, "How to Capture Higher-order
Correlations? Generalizing Matrix Softmax Attention to Kronecker Computation".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from numbers import Real
from typing import Self

import torch
from torch import Tensor, nn

from separatrix.attention.arguments import check_call, is_dense, layout
from separatrix.attention.certificate.output import Certificate, value_range
from separatrix.attention.exact.operators import flatten_heads
from separatrix.attention.operator import tensor_attention
from separatrix.attention.planning.plan import check_tolerance
from separatrix.attention.polynomial.frame import Tokens
from separatrix.attention.streaming.bounded_attention import bounded_attention
from separatrix.attention.streaming.bounded_plan import (
    BoundedPlan,
    check_bound,
    normalised,
    plan_bounded,
    score_radius,
    sum_rounding,
)
from separatrix.attention.streaming.state import TensorAttentionState
from separatrix.errors import ArgumentError

__all__ = ["TensorAttention", "normalised"]


class TensorAttention(nn.Module):
    """Multi-head attention of order k: `torch.nn.MultiheadAttention` with k - 1 key sets and k - 1 value sets.

    embed_dim, num_heads: as in `nn.MultiheadAttention`; each head has head_dim = embed_dim / num_heads.
    order: k >= 2. Order 2 is ordinary attention.
    kdim, vdim: the widths of the key and value inputs, embed_dim by default. All k - 1 key sets are projections of
        one key input by different weights, all k - 1 value sets of one value input.
    bias: whether the projections have biases.
    batch_first: inputs and outputs are (batch, length, width), else (length, batch, width).
    scale: of the scores; **None is the papers' 1 / head_dim**, where `nn.MultiheadAttention` has 1 / sqrt(head_dim).
    windows: how far back each key set is seen (see `tensor_attention`): one number for all, or one of each set.
    method: of `tensor_attention`.
    bound, tolerance: None, or **a layer whose scores cannot exceed `bound`** (see `normalised`): each head's queries
        and keys are divided by their l_k norms, k the order, and the scores are multiplied by a learned temperature
        below `bound`, bound * sigmoid(``temperature``), half of it at the start. `scale` must be None then. With a
        `tolerance` attention is near-linear in the length, in training, in inference and token by token, and every
        entry of a head's output, before ``out_proj``, is within `tolerance` of exact attention's, relative to the
        product of the largest magnitudes of the value sets, whatever the data. Exact attention is that of the very
        queries, normalised and times their temperature, keys and values that the layer has computed in its type. The
        rounding of the output to that type is part of the tolerance: **a tolerance that the layer's type cannot keep
        is refused**, by the constructor, or when the layer is cast, which plans anew. Beside the tolerance stands the
        smallest positive number of the type, which matters to float16 alone: see `certificate`.
    generator: draws the first weights; None is PyTorch's global generator, as in any `torch.nn` layer.

    Differences from `nn.MultiheadAttention`, all on purpose:

    - **The call returns the output alone, not a pair**: the weights would be length^(k-1) numbers a query.
    - `batch_first` is True by default, and there is no dropout on the weights, which are never held.
    - `is_causal=True` masks; it is not a hint about a mask also given.
    - A query whose keys are all padding gives the output bias, not NaN.
    - The projections are `nn.Linear` modules (``q_proj``, ``k_proj.m``, ``v_proj.m``, ``out_proj``), not packed.

    **At the start** every weight is Xavier-uniform and every bias zero, so inputs of unit variance give q, k_m and v_m
    of unit variance. A coordinate of q * k_1 * ... * k_{k-1} then has variance 1 at any order (with tails that grow
    heavier: its fourth moment is about 3^k), and the score, a sum of head_dim of them, standard deviation
    scale * sqrt(head_dim): d^(-1/2) by default, an almost uniform attention, and 1 with scale = d^(-1/2), at every
    order. An almost uniform attention multiplies k - 1 averages over n tokens, each of size n^(-1/2) when tokens are
    independent: expect first outputs of size n^(-(k-1)/2).

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
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        order: int = 3,
        kdim: int | None = None,
        vdim: int | None = None,
        bias: bool = True,
        batch_first: bool = True,
        *,
        scale: float | None = None,
        windows: int | Sequence[int | None] | None = None,
        method: str = "auto",
        bound: float | None = None,
        tolerance: float | None = None,
        generator: torch.Generator | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        kdim = embed_dim if kdim is None else kdim
        vdim = embed_dim if vdim is None else vdim
        least = {"embed_dim": 1, "num_heads": 1, "order": 2, "kdim": 1, "vdim": 1}
        for name, number in zip(least, (embed_dim, num_heads, order, kdim, vdim), strict=True):
            _check_integer(name, number, least[name])
        if embed_dim % num_heads:
            raise ArgumentError("embed_dim", expected=f"a multiple of num_heads = {num_heads}", got=embed_dim)
        if scale is not None and (not isinstance(scale, Real) or isinstance(scale, bool) or not math.isfinite(scale)):
            raise ArgumentError("scale", expected="None or a finite number", got=scale)

        self.embed_dim, self.kdim, self.vdim = embed_dim, kdim, vdim
        self.num_heads, self.head_dim = num_heads, embed_dim // num_heads
        self.order = order
        self.batch_first = batch_first
        self.scale = scale
        self.windows = _one_a_set(windows, order)
        self.method = method
        self.bound = None if bound is None else check_bound("bound", bound)
        self.tolerance = None if tolerance is None else check_tolerance(tolerance)
        if self.bound is None:
            if tolerance is not None:
                raise ArgumentError("tolerance", expected="None for a layer without a bound", got=tolerance)
        elif scale is not None:
            raise ArgumentError("scale", expected="None for a layer with a bound, which learns it", got=scale)
        self._plans: dict[torch.dtype, BoundedPlan] = {}
        if self.bound is not None and self.tolerance is not None:
            if self.windows is not None:
                raise ArgumentError("windows", expected="None for a layer with a tolerance", got=windows)
            self._plan(dtype or torch.get_default_dtype())  # refused before any weight is made

        def linear(width: int) -> nn.Linear:
            # Not filled twice: nn.Linear would draw from the global generator.
            empty = nn.Linear(width, embed_dim, bias=bias, device="meta", dtype=dtype)
            return empty.to_empty(device=torch.get_default_device() if device is None else device)

        self.q_proj = linear(embed_dim)
        self.k_proj = nn.ModuleList(linear(kdim) for _ in range(order - 1))
        self.v_proj = nn.ModuleList(linear(vdim) for _ in range(order - 1))
        self.out_proj = linear(embed_dim)
        where = self.out_proj.weight
        empty = None if self.bound is None else nn.Parameter(where.new_empty(num_heads))
        self.register_parameter("temperature", empty)
        self.reset_parameters(generator)

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw the weights anew."""
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.xavier_uniform_(parameter, generator=generator)
            else:
                nn.init.zeros_(parameter)

    @property
    def plan(self) -> BoundedPlan | None:
        """The polynomial that keeps the tolerance in the type the layer has now; None if it computes exactly."""
        if not isinstance(self.temperature, Tensor) or self.tolerance is None:
            return None
        return self._plan(self.temperature.dtype)

    def _plan(self, dtype: torch.dtype) -> BoundedPlan:
        """The plan for a type; kept, so that a compiler that traces a call finds it made."""
        if dtype not in self._plans:
            assert self.bound is not None
            assert self.tolerance is not None
            radius = score_radius(self.order, self.head_dim, 1.0, self.bound, "order", dtype)
            self._plans[dtype] = plan_bounded(self.order, self.head_dim, radius, self.tolerance, dtype)
        return self._plans[dtype]

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """What casts and moves a layer; a type that cannot keep the tolerance is refused here, and by every call."""
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        _ = self.plan
        return self

    def extra_repr(self) -> str:
        usual: dict[str, object] = {"kdim": self.embed_dim, "vdim": self.embed_dim}
        usual |= {"batch_first": True, "scale": None, "windows": None, "method": "auto"}
        usual |= {"bound": None, "tolerance": None}
        unusual = {name: getattr(self, name) for name, value in usual.items() if getattr(self, name) != value}
        shown = {"embed_dim": self.embed_dim, "num_heads": self.num_heads, "order": self.order, **unusual}
        return ", ".join(f"{name}={value!r}" for name, value in shown.items())

    def forward(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        *,
        key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
        query_offset: int = 0,
    ) -> Tensor:
        """The attention of `query` to `key` and `value`, as one tensor shaped like `query`.

        query: (batch, L, embed_dim), or (L, embed_dim) without a batch. key: the same with S and kdim, None for
            `query`. value: the same with S and vdim, None for `key`.
        key_padding_mask: bool, (batch, S) or (S,). **True means: ignore this key**, as in `nn.MultiheadAttention`;
            the `key_masks` of `tensor_attention` mean the opposite. It holds for every key set.
        is_causal, query_offset: every j_m <= i + query_offset; without an offset L = S.
        """
        q, keys, values, masks = self._inputs(query, key, value, key_padding_mask, is_causal, query_offset)
        heads = self._attend(q, keys, values, masks=masks, is_causal=is_causal, query_offset=query_offset)
        return self._out(heads)

    def certificate(
        self,
        query: Tensor | None = None,
        key: Tensor | None = None,
        value: Tensor | None = None,
        *,
        key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
        query_offset: int = 0,
    ) -> Certificate:
        """A bound on the error of the heads' outputs, before ``out_proj``, in a call with the same arguments.

        It is for a layer with a bound and a tolerance, and speaks of the difference to the exact attention of the
        queries, keys and values that the layer computes: see `bound, tolerance` above.

        Args:
            query, key, value, key_padding_mask, is_causal, query_offset: As in a call. Nothing is attended; the values
                are computed, because the certificate is proportional to their magnitudes. Without a query it is the
                certificate for values of magnitude 1, whatever the length.

        Returns:
            The certificate, whose `per_query` is (batch, num_heads, L), without the batch if the query has none, and
            a single number if there is no query.

        Raises:
            ArgumentError: The layer has no bound or no tolerance, or a call with these arguments would be refused.

        Example:
            >>> layer = TensorAttention(8, 2, bound=1.0, tolerance=1e-3, generator=torch.Generator().manual_seed(0))
            >>> layer.certificate().total < 1e-3
            True
            >>> layer.certificate(torch.zeros(4, 5, 8)).per_query.shape
            torch.Size([4, 2, 5])
        """
        plan = self.plan
        if plan is None:
            raise ArgumentError(
                "certificate", expected="a layer with a bound and a tolerance", got=repr(self.extra_repr())
            )
        if query is None:
            for name, given in (("key", key), ("value", value), ("key_padding_mask", key_padding_mask)):
                if given is not None:
                    raise ArgumentError(name, expected="None without a query", got=type(given).__name__)
            return plan.certificate(plan.roundings, torch.ones((), dtype=torch.float64))
        with torch.no_grad():
            q, keys, values, masks = self._inputs(query, key, value, key_padding_mask, is_causal, query_offset)
            call = check_call(q, keys, values, is_causal=is_causal, query_offset=query_offset, key_masks=masks)
            batch, q, keys, values, hidden = flatten_heads(call)
            tokens = Tokens(q, tuple(keys), tuple(values), tuple(hidden), self.bound or 0.0)
            found = value_range(tokens)
            roundings = sum_rounding(plan, tokens, is_causal) if found.in_range(torch.float64) else math.inf
            magnitude = found.magnitude.amax(1).reshape(*batch, 1).expand(*batch, q.shape[1])
            return plan.certificate(roundings, magnitude)

    def _inputs(
        self,
        query: Tensor,
        key: Tensor | None,
        value: Tensor | None,
        key_padding_mask: Tensor | None,
        is_causal: bool,
        query_offset: int,
    ) -> tuple[Tensor, list[Tensor], list[Tensor], list[Tensor] | None]:
        """Queries, keys, values and masks of the heads, from the checked arguments of a call."""
        given_key, given_value = key, value
        key = query if key is None else key
        value = key if value is None else value
        self._check("query", query, self.embed_dim)
        self._check("key", key, self.kdim, stands_for="query" if given_key is None else None)
        self._check("value", value, self.vdim, stands_for="key" if given_value is None else None)
        if query.dim() == 3 and not self.batch_first:
            query, key, value = (x.transpose(0, 1) for x in (query, key, value))
        _check_together(query, key, value, key_padding_mask)
        if is_causal and query_offset == 0 and key.shape[-2] != query.shape[-2]:
            expected = f"the query's length {query.shape[-2]} (is_causal without a query_offset)"
            raise ArgumentError("key", expected=expected, got=f"length {key.shape[-2]}")

        masks = None
        if key_padding_mask is not None:
            masks = [~key_padding_mask.unsqueeze(-2)] * (self.order - 1)
        return *self._projections(query, key, value), masks

    def _out(self, heads: Tensor) -> Tensor:
        out: Tensor = self.out_proj(heads.transpose(-3, -2).flatten(-2))
        return out.transpose(0, 1) if out.dim() == 3 and not self.batch_first else out

    def _projections(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """Queries, keys and values of the heads, normalised where the layer is bounded."""
        q = self._heads(self.q_proj(query))
        keys = [self._heads(project(key)) for project in self.k_proj]
        values = [self._heads(project(value)) for project in self.v_proj]
        if self.bound is not None:
            assert isinstance(self.temperature, Tensor)
            dtype = self.temperature.dtype  # under autocast the projections have fewer digits than were planned for
            temperature = torch.sigmoid(self.temperature).unsqueeze(-1).unsqueeze(-1)
            q = normalised(q.to(dtype), self.order) * temperature
            keys, values = [normalised(k.to(dtype), self.order) for k in keys], [v.to(dtype) for v in values]
        return q, keys, values

    def _attend(
        self,
        q: Tensor,
        keys: list[Tensor],
        values: list[Tensor],
        *,
        masks: list[Tensor] | None,
        is_causal: bool,
        query_offset: int,
    ) -> Tensor:
        plan = self.plan
        if plan is None:
            return tensor_attention(
                q,
                keys,
                values,
                is_causal=is_causal,
                query_offset=query_offset,
                key_masks=masks,
                windows=self.windows,
                scale=self.scale if self.bound is None else self.bound,
                method=self.method,
            )
        assert self.bound is not None
        call = check_call(q, keys, values, is_causal=is_causal, query_offset=query_offset, key_masks=masks)
        batch, q, keys, values, hidden = flatten_heads(call)
        out = bounded_attention(
            plan, q, keys, values, hidden, scale=self.bound, is_causal=is_causal, query_offset=query_offset
        )
        return out.reshape(*batch, *out.shape[1:])

    def state(self, batch_size: int | None = None) -> TensorAttentionState:
        """An empty state for `decode`, of sequences without a batch or of `batch_size` of them."""
        if self.bound is None or self.tolerance is None:
            raise ArgumentError("state", expected="a layer with a bound and a tolerance", got=repr(self.extra_repr()))
        assert isinstance(self.temperature, Tensor)
        return TensorAttentionState(
            self.order,
            self.head_dim,
            self.head_dim,
            bound=1.0,
            tolerance=self.tolerance,
            scale=self.bound,
            norm="order",
            batch_shape=(self.num_heads,) if batch_size is None else (batch_size, self.num_heads),
            dtype=self.temperature.dtype,
            device=self.temperature.device,
        )

    def decode(self, x: Tensor, state: TensorAttentionState) -> Tensor:
        """Append the tokens x and give the outputs of the last of them, (..., 1, embed_dim): all others are behind it.

        One token at a time this is causal self-attention of everything appended so far; the time does not depend on
        how much that is. More tokens at once are a prefill, whose own outputs a causal call gives.
        """
        self._check("x", x, self.embed_dim)
        if x.dim() == 3 and not self.batch_first:
            x = x.transpose(0, 1)
        q, keys, values = self._projections(x[..., -1:, :], x, x)
        state.append(keys, values)
        return self._out(state.attend(q))

    def _heads(self, x: Tensor) -> Tensor:
        return x.reshape(*x.shape[:-1], self.num_heads, self.head_dim).transpose(-3, -2)

    def _check(self, name: str, x: Tensor, width: int, stands_for: str | None = None) -> None:
        if not isinstance(x, Tensor):
            raise ArgumentError(name, expected="a tensor", got=type(x).__name__)
        if not is_dense(x):
            raise ArgumentError(name, expected="a dense tensor", got=layout(x))
        got = _shape(x) if stands_for is None else f"None, which stands for {stands_for} of {_shape(x)}"
        if x.dim() not in (2, 3):
            form = "(batch, length, width)" if self.batch_first else "(length, batch, width)"
            raise ArgumentError(name, expected=f"shape {form} or (length, width)", got=got)
        if x.shape[-1] != width:
            raise ArgumentError(name, expected=f"a last dimension of {width}", got=got)
        weight = self.out_proj.weight
        if x.dtype != weight.dtype and not torch.is_autocast_enabled(x.device.type):
            raise ArgumentError(name, expected=f"the layer's type {weight.dtype}", got=str(x.dtype))
        if x.device != weight.device:
            raise ArgumentError(name, expected=f"the layer's device {weight.device}", got=str(x.device))


def _check_together(query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Tensor | None) -> None:
    """With the batch first."""
    if key.shape[:-2] != query.shape[:-2]:
        raise ArgumentError("key", expected=f"the query's batch {tuple(query.shape[:-2])}", got=_shape(key))
    if value.shape[:-1] != key.shape[:-1]:
        raise ArgumentError("value", expected=f"the key's batch and length {tuple(key.shape[:-1])}", got=_shape(value))
    if key_padding_mask is None:
        return
    if not isinstance(key_padding_mask, Tensor) or key_padding_mask.dtype != torch.bool:
        got = key_padding_mask.dtype if isinstance(key_padding_mask, Tensor) else type(key_padding_mask).__name__
        raise ArgumentError("key_padding_mask", expected="a bool tensor, True where a key is ignored", got=str(got))
    if key_padding_mask.shape != key.shape[:-1]:
        expected = f"the key's batch and length {tuple(key.shape[:-1])}"
        raise ArgumentError("key_padding_mask", expected=expected, got=_shape(key_padding_mask))
    if key_padding_mask.device != key.device:
        raise ArgumentError(
            "key_padding_mask", expected=f"the layer's device {key.device}", got=str(key_padding_mask.device)
        )


def _one_a_set(windows: int | Sequence[int | None] | None, order: int) -> tuple[int | None, ...] | None:
    if windows is None:
        return None
    if isinstance(windows, (list, tuple)):
        if len(windows) != order - 1:
            raise ArgumentError("windows", expected=f"{order - 1} entries, one for each key set", got=windows)
        for m, window in enumerate(windows):
            if window is not None:
                _check_integer(f"windows[{m}]", window, 1)
        return tuple(windows)
    _check_integer("windows", windows, 1)
    return (windows,) * (order - 1)  # type: ignore[return-value]


def _check_integer(name: str, number: object, least: int) -> None:
    if not isinstance(number, int) or isinstance(number, bool) or number < least:
        raise ArgumentError(name, expected=f"an integer >= {least}", got=number)


def _shape(x: Tensor) -> str:
    return f"shape {tuple(x.shape)}"
