"""Figures 3 and 8 of Wang, Wei, Hsu and Lee: W and V of the small run, T = 10 and d = d_e = 20, as they turn.

The first d columns of W multiply x_query, which is zero (Section 3.1): they receive no gradient and keep their random
start. The others are the trained ones.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import torch

from separatrix.claims.ledger import Erratum, Finding, Found, Verdict, claim, holds_if
from separatrix.lab.registry import experiment
from separatrix.selection.settings import heat_map_settings
from separatrix.selection.training import train
from separatrix.selection.transformer import cosine, ground_truth


@experiment(version=1, name="selection.heat_maps")
def heat_maps(steps: int, seed: int) -> dict[str, object]:
    """W and V at steps 0, 100, 500 and the last; how near the trained columns are to the ground truth.

    `off_W`, `off_V`: the root mean square of the trained entries that the ground truth has at zero, over the mean of
    those that it has not. `moved`: how far the first d columns of W moved.
    """
    settings = dataclasses.replace(
        heat_map_settings(seed=seed),
        steps=steps,
        lr=((0, 0.3), (steps // 2, 0.1)),
        snapshots=(0, 100, 500, steps),
        validate_every=max(1, steps // 100),
    )
    kept = [record for record in train(settings) if record.weights is not None or record.stopped]
    weights = [record.weights for record in kept if record.weights is not None]
    W, V = (torch.stack([pair[at] for pair in weights]) for at in (0, 1))
    d = settings.d
    W_star, V_star = ground_truth(d, settings.width)

    def off(matrix: torch.Tensor, truth: torch.Tensor) -> float:
        return float(matrix[truth == 0].square().mean().sqrt() / matrix[truth != 0].mean())

    return {
        "step": [record.step for record in kept],
        "W": W,
        "V": V,
        "cosine_W": [cosine(one[:, d:], W_star[:, d:]) for one in W],
        "cosine_V": [cosine(one, V_star) for one in V],
        "off_W": [off(one[:, d:], W_star[:, d:]) for one in W],
        "off_V": [off(one, V_star) for one in V],
        "moved": float((W[-1, :, :d] - W[0, :, :d]).abs().max()),
        "untrained": float(W[-1, :, :d].square().mean().sqrt()),
        "stopped": kept[-1].stopped,
    }


_QUERY = Erratum(
    printed="Figures 3 and 8: all entries of W outside the block that attends to encodings converge to near 0.",
    right="All but those of the first d columns, which keep their random start.",
    why="These columns multiply x_query, which is zero, and have no gradient.",
    shown_by="the first d columns keep their random start",
)


def _judged(found: Sequence[Found], least: float, most: float) -> Finding:
    """At the end the cosines are above `least` and stray entries below `most` of the others, less than before."""
    result = found[0].result
    numbers: dict[str, float | str] = {
        "cosine of the trained columns of W to the truth": result["cosine_W"][-1],
        "cosine of V to the truth": result["cosine_V"][-1],
        "other entries of W over its diagonal": result["off_W"][-1],
        "other entries of V over its diagonal": result["off_V"][-1],
        "the first d columns of W moved by": result["moved"],
        "their root mean square": result["untrained"],
    }
    if result["stopped"]:
        return Finding(Verdict.UNDECIDED, numbers, result["stopped"])
    near = min(result["cosine_W"][-1], result["cosine_V"][-1]) > least
    clean = all(result[name][-1] < min(most, abs(result[name][0])) for name in ("off_W", "off_V"))
    shows = {_QUERY.shown_by: result["moved"] == 0 < result["untrained"]}
    return holds_if(near and clean, numbers, shows=shows)


@claim(
    paper="selection",
    where="Figure 8",
    part="first 1,000 steps",
    says="In the small run the position block of W and the token block of V turn to the identity, and all other "
    "entries go to zero; here over 1,000 steps.",
    cells=lambda: [heat_maps.cell(seed=0, steps=1000)],
    figures=("weight_heat_maps",),
    errata=(_QUERY,),
)
def figure_8_start(found: Sequence[Found]) -> Finding:
    return _judged(found, 0.95, 0.2)


@claim(
    paper="selection",
    where="Figure 8",
    says="In the small run the position block of W and the token block of V turn to the identity, and all other "
    "entries go to zero, over 50,000 steps (Figure 3 has the first and the last).",
    profile="full",
    cells=lambda: [heat_maps.cell(seed=0, steps=50_000)],
    figures=("weight_heat_maps",),
    errata=(_QUERY,),
)
def figure_8(found: Sequence[Found]) -> Finding:
    return _judged(found, 0.99, 0.05)
