"""Section 1 of Alman and Song on triples, after Sanford, Hsu and Telgarsky: pairs, triples, and what pairs cannot do.

That attention of order 3 detects triples, and of order 2 pairs, is shown by heads whose weights are given
(`separatrix.hardness.match_construction`); every decision is compared with an exact solver's. That order 2 does not
detect triples is a statement about all weights of bounded size, which follows from a lower bound for disjointness: the
parts of that proof that a program can check, it checks.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import torch
from torch import Tensor

import separatrix as sx
from separatrix.attention import reference
from separatrix.claims.ledger import Finding, Found, Neighbour, Verdict, claim, holds_if
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
    """How many decisions of the head are not the labels; with `shifted`, also how many are not those."""
    out = match_outputs(x, modulus, order, frequencies=count, dtype=_DTYPES[dtype])
    found = {
        "decisions": labels.numel(),
        "matches": int(labels.sum()),
        "wrong": int(((out > 0.5) != labels).sum()),
        "least_at_match": float(out[labels].min()) if labels.any() else None,
        "most_elsewhere": float(out[~labels].max()) if not labels.all() else None,
    }
    return found if shifted is None else {**found, "wrong_shifted": int(((out > 0.5) != shifted).sum())}


@experiment(version=2, name="kronecker.match_exhaustive")
def every_instance(order: int, modulus: int, n: int, dtype: Precision, seed: int) -> dict[str, Any]:
    """All M^n inputs, every position decided by the head and by the definition. Nothing is drawn.

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
    """Four long inputs, or all of the adversarial ones, every position decided by the head and by the solver."""
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
    """The margin, the inverse temperature and the entry bound in exact arithmetic, for each modulus."""
    sharp = [sharpness(n, modulus, order, frequencies, None) for modulus in moduli]
    return {
        "margin": [margin(modulus, frequencies) for modulus in moduli],
        "inverse_temperature": [one.inverse_temperature for one in sharp],
        "entry_bound": [one.entry_bound for one in sharp],
        "largest_float32": largest_modulus(order, frequencies, torch.float32),
        "largest_float64": largest_modulus(order, frequencies, torch.float64),
    }


@experiment(version=1, name="kronecker.match_drawn")
def one_triple(n: int, modulus: int, seed: int) -> dict[str, Any]:
    """One input with one triple through position 0: the attention of position 0 over pairs, the blank last."""
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


def _decisions(found: Sequence[Found], wrong: str) -> dict[str, float | str]:
    results = [one.result for one in found if "wrong" in one.result]
    matches, decisions = (sum(one[name] for one in results) for name in ("matches", "decisions"))
    return {
        "decisions compared": decisions,
        "of them matches": matches,
        "wrong decisions": sum(one.get(wrong, 0) for one in results),
        "least output at a match": min(one["least_at_match"] for one in results if one["least_at_match"] is not None),
        "largest output elsewhere": max(one["most_elsewhere"] for one in results if one["most_elsewhere"] is not None),
    }


@claim(
    paper="kronecker",
    where="Section 1",
    part="pairs",
    says="Ordinary attention detects correlated pairs: one head decides at every position $i$ whether some $j$ has "
    "$x_i + x_j = 0$ modulo $M$.",
    cells=_pair_cells,
    neighbours=(_SHIFTED,),
)
def pairs(found: Sequence[Found], wrong: str = "wrong") -> Finding:
    numbers = _decisions(found, wrong)
    return holds_if(not numbers["wrong decisions"], numbers)


@claim(
    paper="kronecker",
    where="Section 1",
    part="triples",
    says="Attention of order 3 detects correlated triples: one head decides at every position $i$ whether some "
    "$j_1, j_2$ have $x_i + x_{j_1} + x_{j_2} = 0$ modulo $M$; and order $k$ detects tuples of $k$.",
    cells=_triple_cells,
    figures=("triple_found", "match_entry_bound"),
    neighbours=(_SHIFTED,),
)
def triples(found: Sequence[Found], wrong: str = "wrong") -> Finding:
    """No decision may be wrong, and the triple that is drawn must be one."""
    numbers = _decisions(found, wrong)
    drawn = next(one for one in found if "weights" in one.result)
    is_triple = drawn.result["sum"] is not None and drawn.result["sum"] % drawn.parameters["modulus"] == 0
    single = next(one for one in found if "margin" in one.result and one.parameters["frequencies"] == 1)
    numbers |= {
        "largest modulus at order 3, width 4": f"{single.result['largest_float32']:,} in float32, "
        f"{single.result['largest_float64']:,} in float64",
        "margin x M^2 at M = 2^31 (2 pi^2 = 19.739)": single.result["margin"][-1] * float(2**62),
        "weight on the pair drawn and its mirror": 2 * max(max(row) for row in drawn.result["weights"]),
    }
    mistaken = numbers["wrong decisions"] or not is_triple
    note = (
        "The width is k + 1, whatever n and M; the entries grow as (M^2 ln n)^(1/k), or with F frequencies and width "
        "k F + 1 as (M^(2/F) ln n)^(1/k)."
    )
    return holds_if(not mistaken, numbers, note)


@experiment(version=1, name="kronecker.match_disjointness")
def disjointness(m: int, seed: int) -> dict[str, Any]:
    """All 4^m pairs of subsets as inputs of Match3, and a random head of order 2 computed by two parties.

    Alice's token l is 4 l if l is in her set, Bob's is -1 - 4 l if in his, else 1; x_0 = 1, modulo 4 m.
    `rank` is that of the disjointness matrix modulo a prime, which is at most its rank.
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
    held = torch.randn(2 * m + 1, d_v, generator=generator, dtype=torch.float64)
    whole = sx.tensor_attention(query, key, held, scale=1.0)
    share = [torch.exp(query @ key[part].T) for part in (slice(0, m + 1), slice(m + 1, None))]
    sent = torch.cat([share[0] @ held[: m + 1], share[0].sum(1, keepdim=True)], 1)
    summed = sent + torch.cat([share[1] @ held[m + 1 :], share[1].sum(1, keepdim=True)], 1)
    return {
        "inputs": len(x),
        "wrong": int((match_labels(x, M, 3)[:, 0] == disjoint).sum()),
        "rank": rank_modulo(matrix),
        "numbers_sent": sent.numel(),
        "value_width": d_v,
        "error": float((summed[:, :-1] / summed[:, -1:] - whole).abs().max()),
    }


@claim(
    paper="kronecker",
    where="Section 1",
    part="pairs cannot",
    says="Ordinary attention units cannot detect triples: what a head passes on does not grow with $n$, and what "
    "the task Match3 needs does.",
    cells=lambda: (disjointness.cell(seed=0, m=m) for m in range(1, 7)),
    neighbours=(
        Neighbour("disjointness of $m$ elements has rank $2^m - 1$", {"less": 1}),
        Neighbour("a head passes on one number fewer", {"more": 0}),
    ),
)
def pairs_cannot(found: Sequence[Found], less: int = 0, more: int = 1) -> Finding:
    """Illustrated if the reduction is right, the matrix of full rank and the head split in value_width + 1 numbers."""
    results = [(one.parameters["m"], one.result) for one in found]
    numbers: dict[str, float | str] = {
        "inputs of Match3 made from pairs of sets": sum(one["inputs"] for _, one in results),
        "of them with the wrong answer": sum(one["wrong"] for _, one in results),
        "bits that disjointness of m elements takes": ", ".join(
            f"m = {m}: {one['rank'].bit_length() - 1}" for m, one in results
        ),
        "numbers that a head passes on": max(one["numbers_sent"] for _, one in results),
        "largest error of the head computed by two": max(one["error"] for _, one in results),
    }
    right = all(
        one["wrong"] == 0
        and one["rank"] == 2**m - less
        and one["numbers_sent"] == one["value_width"] + more
        and one["error"] < 1e-12
        for m, one in results
    )
    note = (
        "So h heads of value width d_v with numbers of p bits that decide Match3 at one position, n = 2 m + 1 and "
        "M = 4 m, have h (d_v + 1) p >= m: proved for all m, and its parts are checked here. With numbers of "
        "unlimited precision there is no such bound."
    )
    return Finding(Verdict.ILLUSTRATED if right else Verdict.FAILS_AS_PRINTED, numbers, note)
