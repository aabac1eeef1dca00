r"""Order-k attention to a stream: a state of constant size that tokens are added to and queries are asked of.

The polynomial method needs of the keys and values no more than Z_m = Phi(K_m)^T [V_m, 1], one for each of the k - 1
sets (see `polynomial`). They are sums over tokens: appending adds, merging adds, and their Hadamard product is taken
when a query comes. The polynomial is planned for a bound, so it never changes with the data.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from copy import copy

import torch
from torch import Tensor

from separatrix.attention.arguments import DTYPES, check_tensor
from separatrix.attention.near_linear.backend import StreamKernels
from separatrix.attention.near_linear.bounded_plan import (
    BoundedPlan,
    expansion,
    largest_token,
    plan_bounded,
    score_radius,
)
from separatrix.attention.near_linear.certificate import Certificate
from separatrix.attention.near_linear.plan import check_tolerance
from separatrix.attention.streaming.appending import append
from separatrix.attention.streaming.attending import attend
from separatrix.attention.streaming.extending import extend
from separatrix.attention.streaming.ledger import StreamLedger
from separatrix.attention.streaming.saved_state import check_sums_of, compare, configuration, load, saved_tensors
from separatrix.attention.streaming.stream_rounding import relative_rounding
from separatrix.attention.streaming.thread_guard import ThreadGuard
from separatrix.attention.streaming.token_checks import batch_indices, check_bound
from separatrix.checks import is_whole, positive
from separatrix.errors import ArgumentError

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

    **Threads may attend one state at the same time; a thread that appends to it, or changes it otherwise, must be
    alone.** A change while another thread uses the state is refused by a `SeparatrixError`, and so is any use while
    another thread changes it. `copy.copy` gives another thread a state of its own, which shares memory with this one
    until either is changed.

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
        self.largest_token = largest_token(order, head_dim, self.bound, norm, dtype)
        radius = score_radius(order, head_dim, self.bound, self.scale, norm, dtype)
        self.plan: BoundedPlan = plan_bounded(order, head_dim, radius, self.tolerance, dtype)
        self.heads = math.prod(self.batch_shape)
        self.expansion = expansion(self.plan, self.heads, self.scale, self.device, self.bound)
        self._guard = ThreadGuard("state")
        shape = (self.heads, self.plan.rank, value_dim + 1)
        self.states = [torch.zeros(shape, dtype=torch.float64, device=self.device) for _ in range(order - 1)]
        self.kernels: tuple[str, StreamKernels | None] = ("", None)  # their backend's name, and the kernels
        self.ledger = StreamLedger.empty(order - 1)

    def __getstate__(self) -> dict[str, object]:
        """The attributes of a copy: lists of its own, and sums that either state copies before it changes them."""
        with self._guard.reading:
            own = {
                "ledger": copy(self.ledger),
                "kernels": ("", None),
                "_states": list(self.states),
                "_shared": True,
                "_guard": copy(self._guard),
            }
            return {**self.__dict__, **own}

    @property
    def states(self) -> list[Tensor]:
        """The sums Z_m (heads, rank, d_v + 1) of each set; tokens that are appended later do not change them."""
        with self._guard.reading:
            self._shared = True
            return self._states

    @states.setter
    def states(self, states: list[Tensor]) -> None:
        self._states, self._shared = states, True

    @property
    def held_states(self) -> Sequence[Tensor]:
        """The sums of each set, to be read before the next token is appended, which may change them in place."""
        return self._states

    def own_states(self) -> list[Tensor]:
        """The states, for the kernels to change in place; one that others hold, such as a graph, is copied first."""
        if self._shared:
            with torch.no_grad():
                self._states = [z.clone(memory_format=torch.contiguous_format) for z in self._states]
            self._shared = False
        return self._states

    @property
    def largest(self) -> tuple[float, ...]:
        """The largest magnitude among the values of each set."""
        with self._guard.reading:
            return tuple(self.ledger.largest)

    @property
    def roundings(self) -> tuple[int, ...]:
        """How many roundings a token of each set has gone through at most."""
        with self._guard.reading:
            return tuple(self.ledger.roundings)

    @property
    def tokens(self) -> tuple[int, ...]:
        """How many tokens were appended to each set, those that a mask hides among them."""
        with self._guard.reading:
            return tuple(self.ledger.tokens)

    @property
    def nbytes(self) -> int:
        """Bytes of the state: they do not depend on the tokens seen."""
        return sum(z.nbytes for z in self._states)

    @property
    def certificate(self) -> Certificate:
        """Bounds the error of every output that `attend` gives now, whatever the query within the bound."""
        with self._guard.reading:
            return self.plan.certificate_of_all(self._relative(), math.prod(self.ledger.largest), self.device)

    def _relative(self) -> float:
        return relative_rounding(self.plan, self.ledger.tokens, self.ledger.largest, self.ledger.roundings)

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
        with self._guard.changing:
            append(self, keys, values, key_masks)

    def attend(self, query: Tensor) -> Tensor:
        """The outputs (*batch_shape, L_q, d_v) of queries (*batch_shape, L_q, d) over all tuples of tokens so far.

        Before every set has a token, or where masks hide all tokens of a set, there is nothing to attend, and the
        output is zero.
        """
        with self._guard.reading:
            return attend(self, query)

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
        with self._guard.changing:
            return extend(self, query, keys, values, key_masks)

    def merge(self, other: TensorAttentionState) -> None:
        """Add the tokens of another state of the same plan and shape; the other is left as it is."""
        if not isinstance(other, TensorAttentionState):
            raise ArgumentError("other", expected="a TensorAttentionState", got=type(other).__name__)
        with self._guard.changing, other._guard.reading:
            compare("other", configuration(self), configuration(other))
            compare("other", {"device": str(self.device)}, {"device": str(other.device)})
            check_sums_of(self, "other", other.states, other.ledger)
            hidden = None if other.ledger.hidden is None else other.ledger.hidden + self.hidden_counts()
            self.states = [a + b for a, b in zip(self.states, other.states, strict=True)]
            self.ledger.merge(other.ledger)
            self.ledger.hidden = self.ledger.hidden if hidden is None else hidden

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
        with self._guard.changing:
            chosen = batch_indices(indices, self.batch_shape[0], self.device)
            states = [
                z.reshape(*self.batch_shape, *z.shape[1:]).index_select(0, chosen).flatten(0, len(self.batch_shape) - 1)
                for z in self._states
            ]
            if self.ledger.hidden is not None:
                counts = self.ledger.hidden.unflatten(1, self.batch_shape)
                self.ledger.hidden = counts.index_select(1, chosen).flatten(1)
            if len(chosen) != self.batch_shape[0]:
                self.batch_shape = (len(chosen), *self.batch_shape[1:])
                self.heads, self.kernels = math.prod(self.batch_shape), ("", None)
                self.expansion = expansion(self.plan, self.heads, self.scale, self.device, self.bound)
            self.states = states

    def trim(self, length: int) -> None:
        """Refuse to forget tokens: their sum does not say which of them is which. `length` may be all of them.

        Raises:
            ArgumentError: The length is not that of the tokens appended so far.
        """
        if any(count != length for count in self.ledger.tokens):
            raise ArgumentError(
                "length",
                expected=f"all {self.ledger.tokens[0]} tokens: a summed state cannot forget (copy it by state_dict)",
                got=length,
            )

    def detach(self) -> None:
        """Cut the graph: tokens that are appended later still have gradients, earlier ones have none."""
        with self._guard.changing:
            self.states = [z.detach() for z in self._states]

    def state_dict(self) -> dict[str, Tensor]:
        """Tensors to save, with safetensors for one: the sums, and all that their certificate rests on."""
        with self._guard.reading:
            return saved_tensors(self)

    def load_state_dict(self, saved: Mapping[str, Tensor]) -> None:
        """Replace the tokens of this state by those that were saved.

        Args:
            saved: What `state_dict` gave, of a state made with the same arguments; the device may be another.

        Raises:
            ArgumentError: The state was made with other arguments, which are named, or its numbers cannot be those of
                any tokens. This state is then left as it was.
        """
        with self._guard.changing:
            load(self, saved)

    def hidden_counts(self) -> Tensor:
        """How many tokens of each set a mask hid from each head, (order - 1, heads)."""
        if self.ledger.hidden is not None:
            return self.ledger.hidden
        return torch.zeros(self.order - 1, self.heads, dtype=torch.int64, device=self.device)

    def check_tokens(self, name: str, x: Tensor, width: int) -> None:
        shape: tuple[int | str, ...] = (*self.batch_shape, "length", width)
        check_tensor(name, x, of="state", dtype=self.dtype, device=self.device, shape=shape)

    def refuse_beyond_bound(self, name: str, x: Tensor) -> None:
        """Refuse, by name and token, what the state is not planned for."""
        check_bound(name, x, self.bound, self.largest_token, self.norm, self.order)

    def flattened(self, x: Tensor) -> Tensor:
        return x.reshape(self.heads, *x.shape[-2:])
