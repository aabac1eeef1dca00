"""Section C of Alman and Song: products of column-wise Kronecker products factor (Lemmas C.3 and C.5).

Both are identities between polynomials in the entries, so they are tested at random integers, where nothing is rounded:
one entry that differs refutes them. A false identity of degree D agrees at a point drawn from S in each coordinate with
probability at most D / |S| (Schwartz and Zippel), so agreement at several points leaves little room.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from separatrix.attention.reference import column_kronecker, tensor_scores
from separatrix.claims.ledger import Finding, Found, Verdict, claim
from separatrix.errors import ArgumentError
from separatrix.lab.cell import Cell
from separatrix.lab.registry import experiment

_FACTORING_RANGE, _TENSOR_RANGE = 2048, 512
"""How many values an entry is drawn from: few enough that no sum leaves int64."""
_LARGEST_N = 512


def integers(generator: torch.Generator, size: int, *shape: int) -> Tensor:
    """Integers (int64) from [-size / 2, size / 2), each as likely as the others."""
    return torch.randint(-size // 2, size // 2, shape, generator=generator)


def _check_length(n: int) -> None:
    if not 1 <= n <= _LARGEST_N:
        raise ArgumentError("n", expected=f"from 1 to {_LARGEST_N}, so that no sum leaves int64", got=n)


@experiment(version=1, name="kronecker.lemma_c3")
def factoring(n: int, d1: int, d2: int, seed: int) -> dict[str, int]:
    """Lemma C.3: C = A^T B for column-wise Kronecker products A, B, against C_1 o C_2; and the flops of each way."""
    _check_length(n)
    generator = torch.Generator().manual_seed(seed)
    A1, A2 = (integers(generator, _FACTORING_RANGE, n, d1) for _ in range(2))
    B1, B2 = (integers(generator, _FACTORING_RANGE, n, d2) for _ in range(2))
    with FlopCounterMode(display=False) as direct:
        C = column_kronecker(A1, A2).mT @ column_kronecker(B1, B2)
    with FlopCounterMode(display=False) as factored:
        product = (A1.mT @ B1) * (A2.mT @ B2)
    return {
        "entries": C.numel(),
        "mismatches": int((product != C).sum()),
        "direct_flops": direct.get_total_flops(),
        "factored_flops": factored.get_total_flops(),
    }


def _factoring_cells() -> Iterator[Cell]:
    for n, d1, d2 in ((1, 3, 2), (3, 1, 5), (16, 7, 4), (32, 7, 4), (64, 7, 4), (128, 7, 4)):
        for seed in range(4):
            yield factoring.cell(seed=seed, n=n, d1=d1, d2=d2)


@claim(
    paper="kronecker",
    where="Lemma C.3",
    says="The product A^T B of two column-wise Kronecker products, each with n^2 rows, is the entrywise product of "
    "A_1^T B_1 and A_2^T B_2, so that it costs two products with n rows.",
    cells=_factoring_cells,
    figures=("kronecker_product_flops",),
)
def lemma_c3(found: Sequence[Found]) -> Finding:
    """Part 1 by integers; part 2 by counting: 2 T_mat(d_1, n, d_2) is 4 d_1 n d_2 flops."""
    mismatches = sum(one.result["mismatches"] for one in found)
    # Part 2 promises O(T_mat(d_1, n, d_2)); we hold it to the two products that its proof makes.
    dearer = sum(
        one.result["factored_flops"] != 4 * one.parameters["n"] * one.parameters["d1"] * one.parameters["d2"]
        for one in found
    )
    seeds = len({one.seed for one in found})
    numbers: dict[str, float | str] = {
        "entries compared": sum(one.result["entries"] for one in found),
        "entries that differ": mismatches,
        "cells with other flops than two products": dearer,
        "chance that a false identity passes": (4 / _FACTORING_RANGE) ** seeds,
    }
    return Finding(Verdict.FAILS_AS_PRINTED if mismatches or dearer else Verdict.HOLDS, numbers)


@experiment(version=1, name="kronecker.lemma_c5")
def tensor_identities(n: int, d: int, seed: int) -> dict[str, int]:
    """Lemma C.5: entries that differ in its three parts, and how many there are."""
    _check_length(n)
    generator = torch.Generator().manual_seed(seed)
    Q, K1, K2, V1, V2 = (integers(generator, _TENSOR_RANGE, n, d) for _ in range(5))
    A = Q @ column_kronecker(K1, K2).mT
    T = tensor_scores(Q, [K1, K2], 1)
    # Columns j_1 + (j_2 - 1) n, counted from 1, are j_1 + j_2 n from 0.
    columns = torch.arange(n).unsqueeze(1) + n * torch.arange(n)
    one = torch.ones(n, 1, dtype=torch.int64)
    sums = A.sum(1, keepdim=True)
    by_tensor = torch.einsum("abc,ai,bj,cl->ijl", T, torch.eye(n, dtype=torch.int64), one, one).flatten(1)
    by_sums = tensor_scores(Q, [K1.sum(0, keepdim=True), K2.sum(0, keepdim=True)], 1).flatten(1)
    applied = A @ column_kronecker(V1, V2)
    factored = Q @ ((K1.mT @ V1) * (K2.mT @ V2))
    return {
        "part1": int((A[:, columns] != T).sum()),
        "part2": int((sums != by_tensor).sum() + (sums != by_sums).sum()),
        "part3": int((applied != factored).sum()),
        "entries": T.numel() + 2 * sums.numel() + applied.numel(),
    }


def _tensor_cells() -> Iterator[Cell]:
    for n, d in ((1, 1), (2, 5), (9, 3), (24, 6)):
        for seed in range(5):
            yield tensor_identities.cell(seed=seed, n=n, d=d)


def _check_part(found: Sequence[Found], part: str, degree: int) -> Finding:
    mismatches = sum(one.result[part] for one in found)
    seeds = len({one.seed for one in found})
    numbers: dict[str, float | str] = {
        "entries that differ": mismatches,
        "shapes": len({(one.parameters["n"], one.parameters["d"]) for one in found}),
        "chance that a false identity passes": (degree / _TENSOR_RANGE) ** seeds,
    }
    return Finding(Verdict.FAILS_AS_PRINTED if mismatches else Verdict.HOLDS, numbers)


@claim(
    paper="kronecker",
    where="Lemma C.5",
    part="part 1",
    says="The matrix Q (K_1 (x) K_2)^T is the tensor of the triple inner products, its column j_1 + (j_2 - 1) n being "
    "the pair (j_1, j_2).",
    cells=_tensor_cells,
)
def lemma_c5_part_1(found: Sequence[Found]) -> Finding:
    return _check_part(found, "part1", 3)


@claim(
    paper="kronecker",
    where="Lemma C.5",
    part="part 2",
    says="Its row sums need only the column sums of K_1 and K_2.",
    cells=_tensor_cells,
)
def lemma_c5_part_2(found: Sequence[Found]) -> Finding:
    return _check_part(found, "part2", 3)


@claim(
    paper="kronecker",
    where="Lemma C.5",
    part="part 3",
    says="Its product with V_1 (x) V_2 is Q times the entrywise product of K_1^T V_1 and K_2^T V_2.",
    cells=_tensor_cells,
)
def lemma_c5_part_3(found: Sequence[Found]) -> Finding:
    return _check_part(found, "part3", 5)
