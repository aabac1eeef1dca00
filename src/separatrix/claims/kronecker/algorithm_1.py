"""Algorithm 1 of Alman and Song, line by line, beside the library's own polynomial method and exact attention."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch.utils.flop_counter import FlopCounterMode

import separatrix as sx
from separatrix.attention.reference import column_kronecker
from separatrix.claims.kronecker.lemma_e_2 import degree_of, factors, inputs, powers_of_exp
from separatrix.claims.ledger import CellResult, Finding, Neighbour, claim, holds_if
from separatrix.lab.cell import Cell
from separatrix.lab.registry import experiment


@experiment(version=1, name="kronecker.algorithm_1")
def line_by_line(n: int, d: int, B: float, epsilon: float, corner: bool, seed: int) -> dict[str, float | int]:
    """Compare the output T of Algorithm 1 with exact attention, and its steps with explicitly formed products.

    Steps 2 and 4 are computed by Lemma C.3, as the proof of Theorem E.3 says, and a second time with all n^2 rows of
    U_2 (x) U_3. `unnormalised` and `halved` are the errors of two wrong algorithms: one omits Step 3, and one sums w
    over the first key set only.
    """
    Q, K1, K2, V1, V2 = inputs(n, d, B, corner, 5, seed)
    (U1, U2, U3), _, _ = factors((Q / d, K1, K2), powers_of_exp(B**3, degree_of(B, epsilon)))
    with FlopCounterMode(display=False) as counter:
        w = U1 @ (U2.sum(0) * U3.sum(0)).unsqueeze(1)
        inner = (U2.mT @ V1) * (U3.mT @ V2)
        T = (U1 @ inner) / w
    rows = column_kronecker(U2, U3)
    exact = sx.tensor_attention(Q, [K1, K2], [V1, V2])
    ours = sx.certified_attention(Q, [K1, K2], [V1, V2], tolerance=epsilon, method="polynomial").output
    by_hand = rows.mT @ column_kronecker(V1, V2)
    ones = torch.ones(n * n, 1, dtype=w.dtype)
    return {
        "rank": U1.shape[1],
        "error": float((T - exact).abs().max()),
        "library": float((ours - exact).abs().max()),
        "step_2": float((w - U1 @ (rows.mT @ ones)).abs().max() / w.abs().max()),
        "step_4": float((inner - by_hand).abs().max() / by_hand.abs().max()),
        "unnormalised": float((U1 @ inner - exact).abs().max()),
        "halved": float(((U1 @ inner) / (U1 @ U2.sum(0).unsqueeze(1)) - exact).abs().max()),
        "flops": counter.get_total_flops(),
    }


def _cells() -> Iterator[Cell]:
    for n, d, B, epsilon in ((5, 1, 1.01, 0.09), (12, 2, 1.05, 1e-3), (9, 3, 1.3, 1e-2), (24, 2, 1.4, 1e-5)):
        for corner in (False, True):
            yield line_by_line.cell(seed=0, n=n, d=d, B=B, epsilon=epsilon, corner=corner)
    for n in (48, 96):
        yield line_by_line.cell(seed=0, n=n, d=2, B=1.4, epsilon=1e-5, corner=False)


@claim(
    where="Algorithm 1",
    says="The near-linear algorithm expands the polynomial in $U_1$, $U_2$, $U_3$, sums over each key set once, "
    "multiplies the sums with each other and with the rows of the queries, and divides. Its output is within $2 "
    r"\epsilon B^2 / (1 - \epsilon)$ of attention, in $2 n r (3 d + 1)$ flops.",
    cells=_cells,
    neighbours=(
        Neighbour("without the division of Step 3", {"output": "unnormalised"}),
        Neighbour("$w$ sums over the first key set alone", {"output": "halved"}),
        Neighbour("the steps take $n^2 r$ flops", {"power": 2}),
    ),
)
def algorithm_1(cells: Sequence[CellResult], output: str = "error", power: int = 1) -> Finding:
    """Check the error bound of Lemma D.6 with eps_D = eps_A = eps and D~ within eps of D, and PyTorch's flop count.

    Steps 2, 4 and 5 take n r, 2 n r d and n r d multiplications, each with one addition.
    """
    beyond = 0.0
    for cell in cells:
        epsilon, B = cell.parameters["epsilon"], cell.parameters["B"]
        beyond = max(beyond, cell.result[output] / (2 * epsilon * B**2 / (1 - epsilon)))
    steps = max(max(cell.result["step_2"], cell.result["step_4"]) for cell in cells)
    late = sum(cell.result["library"] > cell.parameters["epsilon"] for cell in cells)
    mismatched = sum(
        cell.result["flops"] != 2 * cell.parameters["n"] ** power * cell.result["rank"] * (3 * cell.parameters["d"] + 1)
        for cell in cells
    )
    numbers: dict[str, float | str] = {
        "inputs": len(cells),
        "largest error / (2 eps B^2 / (1 - eps))": beyond,
        "Steps 2 and 4 against the n^2 rows written out, largest relative difference": steps,
        "runs of the library's polynomial method with an error above eps": late,
        "runs whose flop count is not 2 n r (3 d + 1)": mismatched,
    }
    return holds_if(beyond <= 1 and steps <= 1e-9 and not late and not mismatched, numbers)
