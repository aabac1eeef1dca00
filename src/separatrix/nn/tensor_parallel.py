"""The heads of one rank, where PyTorch's tensor parallelism has divided the projections of a layer between ranks.

`ColwiseParallel` divides the outputs of a projection, and so the heads, evenly and in order: rank r of p has the heads
r h / p, ..., (r + 1) h / p - 1. Everything between the projections is then computed for these heads alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor, nn

from separatrix.errors import ArgumentError

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh


def _mesh(projection: nn.Module) -> DeviceMesh | None:
    """The ranks that `ColwiseParallel` has divided a projection between; None if it has not.

    FSDP divides weights too, but has whole ones during a call. Beside tensor parallelism it adds its own dimensions to
    the mesh, in front of the last.
    """
    if not getattr(projection, "_distribute_module_applied", False):  # which PyTorch's parallel styles leave
        return None
    mesh: DeviceMesh = projection.weight.device_mesh  # type: ignore[assignment,union-attr]
    return mesh if mesh.ndim == 1 else mesh[(mesh.mesh_dim_names or ())[-1]]


def local_heads(name: str, heads: int, projection: nn.Module) -> int:
    """How many heads of a projection this rank computes: all of them without tensor parallelism.

    Raises:
        ArgumentError: The ranks cannot have equally many of them; `name` is the argument of the layer for `heads`.
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
