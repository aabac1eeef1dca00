"""Exact attention of the heads of a layer, with their positions."""

from __future__ import annotations

from torch import Tensor

from separatrix.attention.operator import tensor_attention
from separatrix.nn.projections import Projections
from separatrix.nn.rotary_positions import rotary as rotary_positions


class ExactHeads(Projections):
    """Projections whose heads attend exactly; the attributes are the arguments of `TensorAttention`."""

    scale: float | None
    windows: tuple[int | None, ...] | None
    method: str
    rotary: float | None

    @property
    def _factor(self) -> float | None:
        """The factor of the scores in exact attention."""
        return self.scale

    def _placed(self, q: Tensor, keys: list[Tensor], query_start: int, key_start: int) -> tuple[Tensor, list[Tensor]]:
        """Queries and keys with their positions, if the layer has rotary ones."""
        if self.rotary is None:
            return q, keys
        query = rotary_positions(q, 0, self.order, start=query_start, base=self.rotary)
        placed = [
            rotary_positions(key, m, self.order, start=key_start, base=self.rotary) for m, key in enumerate(keys, 1)
        ]
        return query, placed

    def _exact(
        self,
        q: Tensor,
        keys: list[Tensor],
        values: list[Tensor],
        masks: list[Tensor] | None,
        is_causal: bool,
        query_offset: int,
        windows: tuple[int | None, ...] | None,
    ) -> Tensor:
        """The outputs of the heads by exact attention, (..., num_heads, L, head_dim)."""
        return tensor_attention(
            q,
            keys,
            values,
            is_causal=is_causal,
            query_offset=query_offset,
            key_masks=masks,
            windows=windows,
            scale=self._factor,
            enable_gqa=self.num_kv_heads < self.num_heads,
            method=self.method,
        )
