"""Theorem C.3 of Wang, Wei, Hsu and Lee: a transformer that selects without training, its error against its bound."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch

from separatrix.claims.ledger import Erratum, Finding, Found, claim, holds_if
from separatrix.claims.selection.misprint_pairs import ROUNDING, as_printed, compared
from separatrix.lab.cell import Cell
from separatrix.lab.registry import experiment
from separatrix.selection.construction import construct, overlaps
from separatrix.selection.encodings import near_orthogonal_encoding
from separatrix.selection.task import SparseTokenSelection, uniform_subsets


@experiment(version=1, name="selection.construction")
def constructed(
    T: int, q: int, d: int, width: int, threshold: float, epsilon: float, samples: int, seed: int
) -> dict[str, float]:
    """The transformer W = C W*, V = V* for `samples` subsets: its largest error on tokens of the unit ball, its bound.

    `scale` is our C, `printed_scale` the theorem's ceil(2 log(2T) / epsilon), `repaired_scale` its proof's own
    2 log(2T / epsilon). `proof_error` is the error at the repaired one, for the subsets with overlaps up to 1/2, which
    its last steps assume.
    """
    source = torch.Generator().manual_seed(seed)
    E = near_orthogonal_encoding(T, width, threshold=threshold, generator=source, dtype=torch.float64).E
    y = uniform_subsets(samples, T, q, source)
    X = SparseTokenSelection(T, q, d).batch(samples, generator=source, dtype=torch.float64).X
    X = X / X.norm(dim=2, keepdim=True)
    built = construct(E, y, d, epsilon=epsilon)
    error, bound = built.error(X, y), built.bound(X, y)
    repaired = 2 * math.log(2 * T / epsilon)
    built.transformer.set_ground_truth(repaired)
    near = overlaps(E, y).amax(1) <= 0.5
    return {
        "error": float(error.max()),
        "over_bound": float((error / bound).max()),
        "scale": built.scale,
        "printed_scale": math.ceil(2 * math.log(2 * T) / epsilon),
        "repaired_scale": repaired,
        "overlap": built.overlap,
        "proof_error": float(built.error(X, y)[near].max()),
        "proof_share": float(near.double().mean()),
    }


def _cells() -> Iterator[Cell]:
    for T, q, width in ((30, 2, 64), (200, 3, 170)):
        for epsilon in (0.3, 0.1, 0.03, 0.01, 1e-3, 1e-4):
            yield constructed.cell(seed=0, T=T, q=q, d=5, width=width, threshold=0.4, epsilon=epsilon, samples=400)


@claim(
    paper="selection",
    where="Theorem C.3",
    says="For every accuracy epsilon there is a one-layer transformer of width of order d + q log T that averages "
    "every subset of q tokens of the unit ball to within epsilon.",
    cells=_cells,
    figures=("construction_error",),
)
def theorem_c_3(found: Sequence[Found]) -> Finding:
    """No error above epsilon, nor above the bound of that very input; the scale it takes beside the printed one."""
    over = max(one.result["error"] / one.parameters["epsilon"] for one in found)
    bound = max(one.result["over_bound"] for one in found)
    proof = max(one.result["proof_error"] / one.parameters["epsilon"] for one in found)
    hardest = max(found, key=lambda one: one.result["printed_scale"] / one.result["scale"])
    numbers: dict[str, float | str] = {
        "largest error / epsilon": over,
        "largest error / bound": bound,
        "largest error / epsilon at the scale of the proof": proof,
        "least share of the subsets that the proof's overlaps cover": min(one.result["proof_share"] for one in found),
        "largest printed scale / ours": hardest.result["printed_scale"] / hardest.result["scale"],
    }
    held = over <= 1 and bound <= 1 + ROUNDING and proof <= 1
    note = "The statement leaves out that tokens have norm at most 1, which its last line uses."
    return holds_if(held, numbers, note)


PROOF = (
    Erratum(
        shown_by="lower bound of the softmax",
        printed="e^a / (q e^a + N e^{a/2}) >= 1/q - (T / q^2) e^{-a}.",
        right="1/q - (T / q^2) e^{-a/2}; N is T.",
        why="The quotient is 1 / (q + T e^{-a/2}), and 1 / (q + u) >= 1/q - u / q^2.",
    ),
    Erratum(
        shown_by="interval of the weights",
        printed="The weights of the q positions lie in [1/q, 1/q + epsilon / (2q)].",
        right="in [1/q - epsilon / (2q), 1/q].",
        why="A weight that q positions share cannot exceed 1/q.",
    ),
    Erratum(
        shown_by="scale",
        printed="a = ceil(2 log(2T) / epsilon) makes the lower bound 1/q - epsilon / (2q), for any epsilon.",
        right="a = 2 log(2T / epsilon).",
        why="T e^{-a/2} <= epsilon q / 2 is what is needed. The printed scale is too small for some epsilon above 1, "
        "and exponentially larger than needed for small ones.",
    ),
)


@experiment(version=1, name="selection.theorem_c3_proof")
def proof_steps(T: int, q: int, epsilon: float, seed: int) -> dict[str, list[float]]:
    """The proof's inequalities at overlaps of exactly 1/2, the most that it allows."""

    def weight(a: float) -> float:
        return 1 / (q + T * math.exp(-a / 2))

    a, printed = 2 * math.log(2 * T / epsilon), math.ceil(2 * math.log(2 * T) / epsilon)
    low, drop = weight(a), epsilon / (2 * q)
    return {
        "lower bound of the softmax": [
            1 / q - T / q**2 * math.exp(-a) - low,
            1 / q - T / q**2 * math.exp(-a / 2) - low,
        ],
        "interval of the weights": [1 / q - low, max(1 / q - drop - low, low - 1 / q)],
        "scale": [1 / q - drop - weight(printed), 1 / q - drop - low],
    }


def _proof_cells() -> Iterator[Cell]:
    for T, q, epsilon in ((50, 3, 0.1), (20, 2, 0.5), (200, 3, 1.0), (1_000_000, 2, 1.5)):
        yield proof_steps.cell(seed=0, T=T, q=q, epsilon=epsilon)


@claim(
    paper="selection",
    where="Theorem C.3",
    part="proof",
    says="The proof bounds the softmax weights inside and outside the subset, for overlaps up to 1/2.",
    cells=_proof_cells,
    errata=PROOF,
    neighbours=as_printed(PROOF),
)
def theorem_c_3_proof(found: Sequence[Found], misprint: str = "") -> Finding:
    return compared(found, PROOF, misprint=misprint)
