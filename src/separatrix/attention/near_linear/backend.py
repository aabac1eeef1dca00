"""The backends of near-linear attention: the interface that each of them implements, and the rule that chooses one.

A backend multiplies monomials with values and with sums. Everything else is the same for all: coordinates, chunks of
tokens, the passes over a call (`sums`, `causal`), certificates. To add a backend, write a module with the names of
`NearLinearBackend` and insert it into `BACKENDS` before the backends that are slower on its device.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

import torch
from torch import Tensor

from separatrix.attention.arithmetic.rounding import Summing
from separatrix.attention.call import Call
from separatrix.attention.near_linear import native
from separatrix.attention.near_linear import torch as in_pytorch
from separatrix.attention.near_linear.approximation.monomials import IndexSet
from separatrix.attention.near_linear.cost import chunk_tokens
from separatrix.attention.near_linear.native import NativePass
from separatrix.attention.near_linear.triton import backend as triton

if TYPE_CHECKING:
    from separatrix.attention.near_linear.sums import Expansion

Scanned = tuple[Tensor, Tensor, list[Tensor]]
"""The sums (H, c, d_v + 1) of c tokens, their moments (H, c, 1 + columns of squares), and the states after them."""
ScanGradients = tuple[Tensor, list[Tensor], list[Tensor], list[Tensor]]
"""The gradients of the queries' and the keys' coordinates, of values and ones, and of the states before the tokens."""


class StreamPlan(NamedTuple):
    """The polynomial and the sizes of a stream.

    Attributes:
        index_set: The monomials.
        coefficients: The coefficients (rank,) of the monomials, on the device of the states.
        factors: The factors of the entries of the queries, and of the keys of each set.
        heads: The number of heads.
        value_dim: The dimension of the values.
        most: An upper bound on the entries of a token, or on its norm.
        norm: The order of the norm that `most` bounds; 0 if it bounds the entries.
    """

    index_set: IndexSet
    coefficients: Tensor
    factors: Sequence[float]
    heads: int
    value_dim: int
    most: float
    norm: int


class StreamKernels(Protocol):
    """Appends a few tokens to the states of a stream, and attends to the states with a few queries, all heads in one
    call."""

    ONE_BY_ONE: bool
    """Whether causal attention of a few tokens is faster token by token."""

    def append(
        self, states: Sequence[Tensor], keys: Sequence[Tensor], values: Sequence[Tensor], checked: bool
    ) -> list[float] | None:
        """Add tokens to contiguous states, in place; return the largest magnitude of the values of each set.

        Return None, and add nothing, if a value is not finite, or if a token may exceed the bound and was not
        `checked` before.
        """

    def attend(self, states: Sequence[Tensor], query: Tensor, checked: bool) -> tuple[Tensor, float] | None:
        """The outputs of queries, and the largest magnitude of an output before it was rounded.

        None if a query may exceed the bound and was not `checked` before.
        """


class NearLinearBackend(Protocol):
    """A module or an object with these attributes. H is the number of heads, d' the number of coordinates, c the number
    of columns.

    The products have the form B(x; M, W) = sum_n sum_alpha x_n^alpha <M_alpha, W_n>, with coordinates x (H, d', n),
    columns W (H, c, n) and M (H, rank, c), all in one dtype.
    """

    NAME: str
    TOKENS_OF_A_LANE: int
    """The largest number of tokens of a chunk whose monomials are added up in float32, before float64."""

    def takes(self, tensors: Sequence[Tensor], sets: int, columns: int) -> bool:
        """Whether the backend supports these tensors, for this number of key sets and columns."""

    def add(self, index_set: IndexSet, state: Tensor, x: Tensor, W: Tensor) -> None:
        """Add dB/dM to a state (H, rank, c) in float64, in place."""

    def sums(self, index_set: IndexSet, x: Tensor, M: Tensor) -> Tensor:
        """dB/dW (H, c, n)."""

    def gradient(self, index_set: IndexSet, x: Tensor, M: Tensor, W: Tensor) -> tuple[Tensor, Tensor]:
        """dB/dx (H, d', n) and dB/dW (H, c, n)."""

    def one_pass(self, expansion: Expansion, x: Tensor, m: int, values: Tensor) -> NativePass | None:
        """A pass over the tokens (H, L, d) of set m in place; None if they must be split into chunks."""

    def scan_tokens(self, heads: int, rank: int, columns: int, sets: int, is_backward: bool) -> int:
        """The number of tokens in a chunk of the causal scan, or of its backward pass."""

    def scan_summing(self, call: Call, rank: int) -> Summing:
        """The summation of the causal scan over tokens."""

    def scan(self, expansion: Expansion, query: Tensor, x: list[Tensor], W: list[Tensor], Z: list[Tensor]) -> Scanned:
        """Causal attention over a chunk of c tokens, in float64.

        Args:
            expansion: The polynomial.
            query: The coordinates (H, d', c) of the queries.
            x: The coordinates (H, d', c) of each key set.
            W: The values, ones and squares (H, columns, c) of each key set, zero for masked tokens.
            Z: The states (H, rank, columns) of each key set before these tokens.
        """

    def scan_keys(self, expansion: Expansion, x: list[Tensor], W: list[Tensor], Z: list[Tensor]) -> list[Tensor]:
        """The states after c tokens."""

    def scan_backward(
        self,
        expansion: Expansion,
        query: Tensor,
        x: list[Tensor],
        W: list[Tensor],
        Z: list[Tensor],
        grad: Tensor,
        grad_Z: list[Tensor],
    ) -> ScanGradients:
        """The gradients of `scan`, from the gradients of its sums and of the states after the tokens."""

    def stream_kernels(self, plan: StreamPlan) -> StreamKernels | None:
        """The kernels for a few tokens of a stream; None if the backend has none."""


BACKENDS: tuple[NearLinearBackend, ...] = (native, triton, in_pytorch)
"""The backends, from the first choice to the last; plain PyTorch supports every call."""


def near_linear_backend(tensors: Sequence[Tensor], sets: int, value_dim: int) -> NearLinearBackend:
    """The backend for these tensors; it depends only on their device, the sizes and the installed packages.

    An output, a denominator and a moment take two columns more than the dimension of the values.
    """
    for backend in BACKENDS[:-1]:
        if backend.takes(tensors, sets, value_dim + 2):
            return backend
    return BACKENDS[-1]


def backend_of(call: Call, weighted: int = 0) -> NearLinearBackend:
    """The backend that computes a call, given the number of columns of squared deviations beside the values."""
    return near_linear_backend(call.tensors, len(call.keys), call.values[0].shape[2] + weighted)


def summing(backend: NearLinearBackend, call: Call, rank: int, dtype: torch.dtype) -> Summing:
    """The summation over the tokens of a call: in chunks, with monomials in `dtype`, or by the causal scan."""
    if call.positions.is_causal:
        return backend.scan_summing(call, rank)
    chunk = chunk_tokens(call.query.shape[0], rank, dtype == torch.float64)
    return Summing(min(chunk, backend.TOKENS_OF_A_LANE) if dtype == torch.float32 else chunk, chunk)
