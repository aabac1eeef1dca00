"""Theorem 1.4 of Alman and Song, at a fixed rank: what the near-linear algorithm does grows linearly in n.

Flops are counted by PyTorch as they are dispatched, and so are the bytes that are alive at once; those kept between the
pass over the keys and the pass over the queries are the ones that the backward pass is handed. Seconds are those that
the store records for cells that do nothing else: they are drawn, and no verdict rests on them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.flop_counter import FlopCounterMode

from separatrix.attention.near_linear.cost import Shape, exact_cost
from separatrix.attention.near_linear.live_bytes import LiveBytes

# Not by way of the package, which imports these when they are first asked for: a cell would be timed with that.
from separatrix.attention.operator import certified_attention, plan_attention, tensor_attention
from separatrix.claims.ledger import Finding, Found, Neighbour, Verdict, claim
from separatrix.lab.cell import Cell
from separatrix.lab.registry import experiment

_COMPARED = 2.0**27
"""Up to so many scores the output is compared with exact attention's, and exact attention is timed."""


def _inputs(n: int, d: int, order: int, seed: int) -> tuple[Tensor, list[Tensor], list[Tensor]]:
    """A query, k - 1 key sets and as many value sets, entries uniform in [-1, 1]."""
    generator = torch.Generator().manual_seed(seed)
    made = [2 * torch.rand(n, d, generator=generator, dtype=torch.float64) - 1 for _ in range(2 * order - 1)]
    return made[0], made[1:order], made[order:]


@experiment(version=5, name="kronecker.linear_growth")
def near_linear(n: int, d: int, order: int, tolerance: float, seed: int) -> dict[str, float | int | None]:
    """The polynomial method, counted: flops, bytes of its states, most bytes alive at once, certified error.

    Flops of planning, which are of order 2 alone and linear in n too, are counted apart.
    """
    query, keys, values = _inputs(n, d, order, seed)
    inputs = [x.requires_grad_() for x in (query, *keys, *values)]
    saved: dict[int, Tensor] = {}

    def note(x: Tensor) -> Tensor:
        saved[x.data_ptr()] = x
        return x

    with FlopCounterMode(display=False) as planning:
        plan_attention(query, keys, values, tolerance=tolerance, method="polynomial")
    with FlopCounterMode(display=False) as counter, LiveBytes(inputs) as live, saved_tensors_hooks(note, lambda x: x):
        result = certified_attention(query, keys, values, tolerance=tolerance, method="polynomial")
    given = {x.data_ptr() for x in (*inputs, result.output)}
    states = [x for place, x in saved.items() if place not in given and x.shape[-2:] == (result.plan.rank, d + 1)]
    error = None
    if float(n) ** order <= _COMPARED:
        with torch.no_grad():
            exact = tensor_attention(query, keys, values, method="exact")
            error = float((result.output - exact).abs().max())
    plan = result.plan
    return {
        "rank": plan.rank,
        "counted_flops": counter.get_total_flops() - planning.get_total_flops(),
        "planned_flops": int(plan.flops),
        "exact_flops": exact_cost(Shape(1, n, (n,) * (order - 1), d, d), True).flops,
        "state_bytes": sum(x.nbytes for x in states),
        "peak_bytes": live.peak - result.output.nbytes,
        "planned_bytes": int(plan.bytes),
        "certificate": result.certificate.total,
        "error": error,
    }


@experiment(version=1, name="kronecker.wall_time")
def attended(n: int, d: int, order: int, tolerance: float | None, seed: int) -> dict[str, float | str]:
    """Attention and no more, so that the seconds of the cell are its own; exact where there is no tolerance."""
    query, keys, values = _inputs(n, d, order, seed)
    if tolerance is None:
        return {"timed": "exact", "largest": float(tensor_attention(query, keys, values).abs().max())}
    result = certified_attention(query, keys, values, tolerance=tolerance, method="polynomial")
    return {"timed": "near-linear", "largest": float(result.output.abs().max())}


def _cells() -> Iterator[Cell]:
    for order in (2, 3, 4):
        for n in (128, 256, 512, 1024, 2048, 4096, 8192):
            yield near_linear.cell(seed=0, n=n, d=6, order=order, tolerance=2e-4)
        for n in (64, 128, 256, 512, 1024, 2048, 4096, 8192):
            yield attended.cell(seed=0, n=n, d=6, order=order, tolerance=3e-4)
            if float(n) ** order <= _COMPARED:
                yield attended.cell(seed=0, n=n, d=6, order=order, tolerance=None)


@claim(
    paper="kronecker",
    where="Theorem 1.4",
    part="linear growth",
    says="With bounded entries, Algorithm 1 approximates attention in time almost linear in $n$: at a given rank "
    "each step is a product with $n$ rows, or does not depend on $n$ at all.",
    cells=_cells,
    figures=("linear_growth",),
    neighbours=(
        Neighbour("the flops grow as $n^{1.01}$", {"power": 1.01}),
        Neighbour("the flops grow as $n^{0.99}$", {"power": 0.99}),
    ),
    history=(
        "Until 2026-11-17 the counted flops also had to equal those of the plan. They still do; but a comparison of "
        "our count with our plan says nothing about the theorem, and no longer decides anything.",
        "The tolerance was 3e-4 until the certificate covered gradients too: at order 4 this tolerance then takes "
        "another degree at n = 128 than at larger n, which says nothing about growth. It was changed to 2e-4 after "
        "this was seen.",
    ),
)
def linear_growth(found: Sequence[Found], power: float = 1.0) -> Finding:
    """PyTorch's count of the flops divided by n^power must not change with n; the error against exact attention."""
    found = [one for one in found if "counted_flops" in one.result]
    unequal = sum(one.result["counted_flops"] != one.result["planned_flops"] for one in found)
    slopes = {
        (one.parameters["order"], one.result["counted_flops"] / (one.parameters["n"] ** power * one.result["rank"]))
        for one in found
    }
    per_rank = {(one.parameters["order"], one.result["state_bytes"] / one.result["rank"]) for one in found}
    orders = {one.parameters["order"] for one in found}
    ranks = {(one.parameters["order"], one.result["rank"]) for one in found}
    states = sum(
        one.result["state_bytes"] != 8 * one.result["rank"] * (one.parameters["d"] + 1) * (one.parameters["order"] - 1)
        for one in found
    )
    held = max(one.result["peak_bytes"] / one.result["planned_bytes"] for one in found)
    late = sum(one.result["certificate"] > one.parameters["tolerance"] for one in found)
    compared = [one.result for one in found if one.result["error"] is not None]
    beyond = sum(one["error"] > one["certificate"] for one in compared)
    numbers: dict[str, float | str] = {
        "runs": len(found),
        "runs whose flops are not the plan's": unequal,
        "runs whose states are not 8 r (d + 1) (k - 1) bytes": states,
        "flops a token and rank, by order": ", ".join(f"{order}: {slope:g}" for order, slope in sorted(slopes)),
        "rank, by order": ", ".join(f"{order}: {rank}" for order, rank in sorted(ranks)),
        "most bytes alive at once / the plan's bound, largest": held,
        "most bytes alive at once beside inputs and output, by n at order 3": ", ".join(
            f"{one.parameters['n']}: {one.result['peak_bytes']:,}" for one in found if one.parameters["order"] == 3
        ),
        "runs beyond the tolerance": late,
        "runs whose error is beyond the certificate": f"{beyond} of {len(compared)}",
    }
    linear = len(slopes) == len(per_rank) == len(orders)
    if late or beyond or not linear:
        return Finding(Verdict.FAILS_AS_PRINTED, numbers)
    if len(ranks) > len(orders):
        return Finding(Verdict.UNDECIDED, numbers, "The rank changed with n, so the growth is not that of n alone.")
    return Finding(Verdict.HOLDS, numbers, "Neither the time per token nor the size of the states depends on n.")
