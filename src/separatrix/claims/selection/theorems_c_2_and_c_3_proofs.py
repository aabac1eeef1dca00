"""The proof of Theorem C.2 of Wang, Wei, Hsu and Lee, and the matrices and tokens of Theorem C.3."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from separatrix.claims.cell_grid import cell_grid
from separatrix.claims.ledger import CellResult, Erratum, Finding, Rank, claim, typographical
from separatrix.claims.misprint_pairs import as_printed, compared
from separatrix.lab.registry import experiment
from separatrix.selection.counterexample import fcn_counterexample
from separatrix.selection.encodings import near_orthogonal_encoding, subset_code
from separatrix.selection.fcn import FCN

SCALE = (
    Erratum(
        rank=Rank.PROOF,
        shown_by="scale of the pair",
        printed=r"$\xi = u / (2 \max_j \lVert u_j \rVert)$, which gives a loss of at least $1 / (2 q)$.",
        right=r"$\xi = \sqrt{2 q} u / (2 \max_j \lVert u_j \rVert)$. With the printed $\xi$ the norm is at least $1 "
        "/ (2 q)$, and the squared norm is only at least $1 / (4 q^2)$.",
        why="The theorem is about the squared norm. Tokens are not bounded, so that the two inputs may be scaled, "
        "and the statement is true.",
    ),
)
MATRICES = (
    typographical(
        shown_by="blocks of Q and K",
        printed=r"$Q = [0_{d \times d}, I_{d_e}, 0_{d_e \times d_e}]$ and $K = [0_{d \times d}, 0_{d_e \times d_e}, "
        r"I_{d_e}]$.",
        right=r"The first block of both is $0_{d_e \times d}$.",
        why="All blocks have the same number of rows, $d_e$, and the first multiplies the $d$ rows of the tokens.",
    ),
    typographical(
        shown_by="scale in Q",
        printed=r"With this $Q$, $Q X = (0, \ldots, 0, \alpha e_y)$.",
        right=r"$Q = \alpha [0_{d_e \times d}, I_{d_e}, 0_{d_e \times d_e}]$.",
        why=r"The printed $Q$ gives $e_y$, without the scale that the proof then chooses.",
    ),
    Erratum(
        rank=Rank.STATEMENT,
        shown_by="tokens beyond the unit ball",
        printed=r"The unit approximates the task to $\epsilon$, for any input.",
        right="The unit approximates the task for tokens of norm at most 1.",
        why=r"The last line sums $\lvert 1/q - S_i \rvert$ and $S_i$ without the norms of the tokens; "
        "the error grows with them.",
    ),
    typographical(
        shown_by="width of the construction",
        printed=r"$Q$, $K$ and $V$ represent $v_{y_i}$, $e_i$ and $x_i$ with width $\Theta(d + q d_e)$.",
        right=r"They represent $e_y$, $e_i$ and $x_i$ with width $d + 2 d_e$, as in the theorem.",
        why="The input has $d + 2 d_e$ rows: one code of the whole subset, not one for each of its positions.",
    ),
)


@experiment(version=1, name="selection.theorem_c2_proof")
def zero_net(T: int, q: int, d: int, seed: int) -> dict[str, list[float]]:
    """Return how far the zero net's squared error on the pair falls short of 1/(2q), at each of the two scales."""
    net = FCN(T, q, d, [(T - q + 1) * d - 1, 4], generator=seed, dtype=torch.float64)
    last = [part for part in net.modules() if isinstance(part, nn.Linear)][-1]
    for parameter in last.parameters():
        nn.init.zeros_(parameter)
    norms = (0.5, math.sqrt(2 * q) / 2)
    short = [1 / (2 * q) - max(fcn_counterexample(net, T, q, d, token_norm=norm).errors) ** 2 for norm in norms]
    return {"scale of the pair": short}


@experiment(version=2, name="selection.theorem_c3_matrices")
def matrices(T: int, q: int, d: int, width: int, epsilon: float, seed: int) -> dict[str, list[float]]:
    """Evaluate the construction on the input of Equation (8): the shapes, Q X, and the error with tokens of norm R."""
    source = torch.Generator().manual_seed(seed)
    E = near_orthogonal_encoding(T, width, threshold=0.5, generator=source, dtype=torch.float64).E
    y = torch.arange(q)
    e_y = subset_code(E, y)
    X = torch.randn(T, d, generator=source, dtype=torch.float64)
    X = X / X.norm(dim=1, keepdim=True)
    zeros = torch.zeros(T, width, dtype=torch.float64)
    zeros[-1] = e_y
    stacked = torch.cat([X.mT, zeros.mT, E.mT])  # Equation (8): d + 2 d_e rows
    alpha = 2 * math.log(2 * T / epsilon) / (1 - float((E[q:] @ e_y).abs().max()))
    eye, none = torch.eye(width, dtype=torch.float64), torch.zeros(width, width, dtype=torch.float64)
    left = torch.zeros(width, d, dtype=torch.float64)
    Q, K = torch.cat([left, eye, none], 1), torch.cat([left, none, eye], 1)
    expected = torch.zeros(width, T, dtype=torch.float64)
    expected[:, -1] = alpha * e_y
    S = torch.softmax((K @ stacked).mT @ (alpha * Q @ stacked), 0)[:, -1]
    error = float((S @ X - X[:q].mean(0)).norm())
    blocks = [_selected(torch.zeros(rows, d, dtype=torch.float64), stacked) for rows in (d, width)]
    long = X * 10 * epsilon / error
    return {
        # The distance of the product from the encodings; 1 if the shapes do not fit.
        "blocks of Q and K": [1.0 if K_X is None else float((K_X - E.mT).abs().max()) for K_X in blocks],
        "width of the construction": [abs(rows / len(stacked) - 1) for rows in (d + q * width, d + 2 * width)],
        "scale in Q": [float((scale * Q @ stacked - expected).abs().max()) for scale in (1.0, alpha)],
        "tokens beyond the unit ball": [
            float((S @ tokens - tokens[:q].mean(0)).norm()) - epsilon for tokens in (long, X)
        ],
    }


def _selected(left: Tensor, stacked: Tensor) -> Tensor | None:
    """The product K X for K = [left, 0, I] and the input of Equation (8), or None where the shapes do not fit."""
    width = (len(stacked) - left.shape[1]) // 2
    eye, none = torch.eye(width, dtype=stacked.dtype), torch.zeros(width, width, dtype=stacked.dtype)
    try:
        return torch.cat([left, none, eye], 1) @ stacked
    except RuntimeError:
        return None


@claim(
    where="Theorem C.2",
    part="proof",
    says="The proof scales two inputs that the net cannot distinguish.",
    cells=cell_grid(zero_net, {"T q d": ((6, 2, 2), (8, 3, 1), (5, 4, 3), (4, 2, 1))}),
    errata=SCALE,
    neighbours=as_printed(SCALE),
)
def theorem_c_2_proof(cells: Sequence[CellResult], misprint: str = "") -> Finding:
    """Check the zero net, whose errors on the pair are the least possible."""
    return compared(cells, SCALE, misprint=misprint)


@claim(
    where="Theorem C.3",
    part="matrices",
    says="In the construction, from one input matrix, $Q$ selects the code of the subset, $K$ the encodings, and "
    "$V$ the tokens.",
    cells=cell_grid(matrices, {"T q d width epsilon": ((8, 2, 3, 64, 0.1), (20, 3, 5, 128, 0.01), (5, 1, 2, 32, 0.5))}),
    errata=MATRICES,
    neighbours=as_printed(MATRICES),
    history=(
        "Until 2026-11-18 the numbers of two errata, on the blocks of $Q$ and $K$ and on tokens beyond the unit ball, "
        "were constants in the program; now they are computed.",
    ),
)
def theorem_c_3_matrices(cells: Sequence[CellResult], misprint: str = "") -> Finding:
    """Check the explicit matrices on the input of Equation (8), with tokens of norm 1 and larger."""
    return compared(cells, MATRICES, misprint=misprint)
