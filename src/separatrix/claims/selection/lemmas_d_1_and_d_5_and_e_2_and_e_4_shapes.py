"""Shapes and an index in Lemmas D.1, D.5, E.2 and E.4 and their proofs, of Wang, Wei, Hsu and Lee."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from separatrix.claims.cell_grid import cell_grid
from separatrix.claims.ledger import CellResult, Claim, Erratum, Finding, Neighbour, claim, typographical
from separatrix.claims.misprint_pairs import ROUNDING, as_printed, compared
from separatrix.lab.registry import experiment
from separatrix.selection.encodings import near_orthogonal_encoding
from separatrix.selection.moments import exact_descent
from separatrix.selection.task import SparseTokenSelection
from separatrix.selection.transformer import SelectionTransformer

TOKENS_FOR_Z = "X for Z"


def _value(shown_by: str, printed: str, right: str) -> Erratum:
    return typographical(
        slip=TOKENS_FOR_Z,
        shown_by=shown_by,
        printed=printed,
        right=right,
        why=r"$V$ has $d + d_e$ columns ($d + T$ in Appendix D) and $X$ has $d$ rows; the model is $V Z S_y$.",
    )


def _row(shown_by: str) -> Erratum:
    return typographical(
        slip="Y as a row",
        shown_by=shown_by,
        printed=r"$Y = (Y_1, \ldots, Y_T)$ with the indicators $Y_i$ of the subset.",
        right=r"$Y = (Y_1, \ldots, Y_T)^\top$, as in Lemmas D.2 and E.3.",
        why=r"$X$ is $d \times T$, and the residual has $\frac{1}{q} X Y$. (This erratum rests on a single character "
        "of the text that we read.)",
    )


D_1 = (
    _value(
        "V X in Lemma D.1",
        r"$d \mathcal{L} = E[(f - \operatorname{STS}_q)^\top V X d(\operatorname{softmax}(\ldots))] + \ldots$",
        r"$V Z d(\operatorname{softmax}(\ldots))$, as in the next display.",
    ),
    _row("Y in Lemma D.1"),
)
E_2 = (
    _value(
        "V X in Lemma E.2",
        r"At the end of the proof $\nabla_W \mathcal{L}$ has $\frac{1}{q} X Y - V X E[S_y]$.",
        "It is $V Z E[S_y]$, as in the lemma (and the mean of $V Z S_y$, where $V$ multiplies the encodings).",
    ),
    _row("Y in Lemma E.2"),
)
E_4 = (
    typographical(
        shown_by="V in Lemma E.4",
        printed=r"$V(t) = \alpha(t) I_d$; so also in the proof of Theorem D.4 and in Corollary E.8, which have $W(t) = "
        r"C(t) (I_T - \frac{1}{T} \mathbf{1} \mathbf{1}^\top)$ and $W(t) = C(t) I_{d_e}$ beside it. The beginning of "
        r"Appendix E has $W = \alpha I_d$.",
        right=r"$V(t) = \alpha(t) [I_d, 0]$, and $W(t)$ with its blocks of zeros; in Appendix E the block is $\alpha "
        "I_{d_e}$.",
        why="$V$ and $W$ are multiplied with $Z$, which has $d + d_e$ rows. Only the blocks that are not zero are "
        "printed.",
    ),
)
D_5 = (
    typographical(
        shown_by="size of the identity",
        printed=r"$E X^\top X = d I_d$.",
        right=r"$d I_T$, as in the proof of Lemma D.2.",
        why=r"$X$ is $d \times T$. (This erratum rests on a single character of the text that we read.)",
    ),
    typographical(
        shown_by="start of V",
        printed=r"Given the initialization $W(0) = 0$ and $V(t) = 0$.",
        right=r"$V(0) = 0$.",
        why=r"$V(1) = (\eta / T) [I_d, 0]$ already: it is zero only at $t = 0$. Section 3.1 repeats this, after Lemma "
        "3.2, and the proof of Lemma E.7 prints $W(t) = 0$ in the same place.",
    ),
    typographical(
        shown_by="weights at the start",
        printed=r"$S_y^{(t)}(i) = s_+(t) > s_-(t) = S_y^{(t)}(j)$ for $i \in y$, $j \notin y$, at every $t$.",
        right=r"$s_+(t) \ge s_-(t)$.",
        why=r"At $t = 0$ and $t = 1$ the scale $C$ is zero, and all weights are $1/T$.",
    ),
)


@experiment(version=3, name="selection.proof_shapes")
def shapes(T: int, q: int, d: int, width: int, seed: int) -> dict[str, list[float]]:
    """Test the shapes of products with V, the mean of X^T X over tokens with Gaussian moments, and V around a step.

    V, the attention S_y and the output are those of a random `SelectionTransformer`, with the one-hot encoding of
    Appendix D and with near-orthogonal signs: V Z S_y is compared with the output. `exchanged` replaces Z = [X; E] by
    [E; X].
    """
    onehot = _products(torch.eye(T, dtype=torch.float64), q, d, seed)
    signs = near_orthogonal_encoding(T, width, threshold=0.8, generator=seed, dtype=torch.float64).E
    near = _products(signs, q, d, seed)
    ones = torch.eye(T * d, dtype=torch.float64).reshape(-1, d, T) * (T * d) ** 0.5
    mean = (ones.mT @ ones).mean(0)
    Ws, Vs, _ = exact_descent(torch.eye(T, dtype=torch.float64), q, d, 0.05, 4)
    y = (torch.arange(T) < q).double()
    gaps = []
    for W in Ws:
        S = torch.softmax(W[d:, d:] @ y, 0)
        gaps.append(float(S[0] - S[-1]))
    Y = torch.zeros(1, T, dtype=torch.float64)
    Y[0, :q] = 1
    X = torch.randn(d, T, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    rows = [_apart(X, form / q, X[:, :q].mean(1, keepdim=True)) for form in (Y, Y.mT)]
    Z = torch.cat([X, signs.mT])
    blocks = [
        _apart(V, Z, 0.7 * X) for V in (0.7 * torch.eye(d, dtype=X.dtype), 0.7 * torch.eye(d, len(Z), dtype=X.dtype))
    ]
    identities = (torch.eye(size, dtype=torch.float64) for size in (d, T))
    return {
        "V X in Lemma D.1": onehot[:2],
        "V X in Lemma E.2": near[:2],
        "Y in Lemma D.1": rows,
        "Y in Lemma E.2": rows,
        "V in Lemma E.4": blocks,
        "exchanged": [onehot[2], near[2]],
        "size of the identity": [
            float((mean - d * eye).abs().max()) if eye.shape == mean.shape else 1.0 for eye in identities
        ],
        "start of V": [float(Vs[t].abs().max()) for t in (1, 0)],
        "weights at the start": [float(min(gaps) <= 0), float(min(gaps) < 0)],
    }


def _apart(left: Tensor, right: Tensor, expected: Tensor) -> float:
    """The distance of a product of matrices from a matrix; 1 if the shapes do not fit."""
    return float((left @ right - expected).abs().max()) if left.shape[1] == len(right) else 1.0


def _products(E: Tensor, q: int, d: int, seed: int) -> list[float]:
    """The distances of V X S_y, V Z S_y and V [E; X] S_y from a transformer's output; 1 if the shapes do not fit."""
    source = torch.Generator().manual_seed(seed)
    X, y, _ = SparseTokenSelection(len(E), q, d).batch(1, generator=source, dtype=torch.float64)
    model = SelectionTransformer(d, E.shape[1], dtype=torch.float64)
    model.randomise(0.5, source)
    with torch.no_grad():
        output, S, V = model(X, y, E)[0], model.attention(X, y, E)[0], model.V.detach()
    tokens = X[0].mT
    apart = []
    for Z in (tokens, torch.cat([tokens, E.mT]), torch.cat([E.mT, tokens])):
        fits = V.shape[1] == len(Z)
        apart.append(float((V @ Z @ S - output).abs().max()) if fits else 1.0)
    return apart


def _register(where: str, says: str, errata: Sequence[Erratum], encoding: int | None = None) -> Claim:
    """Register a claim on shapes; if the claim is about the product with V, `encoding` is the index of its encoding."""
    exchanged = Neighbour(r"$V [E; X]$ for $V Z = V [X; E]$", {"exchanged": True})
    history = (
        "Until 2026-11-17 the check compared the shapes of matrices of ones that it had made itself; now $V$, the "
        "attention and the output are those of a transformer.",
    )

    @claim(
        where=where,
        part="shapes",
        says=says,
        cells=cell_grid(shapes, {"T q d width": ((5, 2, 3, 8), (7, 3, 1, 16), (4, 1, 2, 4))}),
        errata=errata,
        neighbours=(*as_printed(errata), *((exchanged,) if encoding is not None else ())),
        history=history if encoding is not None else (),
        home=__name__,
    )
    def check(cells: Sequence[CellResult], misprint: str = "", exchanged: bool = False) -> Finding:
        passed = not exchanged or all(cell.result["exchanged"][encoding or 0] <= ROUNDING for cell in cells)
        return compared(cells, errata, held=passed, misprint=misprint)

    return check


_register("Lemma D.1", "The differential of the loss has $V Z$ before the differential of the attention.", D_1, 0)
_register(
    "Lemma D.5",
    r"The mean of $X^\top X$ is $d$ times the identity of $T$ rows, and $V$ is zero only at the start.",
    D_5,
)
_register("Lemma E.2", "The residual contains $V Z S_y$, which is the output of the model.", E_2, 1)
_register("Lemma E.4", r"$V = \alpha [I_d, 0]$ has as many columns as $Z$ has rows, and selects the tokens.", E_4)
