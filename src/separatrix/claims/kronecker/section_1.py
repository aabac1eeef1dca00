"""Section 1 of Alman and Song on triples, after Sanford, Hsu and Telgarsky: pairs, triples, and what pairs cannot do.

Heads with explicit weights (`separatrix.hardness.match_construction`) show that attention of order 3 detects triples
and that order 2 detects pairs; every decision is compared with an exact solver. The statement that order 2 does not
detect triples is about all weights of bounded size. It follows from a lower bound for disjointness, and the steps of
that proof that a program can check are checked here.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import torch
from torch import Tensor

import separatrix as sx
from separatrix.attention import reference
from separatrix.claims.cell_grid import cell_grid
from separatrix.claims.ledger import CellResult, Finding, Neighbour, Verdict, claim, holds_if
from separatrix.hardness.match_construction import match_features, match_outputs
from separatrix.hardness.match_instances import adversarial_instances, planted_instances, uniform_instances
from separatrix.hardness.match_margin import largest_modulus, margin, sharpness
from separatrix.hardness.matching import match_by_definition, match_labels
from separatrix.hardness.modular import rank_modulo
from separatrix.lab.cell import Cell
from separatrix.lab.registry import experiment

Precision = Literal["float32", "float64"]
_DTYPES = {"float32": torch.float32, "float64": torch.float64}


def _compared(
    x: Tensor, labels: Tensor, modulus: int, order: int, count: int, dtype: Precision, shifted: Tensor | None = None
) -> dict[str, Any]:
    """Count the decisions of the head that differ from the labels, and from the labels `shifted` if these are given."""
    out = match_outputs(x, modulus, order, frequencies=count, dtype=_DTYPES[dtype])
    counts = {
        "decisions": labels.numel(),
        "matches": int(labels.sum()),
        "wrong": int(((out > 0.5) != labels).sum()),
        "least_at_match": float(out[labels].min()) if labels.any() else None,
        "most_elsewhere": float(out[~labels].max()) if not labels.all() else None,
    }
    return counts if shifted is None else {**counts, "wrong_shifted": int(((out > 0.5) != shifted).sum())}


@experiment(version=2, name="kronecker.match_exhaustive")
def every_instance(order: int, modulus: int, n: int, dtype: Precision, seed: int) -> dict[str, Any]:
    """Compare the decisions of the head with the definition, at every position of all M^n inputs.

    `wrong_shifted` counts the wrong decisions if the sums had to be 1 modulo M.
    """
    x = torch.cartesian_prod(*[torch.arange(modulus)] * n).reshape(-1, n)
    labels = torch.stack([match_by_definition(row, modulus, order) for row in x])
    sums = x
    for _ in range(order - 1):
        sums = (sums.unsqueeze(-1) + x.reshape(len(x), *[1] * (sums.dim() - 1), n)) % modulus
    return _compared(x, labels, modulus, order, 1, dtype, (sums == 1 % modulus).flatten(2).any(2))


@experiment(version=1, name="kronecker.match_long")
def long_instances(
    order: int,
    modulus: int,
    n: int,
    frequencies: int,
    dtype: Precision,
    kind: Literal["uniform", "planted", "adversarial"],
    seed: int,
) -> dict[str, Any]:
    """Compare the decisions of the head with the solver, on four long inputs or all adversarial inputs."""
    generator = torch.Generator().manual_seed(seed)
    if kind == "uniform":
        x = uniform_instances(4, n, modulus, generator=generator)
    elif kind == "planted":
        x = planted_instances(4, n, modulus, order, generator=generator)[0]
    else:
        x = adversarial_instances(n, modulus, order)
    return _compared(x, match_labels(x, modulus, order), modulus, order, frequencies, dtype)


@experiment(version=1, name="kronecker.match_sharpness")
def needs(order: int, n: int, frequencies: int, moduli: list[int], seed: int) -> dict[str, Any]:
    """Return the margin, the inverse temperature and the entry bound for each modulus, in exact arithmetic."""
    sharp = [sharpness(n, modulus, order, frequencies, None) for modulus in moduli]
    return {
        "margin": [margin(modulus, frequencies) for modulus in moduli],
        "inverse_temperature": [head.inverse_temperature for head in sharp],
        "entry_bound": [head.entry_bound for head in sharp],
        "largest_float32": largest_modulus(order, frequencies, torch.float32),
        "largest_float64": largest_modulus(order, frequencies, torch.float64),
    }


@experiment(version=1, name="kronecker.match_drawn")
def one_triple(n: int, modulus: int, seed: int) -> dict[str, Any]:
    """Return the attention weights of position 0 over pairs, the blank last, for an input with one planted triple."""
    x = planted_instances(2, n, modulus, 3, generator=torch.Generator().manual_seed(seed))[0][1]
    sharp = sharpness(n, modulus, 3)
    query, keys, _ = match_features(x, modulus, 3, 1, sharp)
    weights = torch.softmax(reference.tensor_scores(query[:1], keys, 1.0).flatten(), 0).reshape(n + 1, n + 1)
    j1, j2 = divmod(int(weights.argmax()), n + 1)
    return {
        "tokens": x.tolist(),
        "weights": weights.tolist(),
        "j1": j1,
        "j2": j2,
        "sum": int(x[0] + x[j1] + x[j2]) if n not in (j1, j2) else None,
        "output": float(match_outputs(x, modulus, 3)[0]),
    }


def _pair_cells() -> Iterator[Cell]:
    for dtype in ("float32", "float64"):
        for modulus, n in ((2, 5), (3, 5), (5, 4), (6, 4), (9, 3), (20, 2)):
            yield every_instance.cell(seed=0, order=2, modulus=modulus, n=n, dtype=dtype)
    for dtype, modulus in (("float32", 2000), ("float64", 30_000_000)):
        for kind in ("uniform", "planted", "adversarial"):
            yield long_instances.cell(seed=0, order=2, modulus=modulus, n=1000, frequencies=1, dtype=dtype, kind=kind)


def _triple_cells() -> Iterator[Cell]:
    for order in (3, 4):
        for dtype in ("float32", "float64"):
            for modulus, n in ((2, 4), (3, 4), (5, 4), (6, 3), (9, 3), (20, 2)):
                yield every_instance.cell(seed=0, order=order, modulus=modulus, n=n, dtype=dtype)
    for dtype, modulus, frequencies in (
        ("float32", 100, 1),
        ("float32", 2000, 1),
        ("float32", 1_000_000, 2),
        ("float64", 30_000, 1),
        ("float64", 24_000_000, 1),
        ("float64", 2**31, 2),
    ):
        for kind in ("uniform", "planted", "adversarial"):
            yield long_instances.cell(
                seed=0, order=3, modulus=modulus, n=200, frequencies=frequencies, dtype=dtype, kind=kind
            )
    for kind in ("uniform", "adversarial"):
        yield long_instances.cell(seed=0, order=4, modulus=15_000, n=32, frequencies=1, dtype="float64", kind=kind)
    for frequencies in (1, 2, 3, 4):
        moduli = [2**p for p in range(4, 32)]
        yield needs.cell(seed=0, order=3, n=200, frequencies=frequencies, moduli=moduli)
    yield one_triple.cell(seed=3, n=14, modulus=100)


_SHIFTED = Neighbour("whether the sum is 1 modulo $M$", {"wrong": "wrong_shifted"})


def _decisions(cells: Sequence[CellResult], wrong: str) -> dict[str, float | str]:
    results = [cell.result for cell in cells if "wrong" in cell.result]
    matches, decisions = (sum(result[name] for result in results) for name in ("matches", "decisions"))
    return {
        "decisions compared": decisions,
        "decisions at a match": matches,
        "wrong decisions": sum(result.get(wrong, 0) for result in results),
        "least output at a match": min(
            result["least_at_match"] for result in results if result["least_at_match"] is not None
        ),
        "largest output elsewhere": max(
            result["most_elsewhere"] for result in results if result["most_elsewhere"] is not None
        ),
    }


@claim(
    where="Section 1",
    part="pairs",
    says="Ordinary attention detects correlated pairs: one head decides at every position $i$ whether some $j$ has "
    "$x_i + x_j = 0$ modulo $M$.",
    cells=_pair_cells,
    neighbours=(_SHIFTED,),
)
def pairs(cells: Sequence[CellResult], wrong: str = "wrong") -> Finding:
    numbers = _decisions(cells, wrong)
    return holds_if(not numbers["wrong decisions"], numbers)


@claim(
    where="Section 1",
    part="triples",
    says="Attention of order 3 detects correlated triples: one head decides at every position $i$ whether some "
    "$j_1, j_2$ have $x_i + x_{j_1} + x_{j_2} = 0$ modulo $M$; and order $k$ detects tuples of $k$.",
    cells=_triple_cells,
    figures=("triple_found", "match_entry_bound"),
    neighbours=(_SHIFTED,),
)
def triples(cells: Sequence[CellResult], wrong: str = "wrong") -> Finding:
    """Check that no decision is wrong, and that the planted triple has the largest weight."""
    numbers = _decisions(cells, wrong)
    drawn = next(cell for cell in cells if "weights" in cell.result)
    is_triple = drawn.result["sum"] is not None and drawn.result["sum"] % drawn.parameters["modulus"] == 0
    single = next(cell for cell in cells if "margin" in cell.result and cell.parameters["frequencies"] == 1)
    numbers |= {
        "largest modulus at order 3, width 4": f"{single.result['largest_float32']:,} in float32, "
        f"{single.result['largest_float64']:,} in float64",
        "margin x M^2 at M = 2^31 (2 pi^2 = 19.739)": single.result["margin"][-1] * float(2**62),
        "weight on the pair drawn and its mirror": 2 * max(max(row) for row in drawn.result["weights"]),
    }
    mistaken = numbers["wrong decisions"] or not is_triple
    note = (
        "The width is k + 1 for every n and M; the entries grow as (M^2 ln n)^(1/k), or with F frequencies and width "
        "k F + 1 as (M^(2/F) ln n)^(1/k)."
    )
    return holds_if(not mistaken, numbers, note)


@experiment(version=1, name="kronecker.match_disjointness")
def disjointness(m: int, seed: int) -> dict[str, Any]:
    """Encode all 4^m pairs of subsets as inputs of Match3, and let two parties compute a random head of order 2.

    Alice's token l is 4 l if l is in her set and 1 otherwise, Bob's is -1 - 4 l if l is in his set and 1 otherwise; x_0
    = 1, modulo 4 m. `rank` is the rank of the disjointness matrix modulo a prime, a lower bound on its rank.
    """
    M = 4 * m
    sets = torch.tensor(list(itertools.product((0, 1), repeat=m)))
    value = 4 * torch.arange(1, m + 1)
    alice, bob = torch.where(sets == 1, value, 1), torch.where(sets == 1, -1 - value, 1)
    pairs = torch.cartesian_prod(torch.arange(len(sets)), torch.arange(len(sets)))
    ones = torch.ones(len(pairs), 1, dtype=torch.int64)
    x = torch.cat([ones, alice[pairs[:, 0]], bob[pairs[:, 1]]], 1)
    disjoint = (sets[pairs[:, 0]] * sets[pairs[:, 1]]).sum(1) == 0
    matrix = disjoint.reshape(len(sets), len(sets)).long().numpy()

    generator = torch.Generator().manual_seed(seed)
    d_v = 3
    query, key = (torch.randn(rows, 4, generator=generator, dtype=torch.float64) for rows in (1, 2 * m + 1))
    head_value = torch.randn(2 * m + 1, d_v, generator=generator, dtype=torch.float64)
    output = sx.tensor_attention(query, key, head_value, scale=1.0)
    share = [torch.exp(query @ key[part].T) for part in (slice(0, m + 1), slice(m + 1, None))]
    sent = torch.cat([share[0] @ head_value[: m + 1], share[0].sum(1, keepdim=True)], 1)
    summed = sent + torch.cat([share[1] @ head_value[m + 1 :], share[1].sum(1, keepdim=True)], 1)
    return {
        "inputs": len(x),
        "wrong": int((match_labels(x, M, 3)[:, 0] == disjoint).sum()),
        "rank": rank_modulo(matrix),
        "numbers_sent": sent.numel(),
        "value_width": d_v,
        "error": float((summed[:, :-1] / summed[:, -1:] - output).abs().max()),
    }


@claim(
    where="Section 1",
    part="pairs cannot",
    says="Ordinary attention units cannot detect triples: the number of bits that a head passes on does not grow "
    "with $n$, and the number that the task Match3 needs does.",
    cells=cell_grid(disjointness, {"m": range(1, 7)}),
    neighbours=(
        Neighbour("disjointness of $m$ elements has rank $2^m - 1$", {"less": 1}),
        Neighbour("a head passes on one number fewer", {"more": 0}),
    ),
)
def pairs_cannot(cells: Sequence[CellResult], less: int = 0, more: int = 1) -> Finding:
    """Return *illustrated* if the reduction, the rank of the matrix and the count of numbers sent are correct."""
    results = [(cell.parameters["m"], cell.result) for cell in cells]
    numbers: dict[str, float | str] = {
        "inputs of Match3 made from pairs of sets": sum(result["inputs"] for _, result in results),
        "inputs with the wrong answer": sum(result["wrong"] for _, result in results),
        "bits that disjointness of m elements takes": ", ".join(
            f"m = {m}: {result['rank'].bit_length() - 1}" for m, result in results
        ),
        "numbers that a head passes on": max(result["numbers_sent"] for _, result in results),
        "largest error of the head computed by two parties": max(result["error"] for _, result in results),
    }
    right = all(
        result["wrong"] == 0
        and result["rank"] == 2**m - less
        and result["numbers_sent"] == result["value_width"] + more
        and result["error"] < 1e-12
        for m, result in results
    )
    note = (
        "If h heads of value width d_v, with numbers of p bits, decide Match3 at one position for n = 2 m + 1 and M "
        "= 4 m, then h (d_v + 1) p >= m. This is proved for all m, and the parts of the proof are checked here. "
        "With numbers of unlimited precision there is no such bound."
    )
    return Finding(Verdict.ILLUSTRATED if right else Verdict.FAILS_AS_PRINTED, numbers, note)
