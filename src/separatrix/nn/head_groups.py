"""Heads of different orders in one layer: which key sets they have, and attention group by group.

The orders of the heads ascend, so the heads of one order are contiguous, and the last heads are those with the m-th key
set: ``k_proj[m]`` and ``v_proj[m]`` project only for them.

Under tensor parallelism a rank has some of the heads: PyTorch's `ColwiseParallel` shards the outputs of a projection,
and so the heads, evenly and in order, so that rank r of p has the heads r h / p, ..., (r + 1) h / p - 1. Everything
between the projections is then computed only for these heads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor, nn

from separatrix.checks import whole
from separatrix.errors import ArgumentError

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

    from separatrix.nn.tensor_attention import TensorAttention


Entry = TypeVar("Entry")


def orders_of_heads(order: int | Sequence[int], num_heads: int) -> tuple[int, ...]:
    """The order of each head, ascending, from one order for all heads or a list with one for each.

    Raises:
        ArgumentError: The list has another length, an order is below 2, or the orders do not ascend.

    Example:
        >>> orders_of_heads(3, 2), orders_of_heads([2, 2, 3], 3)
        ((3, 3), (2, 2, 3))
    """
    if not isinstance(order, (list, tuple)):
        return (whole("order", order, low=2),) * num_heads
    if len(order) != num_heads:
        raise ArgumentError("order", expected=f"one integer, or {num_heads}, one for each head", got=list(order))
    orders = tuple(whole(f"order[{head}]", entry, low=2) for head, entry in enumerate(order))
    if list(orders) != sorted(orders):
        raise ArgumentError("order", expected="the orders of the heads in ascending order", got=list(orders))
    return orders


def kv_heads_of_sets(orders: Sequence[int], num_kv_heads: int) -> list[int]:
    """The number of heads of keys and values in each key set.

    Args:
        orders: The orders of the heads of queries.
        num_kv_heads: The number of heads of keys and values in the first set, which every head has.

    Raises:
        ArgumentError: Heads of different orders would share their keys.

    Example:
        >>> kv_heads_of_sets((2, 2, 3, 3), 2), kv_heads_of_sets((3, 3), 2)
        ([2, 1], [2, 2])
    """
    shared = len(orders) // num_kv_heads
    for order in set(orders):
        if orders.count(order) % shared:
            expected = f"a number for which the heads of order {order} do not share keys with heads of another order"
            raise ArgumentError("num_kv_heads", expected=expected, got=num_kv_heads)
    return [sum(order > m + 1 for order in orders) // shared for m in range(max(orders) - 1)]


@dataclass(frozen=True)
class HeadGroup:
    """The heads of one order.

    Attributes:
        order: The order of the heads.
        heads: The slice of the layer's query heads that are in the group.
        kv_heads: For each key set of the group, the slice of the set's heads of keys and values.
    """

    order: int
    heads: slice
    kv_heads: tuple[slice, ...]

    def own(self, entries: Sequence[Entry] | None) -> list[Entry] | None:
        """The entries for the group's key sets, from a list with an entry for each key set of the layer."""
        return None if entries is None else [*entries[: self.order - 1]]

    def part(self, q: Tensor, *sets: Sequence[Tensor]) -> tuple[Tensor, list[list[Tensor]]]:
        """The group's heads of queries (..., heads, L, d), and of lists of keys or values."""
        parts = [[x[..., heads, :, :] for x, heads in zip(tensors, self.kv_heads, strict=False)] for tensors in sets]
        return q[..., self.heads, :, :], parts


def head_groups(layer: TensorAttention) -> Iterator[HeadGroup]:
    """The groups of heads of a layer whose heads have different orders, from the lowest order on."""
    orders = layer.orders
    of_sets = kv_heads_of_sets(orders, layer.num_kv_heads)
    shared = layer.num_heads // layer.num_kv_heads
    for order in sorted(set(orders)):
        start, stop = orders.index(order), orders.index(order) + orders.count(order)
        missing = [layer.num_kv_heads - heads for heads in of_sets[: order - 1]]
        kv_heads = tuple(slice(start // shared - skipped, stop // shared - skipped) for skipped in missing)
        yield HeadGroup(order, slice(start, stop), kv_heads)


def join_groups(parts: Sequence[tuple[Tensor, Sequence[Tensor]]]) -> tuple[Tensor, list[Tensor]]:
    """Join the queries and keys of the groups to those of all heads; the inverse of `HeadGroup.part`."""
    sets = [[keys[m] for _, keys in parts if len(keys) > m] for m in range(max(len(keys) for _, keys in parts))]
    return torch.cat([q for q, _ in parts], -3), [torch.cat(keys, -3) for keys in sets]


def options_of(group: HeadGroup, options: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call for a group: those with an entry for each key set have the group's entries."""
    return {
        name: group.own(value) if name in ("windows", "key_masks", "key_starts") else value
        for name, value in options.items()
    }


def _mesh(projection: nn.Module) -> DeviceMesh | None:
    """The device mesh over which `ColwiseParallel` has sharded a projection; None if it has not.

    FSDP shards weights too, but gathers them during a call. With tensor parallelism it adds its own dimensions to the
    mesh, before the last.
    """
    if not getattr(projection, "_distribute_module_applied", False):  # set by PyTorch's parallel styles
        return None
    mesh: DeviceMesh = projection.weight.device_mesh  # type: ignore[assignment,union-attr]
    return mesh if mesh.ndim == 1 else mesh[(mesh.mesh_dim_names or ())[-1]]


def local_heads(name: str, heads: int, projection: nn.Module) -> int:
    """The number of heads of a projection on this rank: all heads without tensor parallelism.

    Raises:
        ArgumentError: The heads cannot be divided evenly between the ranks; `name` is the layer's argument for `heads`.
    """
    mesh = _mesh(projection)
    if mesh is None:
        return heads
    if heads % mesh.size():
        expected = f"a multiple of {mesh.size()}, the number of ranks that share the heads"
        raise ArgumentError(name, expected=expected, got=heads)
    return heads // mesh.size()


def local_part(x: Tensor, projection: nn.Module) -> Tensor:
    """The entries of x (heads,) for the heads of this rank; the gradients of all entries reach every rank."""
    mesh = _mesh(projection)
    if mesh is None:
        return x
    from torch.distributed.tensor import DTensor, Replicate, Shard

    whole = x if isinstance(x, DTensor) else DTensor.from_local(x, mesh, [Replicate()], run_check=False)
    return whole.redistribute(placements=[Shard(0)]).to_local()
