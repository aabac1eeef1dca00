"""Definitions 2.1 to 2.5 of Wang, Wei, Hsu and Lee: the task, the encodings and the transformer, as they are printed.

In the paper tokens are columns; in the library they are rows.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import torch
from torch import Tensor

from separatrix.claims.cell_grid import cell_grid
from separatrix.claims.ledger import CellResult, Finding, Neighbour, claim, holds_if
from separatrix.claims.selection.plane import TIGHT
from separatrix.claims.selection.valid_encodings import valid_encodings
from separatrix.lab.registry import experiment
from separatrix.selection.encodings import near_orthogonal_encoding, one_hot_encoding, subset_code
from separatrix.selection.task import SparseTokenSelection
from separatrix.selection.transformer import SelectionTransformer, StochasticSelectionTransformer

SIGMAS = 6.0
"""The accepted distance in standard errors; a normal variable exceeds it with probability 2e-9."""


@experiment(version=1, name="selection.definition_2_1")
def task(T: int, q: int, d: int, samples: int, seed: int) -> dict[str, float]:
    """Compare the target with loops, and the moments of tokens and frequencies of positions with their distribution."""
    X, y, target = SparseTokenSelection(T, q, d).batch(samples, generator=seed, dtype=torch.float64)
    wrong = {"mean": 0.0, "sum": 0.0}
    for n in range(min(samples, 20)):
        for k in range(d):
            total = sum(float(X[n, j, k]) for j in y[n].tolist())
            wrong["mean"] = max(wrong["mean"], abs(float(target[n, k]) - total / q))
            wrong["sum"] = max(wrong["sum"], abs(float(target[n, k]) - total))
    sets = torch.zeros(samples, T, dtype=torch.float64).scatter_(1, y, 1.0)
    spread = math.sqrt(q / T * (1 - q / T) / samples) or 1.0
    pairs = (sets.mT @ sets / samples).fill_diagonal_(q * (q - 1) / (T * (T - 1)) if T > 1 else 0.0)
    expected = q * (q - 1) / (T * (T - 1)) if T > 1 else 0.0
    pair_spread = math.sqrt(expected * (1 - expected) / samples) or 1.0
    return {
        **wrong,
        "sizes": int((sets.sum(1) != q).sum()),
        "chosen": float((sets.mean(0) - q / T).abs().max() / spread),
        "pairs": float((pairs - expected).abs().max() / pair_spread),
        "token mean": abs(float(X.mean())) * math.sqrt(X.numel()),
        "token square": abs(float(X.square().mean()) - 1) * math.sqrt(X.numel() / 2),
    }


@experiment(version=1, name="selection.definitions_2_2_and_2_3")
def encodings(T: int, q: int, width: int, threshold: float, seed: int) -> dict[str, float | int]:
    """Compare both encodings, and the inner products of the code of a subset, with their definitions."""
    one_hot = one_hot_encoding(T, dtype=torch.float64)
    units = torch.tensor([[float(i == j) for j in range(T)] for i in range(T)], dtype=torch.float64)
    y = torch.arange(q)
    near = near_orthogonal_encoding(T, width, threshold=threshold, generator=seed, dtype=torch.float64).E
    dots = (near @ near.mT).fill_diagonal_(0.0)
    E_y = near[y].mT
    code = E_y @ torch.linalg.inv(E_y.mT @ E_y) @ torch.ones(q, dtype=torch.float64)
    return {
        "one_hot": int((one_hot != units).sum()),
        "turned": int((one_hot != units.flip(0)).sum()),
        "sum": float((subset_code(one_hot, y) - units[:q].sum(0)).abs().max()),
        "mean": float((subset_code(one_hot, y) - units[:q].mean(0)).abs().max()),
        "entries": float((near.abs() - 1 / math.sqrt(width)).abs().max()),
        "unscaled": float((near.abs() - 1).abs().max()),
        "dot": float(dots.abs().max()),
        "code": float((subset_code(near, y) - code).abs().max()),
        "plain": float((subset_code(near, y) - near[y].sum(0)).abs().max()),
    }


@experiment(version=1, name="selection.definition_2_4")
def transformer(T: int, q: int, d: int, width: int, seed: int) -> dict[str, float]:
    """Compare the library with V Z softmax(Z^T W z_query) in loops, for random W, V and query tokens.

    `turned` replaces W by W^T, `scaled` divides the scores by sqrt(d + d_e), `blind` omits the tokens from Z^T W z.
    """
    source = torch.Generator().manual_seed(seed)
    E = near_orthogonal_encoding(T, width, threshold=0.9, generator=source, dtype=torch.float64).E
    model = SelectionTransformer(d, width, dtype=torch.float64)
    model.randomise(0.7, source)
    X = torch.randn(T, d, generator=source, dtype=torch.float64)
    x_query = torch.randn(d, generator=source, dtype=torch.float64)
    y = torch.arange(q)
    prediction = model(X, y, E, x_query).detach()
    W, V = model.W.detach(), model.V.detach()
    Z = [X[i].tolist() + E[i].tolist() for i in range(T)]
    z = x_query.tolist() + subset_code(E, y).tolist()

    def output(W: Tensor, scale: float = 1.0, first: int = 0) -> Tensor:
        size = range(d + width)
        scores = [
            scale * sum(Z[i][a] * float(W[a, b]) * z[b] for a in size if a >= first for b in size) for i in range(T)
        ]
        top = [math.exp(s) for s in scores]
        pooled = [sum(top[i] * Z[i][a] for i in range(T)) / sum(top) for a in size]
        return torch.tensor([sum(float(V[k, a]) * pooled[a] for a in size) for k in range(d)], dtype=torch.float64)

    forms = {"it": output(W), "turned": output(W.mT), "scaled": output(W, 1 / math.sqrt(d + width))}
    forms["blind"] = output(W, 1.0, d)
    return {name: float((prediction - form).abs().max()) for name, form in forms.items()}


@experiment(version=1, name="selection.definition_2_5")
def stochastic(width: int, C: float, draws: int, seed: int) -> dict[str, float]:
    """Compare the library's estimate of the mean over valid encodings with the exact mean, for two tokens.

    For two encodings, rejection sampling in the library has exactly the distribution of the definition, by symmetry.
    `everything` is the mean over all encodings, valid or not. The distances are in standard errors.
    """
    d, T = 2, 2
    source = torch.Generator().manual_seed(seed)
    inner = SelectionTransformer(d, width, dtype=torch.float64)
    inner.randomise(0.1, source)
    with torch.no_grad():
        inner.W[d:, d:] += C * torch.eye(width, dtype=torch.float64)
        inner.V.add_(torch.eye(d, d + width, dtype=torch.float64))
    X = torch.randn(T, d, generator=source, dtype=torch.float64)
    y = torch.tensor([0])
    valid = valid_encodings(T, width)
    rows = torch.tensor(list(itertools.product([-1.0, 1.0], repeat=width)), dtype=torch.float64) / math.sqrt(width)
    pairs = rows[torch.tensor(list(itertools.product(range(len(rows)), repeat=T)))]
    means, spread = {}, 0.0
    for name, stack in (("valid", valid), ("everything", pairs)):
        outputs = torch.stack([inner(X, y, E).detach() for E in stack])
        means[name] = outputs.mean(0)
        spread = float(outputs.std(0).max()) if name == "valid" else spread
    model = StochasticSelectionTransformer(inner, threshold=0.5, draws=draws)
    estimate = model(X, y, generator=source).detach()
    error = spread / math.sqrt(draws)
    return {name: float((estimate - mean).abs().max()) / error for name, mean in means.items()}


task_cells = cell_grid(task, {"T q d": ((1, 1, 1), (5, 2, 3), (7, 7, 1), (20, 3, 2))}, samples=4000)

_encoding_cells = cell_grid(encodings, {"T q width threshold": ((4, 1, 16, 0.49), (6, 3, 64, 0.3), (9, 2, 32, 0.4))})

stochastic_cells = cell_grid(stochastic, {"width C": ((3, 4.0), (4, 2.0))}, draws=400)

SELECTION_NEIGHBOURS = (
    Neighbour("the sum of the $q$ tokens", {"target": "sum"}),
    Neighbour("tokens of variance 1.2", {"variance": 1.2}),
)


def task_finding(cells: Sequence[CellResult], target: str = "mean", variance: float = 1.0) -> Finding:
    """Check the target exactly, and sizes, positions, pairs of positions and tokens to six standard errors."""
    off = max(cell.result[target] for cell in cells)
    sizes = sum(cell.result["sizes"] for cell in cells)
    # If the variance is not 1, the mean square of tokens is off by (variance - 1) sqrt(N / 2) standard errors.
    numel = min(cell.parameters["samples"] * cell.parameters["T"] * cell.parameters["d"] for cell in cells)
    shift = abs(variance - 1) * math.sqrt(numel / 2)
    far = max(cell.result[name] for cell in cells for name in ("chosen", "pairs", "token mean", "token square"))
    numbers: dict[str, float | str] = {
        "largest difference of the target from the loops": off,
        "subsets whose size is not q": sizes,
        "positions, pairs, tokens: largest distance in standard errors": far,
    }
    return holds_if(off <= TIGHT and not sizes and max(far, shift) <= SIGMAS, numbers)


definition_2_1 = claim(
    where="Definition 2.1",
    says="The task is to output the mean of the $q$ tokens whose positions the query lists. The tokens are standard "
    "Gaussian, and the set of positions is uniform.",
    cells=task_cells,
    defines=("separatrix.selection.SparseTokenSelection", "separatrix.selection.task.subset_average"),
    neighbours=SELECTION_NEIGHBOURS,
)(task_finding)


@claim(
    where="Definition 2.2",
    says="With one-hot positional encodings, $e_i$ is the unit vector $i$, and $e_y$ is the sum of $e_i$ over a "
    "subset.",
    cells=_encoding_cells,
    defines=("separatrix.selection.encodings.one_hot_encoding",),
    neighbours=(
        Neighbour("$e_i$ is the unit vector $T + 1 - i$", {"units": "turned"}),
        Neighbour("$e_y$ is the mean over a subset", {"code": "mean"}),
    ),
)
def definition_2_2(cells: Sequence[CellResult], units: str = "one_hot", code: str = "sum") -> Finding:
    wrong = sum(cell.result[units] for cell in cells)
    off = max(cell.result[code] for cell in cells)
    return holds_if(not wrong and off <= TIGHT, {"entries that differ": wrong, "largest difference of e_y": off})


@claim(
    where="Definition 2.3",
    says=r"Near-orthogonal positional encodings have entries $\pm 1 / \sqrt{d_e}$ and inner products of at most "
    r"$\delta$, and the code of a subset is $E_y (E_y^\top E_y)^{-1} \mathbf{1}$.",
    cells=_encoding_cells,
    defines=("separatrix.selection.near_orthogonal_encoding", "separatrix.selection.encodings.subset_code"),
    neighbours=(
        Neighbour("entries +-1", {"entries": "unscaled"}),
        Neighbour(r"inner products of at most $\delta / 2$", {"share": 0.5}),
        Neighbour("a subset's code is the sum of its encodings", {"code": "plain"}),
    ),
)
def definition_2_3(
    cells: Sequence[CellResult], entries: str = "entries", share: float = 1.0, code: str = "code"
) -> Finding:
    off = max(max(cell.result[entries], cell.result[code]) for cell in cells)
    beyond = sum(cell.result["dot"] > share * cell.parameters["threshold"] + TIGHT for cell in cells)
    return holds_if(
        off <= TIGHT and not beyond, {"largest difference": off, "encodings with an inner product above delta": beyond}
    )


@claim(
    where="Definition 2.4",
    says="The model is one layer of attention in which the product of the query and key matrices is one matrix $W$: "
    r"its output is $V Z \operatorname{softmax}(Z^\top W z_{\text{query}})$.",
    cells=cell_grid(transformer, {"T q d width": ((3, 1, 1, 8), (5, 2, 3, 16), (4, 3, 2, 12))}),
    defines=("separatrix.selection.SelectionTransformer",),
    neighbours=(
        Neighbour(r"with $W^\top$ in place of $W$", {"form": "turned"}),
        Neighbour(r"with scores divided by $\sqrt{d + d_e}$", {"form": "scaled"}),
        Neighbour("with the encodings alone in the scores", {"form": "blind"}),
    ),
)
def definition_2_4(cells: Sequence[CellResult], form: str = "it") -> Finding:
    worst = max(cell.result[form] for cell in cells)
    return holds_if(worst <= 1e-10, {"largest difference from the loops": worst})


def stochastic_finding(cells: Sequence[CellResult], over: str = "valid") -> Finding:
    """Check that the estimate is within six standard errors of the mean over all valid encodings."""
    far = max(cell.result[over] for cell in cells)
    return holds_if(far <= SIGMAS, {"largest distance from the mean, in standard errors": far})


STOCHASTIC_NEIGHBOURS = (Neighbour("the mean over all encodings, valid or not", {"over": "everything"}),)


definition_2_5 = claim(
    where="Definition 2.5",
    says="The model is that of Definition 2.4 with positional encodings that are drawn anew. Its output is the mean "
    "over encodings, given that they are valid.",
    cells=stochastic_cells,
    defines=("separatrix.selection.StochasticSelectionTransformer",),
    neighbours=STOCHASTIC_NEIGHBOURS,
)(stochastic_finding)
