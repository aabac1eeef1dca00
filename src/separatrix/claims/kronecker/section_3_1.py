"""Section 3.1 of Alman and Song: the cost of the steps of the algorithm, given U_1, U_2 and U_3 of r columns."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.utils.flop_counter import FlopCounterMode

from separatrix.claims.cell_grid import cell_grid
from separatrix.claims.ledger import CellResult, Finding, Neighbour, claim, holds_if, typographical
from separatrix.lab.registry import experiment

_SUMS = "the sums take more flops than any multiple of n d"
_PRODUCTS = "the products take more flops than any multiple of d n d"


@experiment(version=1, name="kronecker.section_3_1")
def steps(n: int, r: int, d: int, seed: int) -> dict[str, int | float]:
    """Count the flops of D~ = diag(U_1 (U_2 (x) U_3)^T 1) and of A~ (V_1 (x) V_2) by Lemma C.3."""
    generator = torch.Generator().manual_seed(seed)
    U1, U2, U3 = (torch.rand(n, r, generator=generator, dtype=torch.float64) for _ in range(3))
    V1, V2 = (torch.rand(n, d, generator=generator, dtype=torch.float64) for _ in range(2))
    ones = torch.ones(n, 1, dtype=torch.float64)
    with FlopCounterMode(display=False) as sums:
        D = U1 @ ((U2.mT @ ones) * (U3.mT @ ones))
    with FlopCounterMode(display=False) as products:
        out = U1 @ ((U2.mT @ V1) * (U3.mT @ V2))
    A = torch.einsum("ir,jr,lr->ijl", U1, U2, U3)
    return {
        "sums": sums.get_total_flops(),
        "products": products.get_total_flops(),
        "error": float(
            max(
                (D.squeeze(1) / A.sum((1, 2)) - 1).abs().max(),
                (out - torch.einsum("ijl,jd,ld->id", A, V1, V2)).abs().max() / out.abs().max(),
            )
        ),
    }


@claim(
    where="Section 3.1",
    part="times",
    says=r"Given $U_1$, $U_2$ and $U_3$ of $r$ columns, the row sums $\tilde{D}$ are computed in $O(n r)$ time, and "
    r"$\tilde{A} (V_1 \oslash V_2)$ in $O(\mathcal{T}_{\text{mat}}(r, n, d))$ time, by way of Lemma C.3.",
    cells=cell_grid(steps, {"n r d": ((6, 4, 3), (6, 40, 3), (12, 40, 3), (6, 400, 3), (6, 400, 9), (12, 4000, 2))}),
    errata=(
        typographical(
            printed=r"Given $U_1$, $U_2$, $U_3$, $\tilde{D}$ is computed in $O(n d)$ time.",
            right="It is computed in $O(n r)$ time, where $r$ is the number of columns of $U_1$, $U_2$ and $U_3$, "
            "as in Algorithm 1.",
            why="The $n r$ entries of each of the three must be read; $r$ is the number of monomials, and $r / d$ "
            "is not bounded.",
            shown_by=_SUMS,
        ),
        typographical(
            printed=r"$\tilde{A} (V_1 \oslash V_2)$ is computed in $O(\mathcal{T}_{\text{mat}}(d, n, d))$ time.",
            right=r"It is computed in $O(\mathcal{T}_{\text{mat}}(r, n, d))$ time, as in Algorithm 1.",
            why=r"The matrices that are multiplied are $r \times n$ and $n \times d$, and then $n \times r$ and $r "
            r"\times d$.",
            shown_by=_PRODUCTS,
        ),
    ),
    neighbours=(
        Neighbour(r"$\tilde{D}$ in $O(n d)$, as printed", {"sums": "d"}),
        Neighbour(r"$\tilde{A} (V_1 \otimes V_2)$ in $O(T_{\text{mat}}(d, n, d))$, as printed", {"products": "d"}),
    ),
)
def section_3_1(cells: Sequence[CellResult], sums: str = "r", products: str = "r") -> Finding:
    """Check that each flop count divided by its order is the same number in all cells: 6, if the order contains r."""

    def over(cell: CellResult, name: str, size: str) -> float:
        n, r, d = (cell.parameters[key] for key in ("n", "r", "d"))
        columns = r if size == "r" else d
        return float(cell.result[name] / (n * columns * (d if name == "products" else 1)))

    spread = {
        name: {over(cell, name, size) for cell in cells} for name, size in (("sums", sums), ("products", products))
    }
    wrong = max(cell.result["error"] for cell in cells)
    printed = {name: max(over(cell, name, "d") for cell in cells) for name in ("sums", "products")}
    numbers: dict[str, float | str] = {
        "flops of D~ / (n r)": ", ".join(f"{x:g}" for x in sorted(spread["sums"])),
        "flops of A~ (V_1 (x) V_2) / (n r d)": ", ".join(f"{x:g}" for x in sorted(spread["products"])),
        "largest relative error of either": wrong,
        "largest flops of D~ / (n d)": printed["sums"],
        "largest flops of A~ (V_1 (x) V_2) / (d n d)": printed["products"],
    }
    passed = wrong <= 1e-9 and all(len(values) == 1 for values in spread.values())
    return holds_if(passed, numbers, shows={_SUMS: printed["sums"] > 1000, _PRODUCTS: printed["products"] > 1000})
