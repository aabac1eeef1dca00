r"""Order-k attention to a stream: a state of constant size that tokens are added to and queries are asked of.

The polynomial method needs of the keys and values no more than Z_m = Phi(K_m)^T [V_m, 1], one for each of the k - 1
sets (see `polynomial`). They are sums over tokens: appending adds, merging adds, and their Hadamard product is taken
when a query comes. The polynomial is planned for a bound, so it never changes with the data.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from separatrix.attention.arguments import DTYPES
from separatrix.attention.arithmetic.host import number, truth
from separatrix.attention.arithmetic.precision import require_ieee_arithmetic
from separatrix.attention.certificate.output import Certificate
from separatrix.attention.dispatch import gpu
from separatrix.attention.planning.plan import check_tolerance
from separatrix.attention.polynomial.causal import causal_summing
from separatrix.attention.polynomial.products import against_monomials, sum_of_monomials
from separatrix.attention.polynomial.sums import contraction, with_ones
from separatrix.attention.streaming.bounded_plan import (
    BoundedPlan,
    balanced_exponents,
    expansion,
    largest_token,
    plan_bounded,
    score_radius,
)
from separatrix.attention.streaming.causal_after import attend_after, causal_call
from separatrix.attention.streaming.few_tokens import FEW, FewTokens, roundings_of_few
from separatrix.attention.streaming.few_tokens_gpu import FewTokensOnGpu
from separatrix.attention.streaming.saved_state import as_bytes, check_entries, check_sums, compare, from_bytes
from separatrix.attention.streaming.stream_rounding import refuse_roundings, relative_rounding, roundings_of_chunks
from separatrix.attention.streaming.token_checks import (
    as_sets,
    batch_indices,
    check_bound,
    check_finite,
    check_tensor,
    seen_tokens,
)
from separatrix.checks import is_whole, positive
from separatrix.errors import ArgumentError, SeparatrixError
from separatrix.native import MOST_SETS
from separatrix.native_tensors import kernels_for

NORMS = ("entries", "order")


class TensorAttentionState:
    """What queries need to know of all tokens appended so far, in memory that does not grow with them.

    Args:
        order: The order k; each token brings k - 1 keys and as many values.
        head_dim: The dimension d of queries and keys.
        value_dim: The dimension d_v of values.
        bound: What bounds queries and keys. With norm "entries" no entry may exceed it in magnitude, and scores are at
            most R = |scale| d bound^k; with norm "order" no vector's l_k norm may, and R = |scale| bound^k (Hoelder).
            **A token beyond the bound is refused**, because the promise for the others would not hold.
        tolerance: The error allowed on every output entry, relative to the product of the largest magnitudes of the
            value sets so far. The rounding of the output to `dtype` is part of it: **a tolerance that the type cannot
            keep is refused**. Beside it stands the smallest positive number of the type, which matters to float16
            alone.
        scale: The factor of every score; None is the papers' 1 / head_dim.
        norm: "entries" or "order": see `bound`.
        batch_shape: The leading dimensions of every tensor.
        dtype: The type of tokens and outputs; the state itself is in float64.
        device: Where the state is kept.

    Appending and attending are differentiable; `detach` cuts the graph.

    Example:
        >>> generator = torch.Generator().manual_seed(0)
        >>> q, k1, k2, v1, v2 = 2 * torch.rand(5, 100, 4, generator=generator) - 1
        >>> state = TensorAttentionState(3, 4, 4, bound=1.0, tolerance=1e-3)
        >>> state.append([k1[:60], k2[:60]], [v1[:60], v2[:60]])
        >>> state.append([k1[60:], k2[60:]], [v1[60:], v2[60:]])
        >>> from separatrix import tensor_attention
        >>> exact = tensor_attention(q, [k1, k2], [v1, v2])
        >>> bool((state.attend(q) - exact).abs().max() <= state.certificate.total <= 1e-3)
        True
    """

    def __init__(
        self,
        order: int,
        head_dim: int,
        value_dim: int,
        *,
        bound: float,
        tolerance: float,
        scale: float | None = None,
        norm: str = "entries",
        batch_shape: Sequence[int] = (),
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        for name, size, least in (("order", order, 2), ("head_dim", head_dim, 1), ("value_dim", value_dim, 1)):
            if not is_whole(size, low=least):
                raise ArgumentError(name, expected=f"an integer >= {least}", got=size)
        if norm not in NORMS:
            raise ArgumentError("norm", expected=f"one of {NORMS}", got=norm)
        if dtype not in DTYPES:
            raise ArgumentError("dtype", expected="float64, float32, bfloat16 or float16", got=dtype)
        self.order, self.head_dim, self.value_dim = order, head_dim, value_dim
        self.bound, self.tolerance = positive("bound", bound), check_tolerance(tolerance)
        if scale is not None and not (isinstance(scale, (int, float)) and math.isfinite(scale)):
            raise ArgumentError("scale", expected="a finite number, or None for 1 / head_dim", got=scale)
        self.scale = 1 / head_dim if scale is None else float(scale)
        sizes = tuple(batch_shape) if isinstance(batch_shape, Sequence) else (None,)
        if not all(isinstance(size, int) and size >= 0 for size in sizes):
            raise ArgumentError("batch_shape", expected="a sequence of integers >= 0", got=batch_shape)
        self.norm, self.batch_shape, self.dtype = norm, tuple(batch_shape), dtype
        self.device = torch.device(device)
        self._most = largest_token(order, head_dim, self.bound, norm, dtype)
        radius = score_radius(order, head_dim, self.bound, self.scale, norm, dtype)
        self.plan: BoundedPlan = plan_bounded(order, head_dim, radius, self.tolerance, dtype)
        self._heads = math.prod(self.batch_shape)
        self._expansion = expansion(self.plan, self._heads, self.scale, self.device, self.bound)
        shape = (self._heads, self.plan.rank, value_dim + 1)
        self.states = [torch.zeros(shape, dtype=torch.float64, device=self.device) for _ in range(order - 1)]
        self._few: FewTokens | FewTokensOnGpu | None = None
        self._tokens = [0] * (order - 1)
        self._largest = [0.0] * (order - 1)
        self._roundings = [0] * (order - 1)
        self._hidden: Tensor | None = None  # how many tokens of each set a mask hid from each head, (order - 1, heads)

    def __getstate__(self) -> dict[str, object]:
        """All but the calls of the kernels, whose pointers cannot be copied and which are made again."""
        return {**self.__dict__, "_few": None}

    @property
    def states(self) -> list[Tensor]:
        """The sums Z_m (heads, rank, d_v + 1) of each set; tokens that are appended later do not change them."""
        self._shared = True
        return self._states

    @states.setter
    def states(self, states: list[Tensor]) -> None:
        self._states, self._shared = states, True

    def _own_states(self) -> list[Tensor]:
        """The states, for the kernels to change in place; one that others hold, such as a graph, is copied first."""
        if self._shared:
            with torch.no_grad():
                self._states = [z.clone(memory_format=torch.contiguous_format) for z in self._states]
            self._shared = False
        return self._states

    @property
    def largest(self) -> tuple[float, ...]:
        """The largest magnitude among the values of each set."""
        return tuple(self._largest)

    @property
    def roundings(self) -> tuple[int, ...]:
        """How many roundings a token of each set has gone through at most."""
        return tuple(self._roundings)

    @property
    def tokens(self) -> tuple[int, ...]:
        """How many tokens were appended to each set, those that a mask hides among them."""
        return tuple(self._tokens)

    @property
    def nbytes(self) -> int:
        """Bytes of the state: they do not depend on the tokens seen."""
        return sum(z.nbytes for z in self._states)

    @property
    def certificate(self) -> Certificate:
        """Bounds the error of every output that `attend` gives now, whatever the query within the bound."""
        return self.plan.certificate_of_all(self._relative(), math.prod(self._largest), self.device)

    def _relative(self) -> float:
        return relative_rounding(self.plan, self._tokens, self._largest, self._roundings)

    def append(
        self,
        keys: Tensor | Sequence[Tensor],
        values: Tensor | Sequence[Tensor],
        *,
        key_masks: Tensor | Sequence[Tensor | None] | None = None,
    ) -> None:
        """Add tokens: keys[m] (*batch_shape, L_m, d) and values[m] (*batch_shape, L_m, d_v); a bare tensor at order 2.

        All of them are checked before any is added.

        Args:
            keys: The keys of each set.
            values: The values of each set.
            key_masks: For each set a bool tensor that broadcasts to (*batch_shape, L_m), or None, as in
                `tensor_attention`: **a token where it is False is not added**, whatever its key and value are.
        """
        require_ieee_arithmetic()
        key_sets, value_sets, masks = self._tokens_of(keys, values, key_masks)
        few = None if masks else self._kernels(key_sets, value_sets)
        if few is not None:
            return self._append_few(few, key_sets, value_sets)
        self._refuse_tokens(key_sets, value_sets)
        self._append_checked(key_sets, value_sets, masks)

    def _append_checked(self, keys: list[Tensor], values: list[Tensor], masks: list[Tensor]) -> None:
        for m, (key, value) in enumerate(zip(keys, values, strict=True)):
            self._append(m, self._flat(key), self._flat(value), masks[m] if masks else None)

    def _tokens_of(
        self,
        keys: Tensor | Sequence[Tensor],
        values: Tensor | Sequence[Tensor],
        key_masks: Tensor | Sequence[Tensor | None] | None,
    ) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
        """The keys and values of each set, of the shapes, type and device that the state is for; and their masks.

        Masks are (heads, L_m), one for each set, or there are none. Keys and values that they hide are zero.
        """
        key_sets, value_sets = as_sets("keys", keys, self.order), as_sets("values", values, self.order)
        for m, (key, value) in enumerate(zip(key_sets, value_sets, strict=True)):
            self._check(f"keys[{m}]", key, self.head_dim)
            self._check(f"values[{m}]", value, self.value_dim)
            if key.shape[-2] != value.shape[-2]:
                expected = f"as many values as keys[{m}] has tokens, {key.shape[-2]}"
                raise ArgumentError(f"values[{m}]", expected=expected, got=str(value.shape[-2]))
        mask_sets = [] if key_masks is None else as_sets("key_masks", key_masks, self.order)
        if all(mask is None for mask in mask_sets):
            return key_sets, value_sets, []
        seen = [
            seen_tokens(f"key_masks[{m}]", mask, (*self.batch_shape, key.shape[-2]), self.device)
            for m, (mask, key) in enumerate(zip(mask_sets, key_sets, strict=True))
        ]
        key_sets, value_sets = (
            [x.masked_fill(~mask.unsqueeze(-1), 0.0) for x, mask in zip(sets, seen, strict=True)]
            for sets in (key_sets, value_sets)
        )
        return key_sets, value_sets, [mask.reshape(self._heads, mask.shape[-1]) for mask in seen]

    def _kernels(self, tokens: list[Tensor], values: Sequence[Tensor] = ()) -> FewTokens | FewTokensOnGpu | None:
        """The kernels, where they append or attend: a few tokens, as many of each set, and no gradient is wanted."""
        length = tokens[0].shape[-2]
        if not 0 < length <= FEW or self._heads == 0:
            return None
        if len(tokens) > 1 and any(x.shape[-2] != length for x in tokens):
            return None
        tensors = (*tokens, *values, *self._states)
        if torch.is_grad_enabled() and any(x.requires_grad for x in tensors):
            return None
        on_gpu = FewTokensOnGpu.takes(self.order, self.value_dim) and gpu.computes(*tensors)
        library = kernels_for(*tensors) if not on_gpu and self.order - 1 <= MOST_SETS else None
        if not on_gpu and library is None:
            return None
        if self._few is None:
            sizes = (self._heads, self.value_dim, self.bound, self.scale, self._most, self.norm)
            made = FewTokens(library, self.plan, *sizes) if library is not None else None
            self._few = made or FewTokensOnGpu(self.device, self.plan, *sizes)
        return self._few

    def _append_few(self, few: FewTokens | FewTokensOnGpu, keys: list[Tensor], values: list[Tensor]) -> None:
        length = keys[0].shape[-2]
        largest = few.append(self._own_states(), keys, values, checked=False)
        if largest is None:
            self._refuse_tokens(keys, values)
            largest = few.append(self._own_states(), keys, values, checked=True)
            assert largest is not None
        self._roundings = [roundings_of_few(before, length) for before in self._roundings]
        for m, magnitude in enumerate(largest):
            self._tokens[m] += length
            self._largest[m] = max(self._largest[m], magnitude)

    def _refuse_tokens(self, keys: list[Tensor], values: list[Tensor]) -> None:
        """Refuse what the state is not planned for, and values that are not finite."""
        for m, (key, value) in enumerate(zip(keys, values, strict=True)):
            self.refuse_beyond_bound(f"keys[{m}]", key)
            check_finite(f"values[{m}]", value)

    def _append(self, m: int, key: Tensor, value: Tensor, mask: Tensor | None) -> None:
        length = key.shape[1]
        if length == 0 or self._heads == 0:
            return
        size = self._expansion.even_chunk(self._heads, length)
        x = self._expansion.frame.coordinates(key.to(torch.float64), m + 1)
        W = with_ones(value, mask, torch.float64)
        self._states[m] = self._states[m] + sum_of_monomials(x, W, self.plan.index_set, size)
        self._shared = True  # it may be part of a graph
        self._roundings[m] = roundings_of_chunks(self._roundings[m], length, size)
        self._tokens[m] += length
        self._largest[m] = max(self._largest[m], number(value.detach().abs().max()))
        if mask is not None:
            self._hidden = self._hidden_counts().clone()
            self._hidden[m] += (~mask).sum(-1)

    def attend(self, query: Tensor) -> Tensor:
        """The outputs (*batch_shape, L_q, d_v) of queries (*batch_shape, L_q, d) over all tuples of tokens so far.

        Before every set has a token, or where masks hide all tokens of a set, there is nothing to attend, and the
        output is zero.
        """
        require_ieee_arithmetic()
        self._check("query", query, self.head_dim)
        few = None if self._sees_nothing() else self._kernels([query])
        if few is None or 0 in self._tokens:
            self.refuse_beyond_bound("query", query)
        shape = (*self.batch_shape, query.shape[-2], self.value_dim)
        if 0 in self._tokens or 0 in shape:
            return query.new_zeros(shape)
        self._refuse_roundings(self._tokens, self._largest, self._roundings)
        return self._attend(query).reshape(shape) if few is None else self._attend_few(few, query)

    def _sees_nothing(self) -> bool:
        """Whether masks hide all tokens of some set from some head, for which its column of ones adds up to 0."""
        return self._hidden is not None and any(truth((z[:, 0, -1] == 0).any()) for z in self._states)

    def _refuse_roundings(self, tokens: list[int], largest: list[float], roundings: list[int]) -> None:
        """Refuse to attend sums that were rounded too often for what was promised."""
        refuse_roundings(self.plan, self.tolerance, tokens, largest, roundings)

    def extend(
        self,
        query: Tensor,
        keys: Tensor | Sequence[Tensor],
        values: Tensor | Sequence[Tensor],
        *,
        key_masks: Tensor | Sequence[Tensor | None] | None = None,
    ) -> Tensor:
        """Append tokens and give the output of each: causal attention that goes on from what was appended before.

        Args:
            query: The queries (*batch_shape, L, d), one for each token, which attends every token before these and, of
                these, those up to its own. Where s heads of queries share keys and values, (*batch_shape, s, L, d).
            keys: The L new keys of each set, as in `append`.
            values: The L new values of each set.
            key_masks: As in `append`: no query, of these or of later tokens, attends a token where it is False.

        Returns:
            The outputs, shaped like `query` but for the last dimension, d_v; zero where there is nothing to attend.

        Raises:
            ArgumentError: A tensor is not as above, or a token is beyond the bound. Nothing is appended then.
            SeparatrixError: Rounding would spoil the outputs beyond the tolerance, and nothing is appended. Or the
                outputs leave the range of their type, which is known only when the tokens have been appended.

        Example:
            >>> q, k1, k2, v1, v2 = 2 * torch.rand(5, 9, 4, generator=torch.Generator().manual_seed(0)) - 1
            >>> state = TensorAttentionState(3, 4, 4, bound=1.0, tolerance=1e-3)
            >>> parts = [state.extend(q[i], [k1[i], k2[i]], [v1[i], v2[i]]) for i in (slice(0, 6), slice(6, 9))]
            >>> from separatrix import tensor_attention
            >>> exact = tensor_attention(q, [k1, k2], [v1, v2], is_causal=True)
            >>> bool((torch.cat(parts) - exact).abs().max() <= 1e-3)
            True
        """
        require_ieee_arithmetic()
        key_sets, value_sets, masks = self._tokens_of(keys, values, key_masks)
        length = key_sets[0].shape[-2]
        shared = isinstance(query, Tensor) and query.dim() == len(self.batch_shape) + 3
        for one in query.unbind(-3) if shared else [query]:
            self._check("query", one, self.head_dim)
        for name, x in (("query", query), *((f"keys[{m}]", key) for m, key in enumerate(key_sets))):
            if x.shape[-2] != length:
                raise ArgumentError(name, expected=f"{length} tokens, as keys[0]", got=str(x.shape[-2]))
        self.refuse_beyond_bound("query", query)
        if length == 1:  # whose queries are asked together
            chunk = self._expansion.even_chunk(self._heads, 1)
            by_kernels = not masks and self._kernels(key_sets, value_sets) is not None
            roundings = [
                roundings_of_few(before, 1) if by_kernels else roundings_of_chunks(before, 1, chunk)
                for before in self._roundings
            ]
            self._refuse_roundings([n + 1 for n in self._tokens], self._largest, roundings)
            self.append(key_sets, value_sets, key_masks=key_masks)
            return self.attend(query.squeeze(-2)).unsqueeze(-2) if shared else self.attend(query)
        self._refuse_tokens(key_sets, value_sets)
        few = None if masks else self._kernels([query, *key_sets], value_sets)
        if few is not None and few.ONE_BY_ONE:
            roundings = [max(before, 1) + length for before in self._roundings]
            self._refuse_roundings([n + length for n in self._tokens], self._largest, roundings)
            tokens = zip(*(x.split(1, -2) for x in (query, *key_sets, *value_sets)), strict=True)
            return torch.cat([self.extend(q, x[: self.order - 1], x[self.order - 1 :]) for q, *x in tokens], -2)
        out = self._attend_after(query if shared else query.unsqueeze(-3), key_sets, value_sets, masks)
        self._append_checked(key_sets, value_sets, masks)
        return out if shared else out.squeeze(-3)

    def _attend_after(self, query: Tensor, keys: list[Tensor], values: list[Tensor], masks: list[Tensor]) -> Tensor:
        """The outputs (*batch_shape, s, L, d_v) of queries (*batch_shape, s, L, d) for tokens not appended yet."""
        length = query.shape[-2]
        if 0 in query.shape or self._heads == 0:
            return query.new_zeros(*query.shape[:-1], self.value_dim)
        flat = [self._flat(x) for x in (*keys, *values)]
        magnitudes = [number(value.detach().abs().max()) for value in values]
        largest = [max(pair) for pair in zip(self._largest, magnitudes, strict=True)]
        outputs = []
        for one in query.unbind(-3):
            call = causal_call(self._flat(one), flat, masks, self.scale)
            scan = causal_summing(call, self.plan.rank).tokens([length])
            roundings = [before + scan.count() + scan.count(wide=True) for before in self._roundings]
            self._refuse_roundings([count + length for count in self._tokens], largest, roundings)
            out = attend_after(self._expansion, self.scale, masks, call.query, *flat, *self._states)
            if not truth(torch.isfinite(out).all()):
                self._check_reached(math.inf)
            outputs.append(out.reshape(*self.batch_shape, length, self.value_dim))
        return torch.stack(outputs, -3)

    def _attend(self, query: Tensor) -> Tensor:
        flat = self._flat(query)
        met = contraction(self._states, self._expansion)[..., :-1]
        x = self._expansion.frame.coordinates(flat.to(torch.float64), 0)
        sums = against_monomials(x, met, self.plan.index_set, self._expansion.even_chunk(self._heads, flat.shape[1]))
        D = sums[:, -1:]
        found = sums[:, :-1] / D.masked_fill(D == 0, math.inf)
        self._check_reached(number(found.detach().abs().max()))
        return found.mT.to(self.dtype)

    def _attend_few(self, few: FewTokens | FewTokensOnGpu, query: Tensor) -> Tensor:
        states = [z.contiguous() for z in self._states]
        found = few.attend(states, query, checked=False)
        if found is None:
            self.refuse_beyond_bound("query", query)
            found = few.attend(states, query, checked=True)
            assert found is not None
        out, reached = found
        self._check_reached(reached)
        return out

    def _check_reached(self, reached: float) -> None:
        most = torch.finfo(self.dtype).max
        if not reached <= most:
            raise SeparatrixError(
                f"values: outputs reach {reached:.3g}, and {self.dtype} ends at {most:.3g}. Take a state of a wider "
                "type, or multiply the values by a power of two."
            )

    def merge(self, other: TensorAttentionState) -> None:
        """Add the tokens of another state of the same plan and shape; the other is left as it is."""
        if not isinstance(other, TensorAttentionState):
            raise ArgumentError("other", expected="a TensorAttentionState", got=type(other).__name__)
        compare("other", self._configuration(), other._configuration())
        compare("other", {"device": str(self.device)}, {"device": str(other.device)})
        self._check_sums("other", other.states, other._tokens, other._largest, other._roundings, other._hidden)
        if other._hidden is not None:
            self._hidden = other._hidden + self._hidden_counts()
        self.states = [a + b for a, b in zip(self.states, other.states, strict=True)]
        self._tokens = [a + b for a, b in zip(self._tokens, other._tokens, strict=True)]
        self._largest = [max(a, b) for a, b in zip(self._largest, other._largest, strict=True)]
        self._roundings = [max(a, b) + 1 for a, b in zip(self._roundings, other._roundings, strict=True)]

    def reorder(self, indices: Tensor | Sequence[int]) -> None:
        """Make the sequence at `indices[i]` of the batch, the first of the leading dimensions, the one at i.

        Args:
            indices: Whole numbers from 0 to the batch's size - 1, repeated or left out at will; as many as there are
                sequences afterwards. A beam search continues its best beams so.

        Raises:
            ArgumentError: The state has no batch, or an index is none of it.
        """
        if not self.batch_shape:
            raise ArgumentError("indices", expected="a state with a batch", got="batch_shape ()")
        chosen = batch_indices(indices, self.batch_shape[0], self.device)
        states = [
            z.reshape(*self.batch_shape, *z.shape[1:]).index_select(0, chosen).flatten(0, len(self.batch_shape) - 1)
            for z in self._states
        ]
        if self._hidden is not None:
            counts = self._hidden.unflatten(1, self.batch_shape)
            self._hidden = counts.index_select(1, chosen).flatten(1)
        if len(chosen) != self.batch_shape[0]:
            self.batch_shape = (len(chosen), *self.batch_shape[1:])
            self._heads, self._few = math.prod(self.batch_shape), None
            self._expansion = expansion(self.plan, self._heads, self.scale, self.device, self.bound)
        self.states = states

    def trim(self, length: int) -> None:
        """Refuse to forget tokens: their sum does not say which of them is which. `length` may be all of them.

        Raises:
            ArgumentError: The length is not that of the tokens appended so far.
        """
        if any(count != length for count in self._tokens):
            raise ArgumentError(
                "length",
                expected=f"{self._tokens[0]}, all tokens: a summed state cannot forget (keep a copy by state_dict)",
                got=length,
            )

    def detach(self) -> None:
        """Cut the graph: tokens that are appended later still have gradients, earlier ones have none."""
        self.states = [z.detach() for z in self._states]

    def state_dict(self) -> dict[str, Tensor]:
        """Tensors to save, with safetensors for one: the sums, and all that their certificate rests on."""
        saved = {f"states.{m}": z.detach().clone() for m, z in enumerate(self._states)}
        saved["tokens"] = torch.tensor(self._tokens)
        saved["largest"] = torch.tensor(self._largest, dtype=torch.float64)
        saved["roundings"] = torch.tensor(self._roundings)
        saved["configuration"] = as_bytes(self._configuration())
        return saved if self._hidden is None else {**saved, "hidden": self._hidden.clone()}

    def load_state_dict(self, saved: Mapping[str, Tensor]) -> None:
        """Replace the tokens of this state by those that were saved.

        Args:
            saved: What `state_dict` gave, of a state made with the same arguments; the device may be another.

        Raises:
            ArgumentError: The state was made with other arguments, which are named, or its numbers cannot be those of
                any tokens. This state is then left as it was.
        """
        if not isinstance(saved, Mapping):
            raise ArgumentError("saved", expected="a mapping from names to tensors", got=type(saved).__name__)
        if "configuration" in saved:  # first: what differs in it explains the rest
            compare("saved", self._configuration(), from_bytes(saved["configuration"]))
        entries = {name: x for name, x in self.state_dict().items() if name != "hidden"}
        check_entries(saved, {**entries, "hidden": self._hidden_counts()} if "hidden" in saved else entries)
        states = [saved[f"states.{m}"].detach().to(self.device, copy=True) for m in range(self.order - 1)]
        tokens, roundings = ([int(x) for x in saved[name]] for name in ("tokens", "roundings"))
        largest = [float(x) for x in saved["largest"]]
        hidden = saved["hidden"].to(self.device, copy=True) if "hidden" in saved else None
        self._check_sums("saved", states, tokens, largest, roundings, hidden)
        self.states, self._tokens, self._largest, self._roundings = states, tokens, largest, roundings
        self._hidden = hidden

    def _hidden_counts(self) -> Tensor:
        """How many tokens of each set a mask hid from each head, (order - 1, heads)."""
        if self._hidden is not None:
            return self._hidden
        return torch.zeros(self.order - 1, self._heads, dtype=torch.int64, device=self.device)

    def _check_sums(
        self,
        argument: str,
        states: list[Tensor],
        tokens: list[int],
        largest: list[float],
        roundings: list[int],
        hidden: Tensor | None,
    ) -> None:
        exponents = balanced_exponents(self.order, self.bound, self.scale)
        sizes = [self._most * 2.0**exponent for exponent in exponents[1:]]
        check_sums(argument, states, tokens, largest, roundings, sizes, self.plan.index_set, hidden)

    def _configuration(self) -> dict[str, object]:
        """What decides which tokens may be appended, in which coordinates they are added up, and what is promised."""
        names = ("order", "head_dim", "value_dim", "bound", "tolerance", "scale", "norm")
        found: dict[str, object] = {name: getattr(self, name) for name in names}
        found["dtype"] = str(self.dtype).removeprefix("torch.")
        found["batch_shape"] = list(self.batch_shape)
        found["radius"], found["degree"] = self.plan.radius, self.plan.degree
        found["exponents"] = balanced_exponents(self.order, self.bound, self.scale)
        return found

    def _check(self, name: str, x: Tensor, width: int) -> None:
        check_tensor(name, x, self.batch_shape, width, self.dtype, self.device)

    def refuse_beyond_bound(self, name: str, x: Tensor) -> None:
        """Refuse, by name and token, what the state is not planned for."""
        check_bound(name, x, self.bound, self._most, self.norm, self.order)

    def _flat(self, x: Tensor) -> Tensor:
        return x.reshape(self._heads, *x.shape[-2:])
