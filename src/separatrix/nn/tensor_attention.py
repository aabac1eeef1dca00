"""Multi-head attention of any order, exact, and the one constructor of both layers."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NoReturn, Self

import torch
from torch import Tensor

from separatrix.attention.certificate.output import Certificate
from separatrix.attention.streaming.bounded_plan import BoundedPlan
from separatrix.checks import is_number, positive
from separatrix.errors import ArgumentError
from separatrix.nn.decoding import Decoding
from separatrix.nn.projections import check_integer, parameter_of, refuse
from separatrix.nn.tracing import refuse_torchscript, trace_as_leaf


class TensorAttention(Decoding):
    """Multi-head attention of order k: `torch.nn.MultiheadAttention` with k - 1 key sets and k - 1 value sets.

    Args:
        embed_dim: As in `nn.MultiheadAttention`.
        num_heads: As in `nn.MultiheadAttention`; each head has head_dim = embed_dim / num_heads.
        order: k >= 2. Order 2 is ordinary attention.
        kdim: The width of the key input, embed_dim by default. All k - 1 key sets are projections of one key input by
            different weights.
        vdim: The width of the value input, embed_dim by default. All k - 1 value sets are projections of it.
        bias: Whether the projections have biases.
        batch_first: Inputs and outputs are (batch, length, width), else (length, batch, width).
        scale: The factor of the scores; **None is the papers' 1 / head_dim**, where `nn.MultiheadAttention` has
            1 / sqrt(head_dim).
        windows: How far back each key set is seen (see `tensor_attention`): one number for all, or one for each set.
        method: The `method` of `tensor_attention`.
        num_kv_heads: How many heads of keys and values there are, num_heads by default. Each serves num_heads /
            num_kv_heads consecutive heads of queries, as with ``enable_gqa`` in `tensor_attention`; 1 is known as
            multi-query attention.
        rotary: None, or the base of rotary positions, 10000 for one: scores then depend on the distances from a query
            to its keys (see `nn.rotary`). Keys are at the positions 0, 1, ..., and queries from `query_offset` on.
        bound: None, or the number that no score can exceed: the constructor then makes a `BoundedTensorAttention`.
        tolerance: None, or, for a layer with a bound, the error that near-linear attention may have.
        dropout: 0. Any other number is refused: the weights, which `nn.MultiheadAttention` drops, are never held.
        add_bias_kv: False. True is refused: there is no learned key and value beside those of the tokens.
        add_zero_attn: False. True is refused, for the same reason.
        generator: Draws the first weights; None is PyTorch's global generator, as in any `torch.nn` layer.
        device: Where the weights are made.
        dtype: The type of the weights.

    Differences from `nn.MultiheadAttention`, all on purpose:

    - **The call returns the output alone, not a pair**: the weights would be length^(k-1) numbers a query. In
      `nn.TransformerEncoderLayer` and wherever a pair is expected, use `MultiheadTensorAttention`.
    - `batch_first` is True by default.
    - What needs the weights, which are never held, is refused by name: `dropout`, `need_weights` and an `attn_mask`.
    - `is_causal=True` masks; it is not a hint about a mask also given.
    - A query whose keys are all padding gives the output bias, not NaN.
    - The projections are `nn.Linear` modules (``q_proj``, ``k_proj.m``, ``v_proj.m``, ``out_proj``), not packed.

    **At the start** every weight is Xavier-uniform and every bias zero, so inputs of unit variance give q, k_m and v_m
    of unit variance. A coordinate of q * k_1 * ... * k_{k-1} then has variance 1 at any order (with tails that grow
    heavier: its fourth moment is about 3^k), and the score, a sum of head_dim of them, standard deviation
    scale * sqrt(head_dim): d^(-1/2) by default, an almost uniform attention, and 1 with scale = d^(-1/2), at every
    order. An almost uniform attention multiplies k - 1 averages over n tokens, each of size n^(-1/2) when tokens are
    independent: expect first outputs of size n^(-(k-1)/2).

    **The weights remember what they mean**: a state dict holds the order, the heads, the scale, the bound and the
    tolerance too, as a tensor, and is refused by a layer that differs in any but the tolerance.

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
    """

    __signature__: ClassVar[inspect.Signature]
    in_proj_bias: ClassVar[None] = None
    """Keeps PyTorch's encoder layers from their fused kernel, so that they call the layer, which refuses them."""

    def __new__(cls, *_: Any, bound: float | None = None, **__: Any) -> Self:
        if cls is TensorAttention and bound is not None:
            from separatrix.nn.bounded import BoundedTensorAttention  # which is made from this class

            return super().__new__(BoundedTensorAttention)  # type: ignore[return-value]
        return super().__new__(cls)

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
        num_kv_heads: int | None = None,
        rotary: float | None = None,
        bound: float | None = None,
        tolerance: float | None = None,
        dropout: float = 0.0,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        generator: torch.Generator | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        refuse("dropout", dropout, 0, "the weights are never held; drop out of the output instead")
        refuse("add_bias_kv", add_bias_kv, False, "append a token to key and value instead")
        refuse("add_zero_attn", add_zero_attn, False, "append a token to key and value instead")
        super().__init__(embed_dim, num_heads, order, kdim, vdim, bias, batch_first, num_kv_heads, device, dtype)
        if scale is not None and not (is_number(scale) and math.isfinite(scale)):
            raise ArgumentError("scale", expected="None or a finite number", got=scale)
        self.scale = scale
        self.windows = _one_a_set(windows, order)
        self.method = method
        self.bound, self.tolerance = bound, tolerance
        self.rotary = None if rotary is None else positive("rotary", rotary)
        if rotary is not None and self.head_dim % 2:
            raise ArgumentError("rotary", expected=f"None for an odd head_dim, {self.head_dim}", got=rotary)
        self._check_bounds()
        self.reset_parameters(generator)

    def _check_bounds(self) -> None:
        if self.tolerance is not None:
            raise ArgumentError("tolerance", expected="None for a layer without a bound", got=self.tolerance)

    @property
    def plan(self) -> BoundedPlan | None:
        """The polynomial that keeps the tolerance in the type the layer has now; None if it computes exactly."""
        return None

    def config(self) -> dict[str, object]:
        """The arguments that make this layer, but for its device and the type of its weights: numbers, names, lists.

        They can be written as JSON; `from_config` makes a layer of them, whose weights are drawn anew.

        Example:
            >>> config = TensorAttention(8, 2, windows=4, num_kv_heads=1).config()
            >>> config["windows"], config["num_kv_heads"], TensorAttention.from_config(config).config() == config
            ([4, 4], 1, True)
        """
        names = ("embed_dim", "num_heads", "order", "kdim", "vdim", "batch_first", "scale", "method")
        more = ("num_kv_heads", "rotary", "bound", "tolerance")
        found: dict[str, object] = {name: getattr(self, name) for name in (*names, *more)}
        windows = None if self.windows is None else list(self.windows)
        return found | {"bias": parameter_of(self.q_proj, "bias") is not None, "windows": windows}

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
            config: What `config` gave. A name that is left out has its default.
            generator: As in the constructor.
            device: As in the constructor.
            dtype: As in the constructor.

        Raises:
            ArgumentError: A name is none of the layer's, or what it stands for is refused by the constructor.
        """
        if not isinstance(config, Mapping):
            raise ArgumentError("config", expected="a mapping from names to values", got=type(config).__name__)
        known = [name for name in _ARGUMENTS if name not in ("self", "generator", "device", "dtype")]
        for name in config:
            if name not in known:
                raise ArgumentError("config", expected=f"names out of {known}", got=repr(name))
        for name in ("embed_dim", "num_heads"):
            if name not in config:
                raise ArgumentError("config", expected=f"an entry {name!r}", got=f"{sorted(config)}")
        return cls(**config, generator=generator, device=device, dtype=dtype)

    def _meaning(self) -> dict[str, object]:
        scale = 1 / self.head_dim if self.scale is None and self.bound is None else self.scale
        found: dict[str, object] = {"order": self.order, "num_heads": self.num_heads, "scale": scale}
        return found | {"rotary": self.rotary, "bound": self.bound, "tolerance": self.tolerance}

    def extra_repr(self) -> str:
        usual: dict[str, object] = {"kdim": self.embed_dim, "vdim": self.embed_dim}
        usual |= {"batch_first": True, "scale": None, "windows": None, "method": "auto"}
        usual |= {"num_kv_heads": self.num_heads, "rotary": None, "bound": None, "tolerance": None}
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
        need_weights: None = None,
        attn_mask: Tensor | None = None,
    ) -> Tensor:
        """The attention of `query` to `key` and `value`, as one tensor shaped like `query`.

        Args:
            query: (batch, L, embed_dim), or (L, embed_dim) without a batch. The batch may have several dimensions:
                (..., L, embed_dim), or (L, ..., embed_dim) without `batch_first`.
            key: (batch, S, kdim) or (S, kdim), with the batch of `query`; None for `query`.
            value: (batch, S, vdim) or (S, vdim); None for `key`.
            key_padding_mask: A bool tensor, (batch, S) or (S,), or (..., S) for a batch of several dimensions. **True
                means: ignore this key**, as in `nn.MultiheadAttention`; the `key_masks` of `tensor_attention` mean the
                opposite. It holds for every key set.
            is_causal: Whether query i attends only keys with j_m <= i + query_offset.
            query_offset: The position of the first query among the keys; without an offset, a causal call needs L = S.
            need_weights: None. True and False are refused, because a caller who passes either expects a pair of output
                and weights: `MultiheadTensorAttention` returns one.
            attn_mask: None. A mask of pairs of query and key is refused: `is_causal`, `windows` and `key_padding_mask`
                say what may be attended.
        """
        arguments: dict[str, Any] = {"query": query, "key": key, "value": value, "key_padding_mask": key_padding_mask}
        node = trace_as_leaf(self, arguments | {"is_causal": is_causal, "query_offset": query_offset})
        if node is not None:
            return node  # type: ignore[no-any-return]
        refuse("need_weights", need_weights, None, "the layer returns no pair; MultiheadTensorAttention does")
        refuse("attn_mask", attn_mask, None, "use is_causal, windows or key_padding_mask")
        q, keys, values, masks = self.inputs(query, key, value, key_padding_mask, is_causal, query_offset)
        return self.joined(self._attend(q, keys, values, masks, is_causal, query_offset))

    def _attend(
        self,
        q: Tensor,
        keys: list[Tensor],
        values: list[Tensor],
        masks: list[Tensor] | None,
        is_causal: bool,
        query_offset: int,
    ) -> Tensor:
        """The outputs of the heads, (..., num_heads, L, head_dim)."""
        q, keys = self._placed(q, keys, query_offset, 0)
        return self._exact(q, keys, values, masks, is_causal, query_offset, self.windows)

    def __prepare_scriptable__(self) -> NoReturn:
        refuse_torchscript("torch.jit.script")

    def certificate(self, *_: Any, **__: Any) -> Certificate:
        """A bound on the error of near-linear attention: see `BoundedTensorAttention.certificate`."""
        raise self._without_tolerance("certificate")


# Tools that show the arguments of a class look at `__new__` first, which only passes them on.
_ARGUMENTS = inspect.signature(TensorAttention.__init__).parameters
TensorAttention.__signature__ = inspect.Signature([_ARGUMENTS[name] for name in _ARGUMENTS if name != "self"])


def _one_a_set(windows: int | Sequence[int | None] | None, order: int) -> tuple[int | None, ...] | None:
    if windows is None:
        return None
    if isinstance(windows, (list, tuple)):
        if len(windows) != order - 1:
            raise ArgumentError("windows", expected=f"{order - 1} entries, one for each key set", got=windows)
        for m, window in enumerate(windows):
            if window is not None:
                check_integer(f"windows[{m}]", window, 1)
        return tuple(windows)
    check_integer("windows", windows, 1)
    return (windows,) * (order - 1)  # type: ignore[return-value]
