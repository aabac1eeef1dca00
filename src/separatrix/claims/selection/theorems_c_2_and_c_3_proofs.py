"""The proof of Theorem C.2 of Wang, Wei, Hsu and Lee, and the matrices and tokens of Theorem C.3."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from separatrix.claims.ledger import Erratum, Finding, Found, Rank, claim
from separatrix.claims.misprint_pairs import as_printed, compared
from separatrix.lab.cell import Cell
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
    Erratum(
        rank=Rank.TYPOGRAPHICAL,
        shown_by="blocks of Q and K",
        printed=r"$Q = [0_{d \times d}, I_{d_e}, 0_{d_e \times d_e}]$ and $K = [0_{d \times d}, 0_{d_e \times d_e}, "
        r"I_{d_e}]$.",
        right=r"The first block of both is $0_{d_e \times d}$.",
        why="All blocks have the same number of rows, $d_e$, and the first multiplies the $d$ rows of the tokens.",
    ),
    Erratum(
        rank=Rank.TYPOGRAPHICAL,
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
    Erratum(
        rank=Rank.TYPOGRAPHICAL,
        shown_by="width of the construction",
        printed=r"$Q$, $K$ and $V$ represent $v_{y_i}$, $e_i$ and $x_i$ with width $\Theta(d + q d_e)$.",
        right=r"They represent $e_y$, $e_i$ and $x_i$ with width $d + 2 d_e$, as in the theorem.",
        why="The input has $d + 2 d_e$ rows: one code of the whole subset, not one for each of its positions.",
    ),
)


@experiment(version=1, name="selection.theorem_c2_proof")
def zero_net(T: int, q: int, d: int, seed: int) -> dict[str, list[float]]:
    """How far the squared error of the net that answers zero falls short of 1/(2q) on the pair, at the two scales."""
    net = FCN(T, q, d, [(T - q + 1) * d - 1, 4], generator=seed, dtype=torch.float64)
    last = [part for part in net.modules() if isinstance(part, nn.Linear)][-1]
    for parameter in last.parameters():
        nn.init.zeros_(parameter)
    norms = (0.5, math.sqrt(2 * q) / 2)
    short = [1 / (2 * q) - max(fcn_counterexample(net, T, q, d, token_norm=norm).errors) ** 2 for norm in norms]
    return {"scale of the pair": short}


@experiment(version=2, name="selection.theorem_c3_matrices")
def matrices(T: int, q: int, d: int, width: int, epsilon: float, seed: int) -> dict[str, list[float]]:
    """The construction written out on the input of Equation (8): shapes, Q X, and the error with tokens of norm R."""
    source = torch.Generator().manual_seed(seed)
    E = near_orthogonal_encoding(T, width, threshold=0.5, generator=source, dtype=torch.float64).E
    y = torch.arange(q)
    e_y = subset_code(E, y)
    X = torch.randn(T, d, generator=source, dtype=torch.float64)
    X = X / X.norm(dim=1, keepdim=True)
    zeros = torch.zeros(T, width, dtype=torch.float64)
    zeros[-1] = e_y
    given = torch.cat([X.mT, zeros.mT, E.mT])  # Equation (8): d + 2 d_e rows
    alpha = 2 * math.log(2 * T / epsilon) / (1 - float((E[q:] @ e_y).abs().max()))
    eye, none = torch.eye(width, dtype=torch.float64), torch.zeros(width, width, dtype=torch.float64)
    left = torch.zeros(width, d, dtype=torch.float64)
    Q, K = torch.cat([left, eye, none], 1), torch.cat([left, none, eye], 1)
    wanted = torch.zeros(width, T, dtype=torch.float64)
    wanted[:, -1] = alpha * e_y
    S = torch.softmax((K @ given).mT @ (alpha * Q @ given), 0)[:, -1]
    error = float((S @ X - X[:q].mean(0)).norm())
    blocks = [_selected(torch.zeros(rows, d, dtype=torch.float64), given) for rows in (d, width)]
    long = X * 10 * epsilon / error
    return {
        # 1 without a meaning, or how far the product is from the encodings.
        "blocks of Q and K": [1.0 if K_X is None else float((K_X - E.mT).abs().max()) for K_X in blocks],
        "width of the construction": [abs(rows / len(given) - 1) for rows in (d + q * width, d + 2 * width)],
        "scale in Q": [float((scale * Q @ given - wanted).abs().max()) for scale in (1.0, alpha)],
        "tokens beyond the unit ball": [
            float((S @ tokens - tokens[:q].mean(0)).norm()) - epsilon for tokens in (long, X)
        ],
    }


def _selected(left: Tensor, given: Tensor) -> Tensor | None:
    """K X for K = [left, 0, I] and the input of Equation (8), or None where the blocks do not fit together."""
    width = (len(given) - left.shape[1]) // 2
    eye, none = torch.eye(width, dtype=given.dtype), torch.zeros(width, width, dtype=given.dtype)
    try:
        return torch.cat([left, none, eye], 1) @ given
    except RuntimeError:
        return None


def _zero_cells() -> Iterator[Cell]:
    for T, q, d in ((6, 2, 2), (8, 3, 1), (5, 4, 3), (4, 2, 1)):
        yield zero_net.cell(seed=0, T=T, q=q, d=d)


def _matrix_cells() -> Iterator[Cell]:
    for T, q, d, width, epsilon in ((8, 2, 3, 64, 0.1), (20, 3, 5, 128, 0.01), (5, 1, 2, 32, 0.5)):
        yield matrices.cell(seed=0, T=T, q=q, d=d, width=width, epsilon=epsilon)


@claim(
    paper="selection",
    where="Theorem C.2",
    part="proof",
    says="The proof scales two inputs that the net cannot tell apart.",
    cells=_zero_cells,
    errata=SCALE,
    neighbours=as_printed(SCALE),
)
def theorem_c_2_proof(found: Sequence[Found], misprint: str = "") -> Finding:
    """The net that answers zero, whose errors on the pair are as small as they can be."""
    return compared(found, SCALE, misprint=misprint)


@claim(
    paper="selection",
    where="Theorem C.3",
    part="matrices",
    says="In the construction, from one input matrix, $Q$ selects the code of the subset, $K$ the encodings, and "
    "$V$ the tokens.",
    cells=_matrix_cells,
    errata=MATRICES,
    neighbours=as_printed(MATRICES),
    history=(
        "Until 2026-11-18 the numbers of two errata, on the blocks of Q and K and on tokens beyond the unit ball, were "
        "written into the program; now they are computed.",
    ),
)
def theorem_c_3_matrices(found: Sequence[Found], misprint: str = "") -> Finding:
    """The matrices written out on the input of Equation (8); tokens of norm 1, and longer ones."""
    return compared(found, MATRICES, misprint=misprint)
