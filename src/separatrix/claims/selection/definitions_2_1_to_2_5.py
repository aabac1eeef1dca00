"""Definitions 2.1 to 2.5 of Wang, Wei, Hsu and Lee: the task, the encodings and the transformer, as they are printed.

In the paper tokens are columns; in the library they are rows.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from separatrix.claims.ledger import Finding, Found, Neighbour, claim, holds_if
from separatrix.claims.selection.plane import TIGHT
from separatrix.claims.selection.valid_encodings import valid_encodings
from separatrix.lab.cell import Cell
from separatrix.lab.registry import experiment
from separatrix.selection.encodings import near_orthogonal_encoding, one_hot_encoding, subset_code
from separatrix.selection.task import SparseTokenSelection
from separatrix.selection.transformer import SelectionTransformer, StochasticSelectionTransformer

SIGMAS = 6.0
"""A normal variable is farther from its mean with probability 2e-9."""


@experiment(version=1, name="selection.definition_2_1")
def task(T: int, q: int, d: int, samples: int, seed: int) -> dict[str, float]:
    """The target in loops, and the law of tokens and subsets: their moments, and how often a position is chosen."""
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
    """Both encodings against their definitions, and the code of a subset: its products inside and outside."""
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
    """V Z softmax(Z^T W z_query) in loops, for random W, V and any token of the query, against the library.

    `turned` has W^T for W, `scaled` divides the scores by sqrt(d + d_e), `blind` leaves the tokens out of Z^T W z.
    """
    source = torch.Generator().manual_seed(seed)
    E = near_orthogonal_encoding(T, width, threshold=0.9, generator=source, dtype=torch.float64).E
    model = SelectionTransformer(d, width, dtype=torch.float64)
    model.randomise(0.7, source)
    X = torch.randn(T, d, generator=source, dtype=torch.float64)
    x_query = torch.randn(d, generator=source, dtype=torch.float64)
    y = torch.arange(q)
    found = model(X, y, E, x_query).detach()
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
    return {name: float((found - form).abs().max()) for name, form in forms.items()}


@experiment(version=1, name="selection.definition_2_5")
def stochastic(width: int, C: float, draws: int, seed: int) -> dict[str, float]:
    """The library's estimate of the mean over valid encodings, against the mean over all of them; two tokens, one
    chosen.

    Of two encodings the rejection of the library has just the law of the definition, by symmetry. `everything` is the
    mean over all encodings, valid or not. The distances are in standard errors.
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
        each = torch.stack([inner(X, y, E).detach() for E in stack])
        means[name] = each.mean(0)
        spread = float(each.std(0).max()) if name == "valid" else spread
    model = StochasticSelectionTransformer(inner, threshold=0.5, draws=draws)
    estimate = model(X, y, generator=source).detach()
    error = spread / math.sqrt(draws)
    return {name: float((estimate - mean).abs().max()) / error for name, mean in means.items()}


def task_cells() -> Iterator[Cell]:
    for T, q, d in ((1, 1, 1), (5, 2, 3), (7, 7, 1), (20, 3, 2)):
        yield task.cell(seed=0, T=T, q=q, d=d, samples=4000)


def _encoding_cells() -> Iterator[Cell]:
    for T, q, width, threshold in ((4, 1, 16, 0.49), (6, 3, 64, 0.3), (9, 2, 32, 0.4)):
        yield encodings.cell(seed=0, T=T, q=q, width=width, threshold=threshold)


def _transformer_cells() -> Iterator[Cell]:
    for T, q, d, width in ((3, 1, 1, 8), (5, 2, 3, 16), (4, 3, 2, 12)):
        yield transformer.cell(seed=0, T=T, q=q, d=d, width=width)


def stochastic_cells() -> Iterator[Cell]:
    for width, C in ((3, 4.0), (4, 2.0)):
        yield stochastic.cell(seed=0, width=width, C=C, draws=400)


SELECTION_NEIGHBOURS = (
    Neighbour("the sum of the $q$ tokens", {"target": "sum"}),
    Neighbour("tokens of variance 1.2", {"variance": 1.2}),
)


def task_finding(found: Sequence[Found], target: str, variance: float) -> Finding:
    """The target in loops; sizes, positions, pairs of positions and tokens to six standard errors."""
    off = max(one.result[target] for one in found)
    sizes = sum(one.result["sizes"] for one in found)
    # A token's mean square is off by (variance - 1) sqrt(N / 2) standard errors if the variance is another one.
    numel = min(one.parameters["samples"] * one.parameters["T"] * one.parameters["d"] for one in found)
    shift = abs(variance - 1) * math.sqrt(numel / 2)
    far = max(one.result[name] for one in found for name in ("chosen", "pairs", "token mean", "token square"))
    numbers: dict[str, float | str] = {
        "largest difference of the target from the loops": off,
        "subsets of another size than q": sizes,
        "positions, pairs, tokens: largest distance in standard errors": far,
    }
    return holds_if(off <= TIGHT and not sizes and max(far, shift) <= SIGMAS, numbers)


@claim(
    paper="selection",
    where="Definition 2.1",
    says="The task is to output the mean of the $q$ tokens whose positions the query lists. The tokens are standard "
    "Gaussian, and the set of positions is uniform.",
    cells=task_cells,
    defines=("separatrix.selection.SparseTokenSelection", "separatrix.selection.task.subset_average"),
    neighbours=SELECTION_NEIGHBOURS,
)
def definition_2_1(found: Sequence[Found], target: str = "mean", variance: float = 1.0) -> Finding:
    return task_finding(found, target, variance)


@claim(
    paper="selection",
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
def definition_2_2(found: Sequence[Found], units: str = "one_hot", code: str = "sum") -> Finding:
    wrong = sum(one.result[units] for one in found)
    off = max(one.result[code] for one in found)
    return holds_if(not wrong and off <= TIGHT, {"entries that differ": wrong, "largest difference of e_y": off})


@claim(
    paper="selection",
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
def definition_2_3(found: Sequence[Found], entries: str = "entries", share: float = 1.0, code: str = "code") -> Finding:
    off = max(max(one.result[entries], one.result[code]) for one in found)
    beyond = sum(one.result["dot"] > share * one.parameters["threshold"] + TIGHT for one in found)
    return holds_if(off <= TIGHT and not beyond, {"largest difference": off, "encodings beyond delta": beyond})


@claim(
    paper="selection",
    where="Definition 2.4",
    says="The model is one layer of attention in which the product of the query and key matrices is one matrix $W$: "
    r"its output is $V Z \operatorname{softmax}(Z^\top W z_{\text{query}})$.",
    cells=_transformer_cells,
    defines=("separatrix.selection.SelectionTransformer",),
    neighbours=(
        Neighbour(r"with $W^\top$ in the place of $W$", {"form": "turned"}),
        Neighbour(r"with scores divided by $\sqrt{d + d_e}$", {"form": "scaled"}),
        Neighbour("with the encodings alone in the scores", {"form": "blind"}),
    ),
)
def definition_2_4(found: Sequence[Found], form: str = "it") -> Finding:
    worst = max(one.result[form] for one in found)
    return holds_if(worst <= 1e-10, {"largest difference from the loops": worst})


def stochastic_finding(found: Sequence[Found], over: str) -> Finding:
    """The estimate must be within six standard errors of the mean over all valid encodings."""
    far = max(one.result[over] for one in found)
    return holds_if(far <= SIGMAS, {"largest distance from the mean, in standard errors": far})


STOCHASTIC_NEIGHBOURS = (Neighbour("the mean over all encodings, valid or not", {"over": "everything"}),)


@claim(
    paper="selection",
    where="Definition 2.5",
    says="The model is that of Definition 2.4 with positional encodings that are drawn anew. Its output is the mean "
    "over encodings, given that they are valid.",
    cells=stochastic_cells,
    defines=("separatrix.selection.StochasticSelectionTransformer",),
    neighbours=STOCHASTIC_NEIGHBOURS,
)
def definition_2_5(found: Sequence[Found], over: str = "valid") -> Finding:
    return stochastic_finding(found, over)
