"""Definitions C.1, C.2 and C.4: linear and softmax attention by blocks of a Kronecker product; the linear network."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from separatrix.attention.linear import linear_attention
from separatrix.attention.operator import tensor_attention
from separatrix.claims.cell_grid import cell_grid
from separatrix.claims.ledger import CellResult, Claim, Finding, Neighbour, claim, holds_if
from separatrix.lab.registry import experiment
from separatrix.separation.datasets import AttentionInput
from separatrix.separation.networks import linear_network


@experiment(version=1, name="separation.definitions_c")
def blocks(n: int, d: int, m: int, tau: float, seed: int) -> dict[str, float | int]:
    """Compare c_lin, c_exp and F_lin from the n blocks of (A_1 (x) A_2) vec(QK^T) with the library.

    The entries are positive, so that alpha_lin does not vanish. "c_exp of all" divides by the sum of all blocks, "c_lin
    without V" omits V, and "F_lin of a row" sums the neurons of the first row only.
    """
    generator = torch.Generator().manual_seed(seed)
    A1, A2, A3 = (torch.rand(n, d, generator=generator, dtype=torch.float64) + 0.1 for _ in range(3))
    X, V = (torch.rand(d, d, generator=generator, dtype=torch.float64) + 0.1 for _ in range(2))
    y = 2.0 * torch.randint(0, 2, (d, m), generator=generator).double() - 1
    u = (torch.kron(A1, A2) @ X.reshape(-1)).reshape(n, n)
    values = A3 @ V
    c_lin, c_exp, c_whole = (torch.zeros(n, d, dtype=torch.float64) for _ in range(3))
    for j0 in range(n):
        exps = [math.exp(s) for s in u[j0].tolist()]
        for i0 in range(d):
            column = values[:, i0].tolist()
            c_lin[j0, i0] = sum(w * v for w, v in zip(u[j0].tolist(), column, strict=True)) / float(u[j0].sum())
            c_exp[j0, i0] = sum(w * v for w, v in zip(exps, column, strict=True)) / sum(exps)
            c_whole[j0, i0] = sum(w * v for w, v in zip(exps, column, strict=True)) / float(u.exp().sum())
    sums = [sum(max(float(row @ y[:, k]) - tau, 0.0) for k in range(m)) for row in c_lin]
    data = AttentionInput(A1, A2, values, 0, 0)
    by_lin, by_exp = linear_attention(A1 @ X, A2, values), tensor_attention(A1 @ X, A2, values, scale=1.0)
    net = float(linear_network(data, X, y, tau))
    return {
        "c_lin": float((by_lin - c_lin).abs().max()),
        "c_lin without V": float((linear_attention(A1 @ X, A2, A3) - c_lin).abs().max()),
        "c_exp": float((by_exp - c_exp).abs().max()),
        "c_exp of all": float((by_exp - c_whole).abs().max()),
        "F_lin": abs(net - max(sum(sums), 0.0)),
        "F_lin of a row": abs(net - sums[0]),
        "fires": int(net > 0),
    }


def _attention(where: str, says: str, defines: str, right: str, wrong: str, instead: str) -> Claim:
    @claim(
        where=where,
        says=says,
        cells=cell_grid(
            blocks, {"n d m tau": ((2, 2, 3, 0.05), (5, 3, 4, 0.2), (3, 6, 2, 0.1), (7, 2, 1, 0.01)), "seed": range(2)}
        ),
        defines=(defines,),
        neighbours=(Neighbour(instead, {"formula": wrong}),),
        home=__name__,
    )
    def check(cells: Sequence[CellResult], formula: str = right) -> Finding:
        worst = max(cell.result[formula] for cell in cells)
        fired = sum(cell.result["fires"] for cell in cells)
        numbers: dict[str, float | str] = {"largest difference from the blocks": worst, "networks that fire": fired}
        return holds_if(worst <= 1e-11 and fired > 0, numbers)

    return check


_attention(
    "Definition C.1",
    r"Linear attention of three matrices is block $j_0$ of $(A_1 \otimes A_2) \operatorname{vec}(Q K^\top)$, divided "
    "by its sum, times $A_3 V$.",
    "separatrix.linear_attention",
    "c_lin",
    "c_lin without V",
    "times $A_3$, without $V$",
)
_attention(
    "Definition C.2",
    "The network on linear attention sums a neuron for every row and every sign vector.",
    "separatrix.separation.networks.linear_network",
    "F_lin",
    "F_lin of a row",
    "a neuron for every sign vector and the first row alone",
)
_attention(
    "Definition C.4",
    r"Softmax attention of three matrices is $\exp$ of block $j_0$ of $(A_1 \otimes A_2) \operatorname{vec}(Q "
    r"K^\top)$, divided by its sum, times $A_3 V$.",
    "separatrix.tensor_attention",
    "c_exp",
    "c_exp of all",
    "divided by the sum of all blocks",
)
