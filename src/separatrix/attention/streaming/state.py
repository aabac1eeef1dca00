r"""Order-k attention to a token stream: a fixed-size summary of the tokens; append tokens, then attend with queries.

The polynomial method uses the keys and values only through the sums Z_m = Phi(K_m)^T [V_m, 1], one for each of the k -
1 sets (see `near_linear.sums`). As these are sums over tokens, tokens are appended and states are merged by addition.
The Hadamard product of the sums is computed when a query attends. The polynomial depends only on the bound, and
therefore does not change as tokens arrive.
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
from separatrix.attention.streaming.ledger import StreamLedger, relative_rounding
from separatrix.attention.streaming.operations import append, attend, extend
from separatrix.attention.streaming.saved_state import check_sums_of, compare, configuration, load, saved_tensors
from separatrix.attention.streaming.thread_guard import ThreadGuard
from separatrix.attention.streaming.token_checks import batch_indices, check_bound
from separatrix.checks import is_whole, positive
from separatrix.errors import ArgumentError

NORMS = ("entries", "order")


class TensorAttentionState:
    """A fixed-size summary of a token stream: append tokens, then attend with queries.

    Args:
        order: The order k; each token brings k - 1 keys and as many values.
        head_dim: The dimension d of queries and keys.
        value_dim: The dimension d_v of values.
        bound: The bound on queries and keys. With norm "entries" it bounds the magnitude of every entry, and scores are
            at most R = |scale| d bound^k; with norm "order" it bounds the l_k norm of every vector, and R = |scale|
            bound^k (Hoelder). **A token that exceeds the bound raises an error**, because the error bound would not
            hold for the other tokens.
        tolerance: The error allowed on every output entry, relative to the product of the largest magnitudes of the
            value sets so far. The rounding of the output to `dtype` is part of it: **a tolerance below the rounding
            error of the dtype raises an error**. The smallest positive number of the dtype is added to it, which
            matters only for float16.
        scale: The factor of every score; None is the papers' 1 / head_dim.
        norm: "entries" or "order": see `bound`.
        batch_shape: The leading dimensions of every tensor.
        dtype: The dtype of tokens and outputs; the state itself is in float64.
        device: The device of the state.

    Appending and attending are differentiable; `detach` cuts the graph.

    **Several threads may attend to one state at the same time, but only one thread may use it while it is modified.** A
    modification while another thread uses the state raises a `SeparatrixError`, and so does any use while another
    thread modifies it. `copy.copy` gives another thread a separate state, which shares memory with this one until
    either is changed.

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
                raise ArgumentError(name, expected=f"an integer >= {least}", got=repr(size))
        if norm not in NORMS:
            raise ArgumentError("norm", expected=f"one of {NORMS}", got=repr(norm))
        if dtype not in DTYPES:
            raise ArgumentError("dtype", expected="float64, float32, bfloat16 or float16", got=dtype)
        self.order, self.head_dim, self.value_dim = order, head_dim, value_dim
        self.bound, self.tolerance = positive("bound", bound), positive("tolerance", tolerance)
        if scale is not None and not (isinstance(scale, (int, float)) and math.isfinite(scale)):
            raise ArgumentError("scale", expected="a finite number, or None for 1 / head_dim", got=repr(scale))
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
        self.kernels: tuple[str, StreamKernels | None] = ("", None)  # the backend's name, and the kernels
        self.ledger = StreamLedger.empty(order - 1)

    def __getstate__(self) -> dict[str, object]:
        """The attributes of a copy: new lists, and shared sums, which each state copies before it modifies them."""
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

    def replace(self, states: list[Tensor], ledger: StreamLedger) -> None:
        """Replace the sums and the record of their tokens, without a call in between that a signal could interrupt."""
        self._states, self._shared, self.ledger = states, True, ledger

    @property
    def held_states(self) -> Sequence[Tensor]:
        """The sums of each set, for immediate use: appending a token may modify them in place."""
        return self._states

    def own_states(self) -> list[Tensor]:
        """The sums, for kernels that modify them in place; sums that are referenced elsewhere, as by an autograd graph,
        are copied first.
        """
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
        """The largest number of roundings of a token of each set."""
        with self._guard.reading:
            return tuple(self.ledger.roundings)

    @property
    def tokens(self) -> tuple[int, ...]:
        """The number of tokens appended to each set, including masked ones."""
        with self._guard.reading:
            return tuple(self.ledger.tokens)

    @property
    def nbytes(self) -> int:
        """The size of the state in bytes, which does not depend on the number of tokens."""
        return sum(z.nbytes for z in self._states)

    @property
    def certificate(self) -> Certificate:
        """The bound on the error of every output that `attend` returns now, for all queries within the bound."""
        with self._guard.reading:
            relative = relative_rounding(self.plan, self.ledger)
            return self.plan.certificate_of_all(relative, math.prod(self.ledger.largest), self.device)

    def append(
        self,
        keys: Tensor | Sequence[Tensor],
        values: Tensor | Sequence[Tensor],
        *,
        key_masks: Tensor | Sequence[Tensor | None] | None = None,
    ) -> None:
        """Add tokens: keys[m] (*batch_shape, L_m, d) and values[m] (*batch_shape, L_m, d_v); a bare tensor at order 2.

        All tokens are checked before any is added.

        Args:
            keys: The keys of each set.
            values: The values of each set.
            key_masks: For each set a bool tensor that broadcasts to (*batch_shape, L_m), or None, as in
                `tensor_attention`: **a token where it is False is not added**, and its key and value may be anything.
        """
        with self._guard.changing:
            append(self, keys, values, key_masks)

    def attend(self, query: Tensor) -> Tensor:
        """The outputs (*batch_shape, L_q, d_v) of queries (*batch_shape, L_q, d) over all tuples of tokens so far.

        If a set has no tokens, or all its tokens are masked, there is nothing to attend, and the output is zero.
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
        """Append tokens and return the output of each: causal attention to all tokens appended so far.

        Args:
            query: The queries (*batch_shape, L, d), one for each new token. A query attends to all earlier tokens and
                to the new tokens up to its own. Where s heads of queries share keys and values, (*batch_shape, s, L,
                d).
            keys: The L new keys of each set, as in `append`.
            values: The L new values of each set.
            key_masks: As in `append`: a token where it is False is never attended.

        Returns:
            The outputs, shaped like `query` except for the last dimension, d_v; zero for queries with nothing to
            attend.

        Raises:
            ArgumentError: A tensor is not as described above, or a token exceeds the bound. The state is unchanged.
            SeparatrixError: The rounding error would exceed the tolerance, in which case the state is unchanged; or the
                outputs overflow their dtype, which is known only after the tokens were appended.

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
        """Add the tokens of another state with the same plan and shape; the other state is unchanged."""
        if not isinstance(other, TensorAttentionState):
            raise ArgumentError("other", expected="a TensorAttentionState", got=type(other).__name__)
        with self._guard.changing, other._guard.reading:
            compare("other", configuration(self), configuration(other))
            compare("other", {"device": str(self.device)}, {"device": str(other.device)})
            check_sums_of(self, "other", other.states, other.ledger)
            ledger = copy(self.ledger)
            ledger.merge(other.ledger)
            if other.ledger.hidden is not None:
                ledger.hidden = other.ledger.hidden + self.hidden_counts()
            self.replace([a + b for a, b in zip(self.states, other.states, strict=True)], ledger)

    def reorder(self, indices: Tensor | Sequence[int]) -> None:
        """Reorder the batch, which is the first of the leading dimensions: sequence i becomes the sequence at
        `indices[i]`.

        Args:
            indices: Integers from 0 to the batch size - 1; an index may be repeated or left out, and their number is
                the new batch size. Beam search uses this to continue its best beams.

        Raises:
            ArgumentError: The state has no batch dimension, or an index is out of range.
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
        """Raise an error, because single tokens cannot be removed from a sum, unless `length` is the number of all
        tokens.

        Raises:
            ArgumentError: The length is not that of the tokens appended so far.
        """
        if any(count != length for count in self.ledger.tokens):
            raise ArgumentError(
                "length",
                expected=f"all {self.ledger.tokens[0]} tokens: tokens cannot be removed from sums",
                got=length,
            )

    def detach(self) -> None:
        """Detach the sums from the autograd graph: tokens that are appended later have gradients, earlier tokens have
        none.
        """
        with self._guard.changing:
            self.states = [z.detach() for z in self._states]

    def state_dict(self) -> dict[str, Tensor]:
        """Return the tensors to save, for example with safetensors: the sums, and everything that their certificate
        depends on.
        """
        with self._guard.reading:
            return saved_tensors(self)

    def load_state_dict(self, saved: Mapping[str, Tensor]) -> None:
        """Replace the tokens of this state by those that were saved.

        Args:
            saved: The result of `state_dict` of a state with the same arguments; the device may differ.

        Raises:
            ArgumentError: The saved state has other arguments, which the message names, or numbers that no tokens can
                have. This state is then unchanged.
        """
        with self._guard.changing:
            load(self, saved)

    def hidden_counts(self) -> Tensor:
        """The number of masked tokens of each set for each head, (order - 1, heads)."""
        if self.ledger.hidden is not None:
            return self.ledger.hidden
        return torch.zeros(self.order - 1, self.heads, dtype=torch.int64, device=self.device)

    def check_tokens(self, name: str, x: Tensor, width: int) -> None:
        shape: tuple[int | str, ...] = (*self.batch_shape, "length", width)
        check_tensor(name, x, of="state", dtype=self.dtype, device=self.device, shape=shape)

    def refuse_beyond_bound(self, name: str, x: Tensor) -> None:
        """Raise an `ArgumentError` that names the tensor and the token that exceeds the bound."""
        check_bound(name, x, self.bound, self.largest_token, self.norm, self.order)

    def flattened(self, x: Tensor) -> Tensor:
        return x.reshape(self.heads, *x.shape[-2:])
