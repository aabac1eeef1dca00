"""The heads of a rank, if PyTorch's tensor parallelism has sharded the projections of a layer.

`ColwiseParallel` shards the outputs of a projection, and so the heads, evenly and in order: rank r of p has the heads
r h / p, ..., (r + 1) h / p - 1. Everything between the projections is then computed only for these heads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor, nn

from separatrix.errors import ArgumentError

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh


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
