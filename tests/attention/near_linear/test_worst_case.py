"""Plans for shapes alone: the worst case over all entries, computed with numbers as with tensors, without torch."""

from __future__ import annotations

import math
import re

import pytest
import torch

import separatrix as sx
from separatrix.attention.near_linear.approximation.remainder import chebyshev, taylor
from separatrix.attention.near_linear.cost import LARGEST_DEGREE
from separatrix.attention.near_linear.worst_case import LARGEST_RADIUS, paper_rank, threshold, worst_case_degree


@pytest.mark.parametrize("radius", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("tolerance", [1e-2, 1e-6])
def test_worst_case_degree_is_enough(radius, tolerance):
    """One coordinate, scores spread over [-R, R], values +-1: the worst-case degree is always enough."""
    degree = worst_case_degree(radius, tolerance)
    keys = torch.linspace(-1, 1, 41, dtype=torch.float64).reshape(-1, 1)
    values = torch.sign(keys) + (keys == 0)
    query = torch.tensor([[radius], [-radius]], dtype=torch.float64)
    result = sx.certified_attention(query, keys, values, tolerance=tolerance, scale=1.0, method="polynomial")
    assert result.plan.degree <= degree


def test_plan_shapes():
    plan = sx.plan_shapes(10**6, 8, 0.9, 3, 1e-3)
    assert plan.method == "polynomial"
    assert plan.rank == math.comb(8 + plan.degree, plan.degree)
    assert sx.plan_shapes(1000, 8, 30.0, 3, 1e-3).method == "exact"
    assert "at or above" in sx.plan_shapes(1000, 8, 30.0, 3, 1e-3).why
    assert sx.plan_shapes(100, 8, 0.0, 2, 1e-3).rank in (None, 1)


def test_plan_shapes_says_if_no_method_is_in_reach_and_suggests_alternatives():
    """Rank 11,238,513 exceeds the largest rank that is tried, and so do the flops of exact attention."""
    n, d = 100_000, 64
    beyond = sx.plan_shapes(n, d, 1.0, 3, 1e-3)
    assert (beyond.method, beyond.rank) == ("none", None)
    assert beyond.why.startswith("neither method is in reach")
    bound, tolerance, shorter = (
        float(re.search(pattern, beyond.why).group(1))
        for pattern in (r"B <= ([\d.e-]+) at this", r"a tolerance of ([\d.e-]+),", r"at n <= (\d+)")
    )
    assert sx.plan_shapes(n, d, bound, 3, 1e-3).method == "polynomial"
    assert sx.plan_shapes(n, d, 1.0, 3, tolerance).method == "polynomial"
    assert sx.plan_shapes(int(shorter), d, 1.0, 3, 1e-3).method == "exact"
    assert sx.plan_shapes(n, d, 1.1 * bound, 3, 1e-3).method == "none"


def test_a_plan_without_any_degree_names_no_rank():
    why = sx.plan_shapes(10**12, 64, 4.0, 3, 1e-8).why
    assert "no degree up to" in why
    assert "rank inf" not in why


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ((0, 8, 1.0, 3, 1e-3), "n"),
        ((10, 8.0, 1.0, 3, 1e-3), "d"),
        ((10, 8, -1.0, 3, 1e-3), "bound"),
        ((10, 8, math.nan, 3, 1e-3), "bound"),
        ((10, 8, 1.0, 1, 1e-3), "order"),
        ((10, 8, 1.0, 3, 0.0), "tolerance"),
        ((10, 8, 1.0, 3, True), "tolerance"),
    ],
)
def test_plan_shapes_refuses(arguments, name):
    with pytest.raises(sx.ArgumentError, match=f"^{name}: expected"):
        sx.plan_shapes(*arguments)


@pytest.mark.parametrize("order", [2, 64])
@pytest.mark.parametrize("bound", [0.0, 1e-300, 1e300])
@pytest.mark.parametrize("d", [1, 2**31])
@pytest.mark.parametrize("n", [1, 2**62])
def test_shapes_at_the_ends_of_their_ranges_have_a_plan(n, d, bound, order):
    for tolerance in (1e-300, 1e300):
        plan = sx.plan_shapes(n, d, bound, order, tolerance)
        assert plan.method in ("exact", "polynomial", "none")
        assert plan.why


BEYOND = {"n": 2**62 + 1, "n of 9999 digits": 10**9999, "d": 2**31 + 1, "order": 65}


@pytest.mark.parametrize("what", BEYOND)
def test_shapes_beyond_them_are_refused(what):
    name = what.split()[0]
    sizes = {"n": 10, "d": 4, "order": 3} | {name: BEYOND[what]}
    with pytest.raises(sx.ArgumentError, match=f"^{name}: expected an integer from"):
        sx.plan_shapes(bound=1.0, tolerance=1e-3, **sizes)


def errors_by_tensors(degree, radii):
    """The worst-case bounds on |exp - P| for the Taylor or the Chebyshev polynomial, computed with tensors as in a
    call.
    """
    polynomial = taylor(degree)
    errors = polynomial.factors(radii, float(radii.max())) * radii**polynomial.moment
    best = torch.tensor(
        [chebyshev(degree, 0, R).factor if R >= 0.25 else math.inf for R in radii.tolist()], dtype=radii.dtype
    )
    return torch.minimum(errors, best)


def test_degrees_are_those_of_tensors():
    """The planner of shapes computes with numbers, the planner of calls with tensors: they choose the same degree."""
    generator = torch.Generator().manual_seed(0)
    drawn = 10 ** (6 * torch.rand(8, dtype=torch.float64, generator=generator) - 4)
    radii = torch.cat([drawn[drawn <= LARGEST_RADIUS], torch.tensor([0.0, 0.25, 8.0, 50.0], dtype=torch.float64)])
    tolerances = 10 ** (12 * torch.rand(6, dtype=torch.float64, generator=generator) - 12)
    errors = torch.stack([errors_by_tensors(degree, radii) for degree in range(LARGEST_DEGREE + 1)])
    smallest = torch.exp(-radii) - errors
    forecast = torch.where(smallest > 0, 2 * errors / smallest, math.inf)
    degrees = set()
    for column, radius in enumerate(radii.tolist()):
        for tolerance in tolerances.tolist():
            kept = torch.nonzero(forecast[:, column] <= tolerance).flatten().tolist()
            assert worst_case_degree(radius, tolerance) == (kept[0] if kept else None)
            degrees.add(kept[0] if kept else None)
    assert len(degrees) > 10
    assert None in degrees


PLANS = """
import random, sys
if sys.argv[1] == "after torch":
    import torch
import separatrix as sx
drawn = random.Random(0)
for _ in range(120):
    n, d, order = int(10 ** drawn.uniform(0, 9)), drawn.randint(1, 40), drawn.randint(2, 6)
    print(sx.plan_shapes(n, d, 10 ** drawn.uniform(-1.5, 0.5), order, 10 ** drawn.uniform(-9, 0)))
print("torch" in sys.modules)
"""


@pytest.mark.parametrize("threads", ["1", "2"])
def test_plans_are_the_same_whether_torch_is_imported_or_not(run, threads):
    """Plans agree in every number and word, also in their memory, part of which is per thread."""
    found = [run(PLANS, when, OMP_NUM_THREADS=threads) for when in ("without torch", "after torch")]
    assert [(one.returncode, one.stderr) for one in found] == [(0, ""), (0, "")]
    (*without, no), (*after, yes) = (one.stdout.splitlines() for one in found)
    assert (no, yes) == ("False", "True")
    assert without == after
    assert len({re.search("method='(.*?)'", line)[1] for line in without}) == 3


def test_torch_works_after_a_plan_without_it(run):
    """After a plan that did not import torch, torch can be imported, and the kernels use its threads."""
    code = """
import sys, separatrix as sx
sx.plan_shapes(10**6, 8, 0.9, 3, 1e-3)
assert "torch" not in sys.modules
import torch
from separatrix.native import native
q, k, v = torch.rand(3, 2000, 4, dtype=torch.float64)
found = sx.certified_attention(q, k, v, tolerance=1e-3, method="polynomial")
print(found.certificate.total <= 1e-3, native().threads == (native().library is not None))
assert torch.allclose(torch.linalg.inv(torch.eye(64) * 2), torch.eye(64) / 2)
"""
    done = run(code)
    assert (done.stdout, done.stderr) == ("True True\n", "")


def test_a_plan_does_not_depend_on_the_number_of_threads():
    threads, plans = torch.get_num_threads(), []
    x = torch.rand(5, 2000, 4, generator=torch.Generator().manual_seed(0)) - 0.5
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            plans.append(
                [
                    sx.plan_shapes(20000, 8, 1.0, 3, 1e-3),
                    sx.plan_attention(x[0], [x[1], x[2]], [x[3], x[4]], tolerance=1e-3),
                    sx.plan_attention(x[0], [x[1], x[2]], [x[3], x[4]], tolerance=1e-3, is_causal=True),
                ]
            )
    finally:
        torch.set_num_threads(threads)
    assert plans[0] == plans[1] == plans[2]


@pytest.mark.parametrize("bound", [1.01, 1.5, 2.0, 3.6])
@pytest.mark.parametrize("n", [3, 100, 10**6, 10**50])
def test_max_order_is_the_papers_rule(n, bound):
    k = sx.max_order(n, bound)
    assert k == 0 or bound < math.log(n) ** (1 / k)
    assert bound >= math.log(n) ** (1 / (k + 1)) * (1 - 1e-12)


def test_max_order_at_most_one():
    assert sx.max_order(100, 1.0) == math.inf
    assert sx.max_order(2, 0.9) == math.inf
    with pytest.raises(sx.ArgumentError, match="n: expected"):
        sx.max_order(1, 0.5)
    with pytest.raises(sx.ArgumentError, match="bound: expected"):
        sx.max_order(10, math.inf)


def test_ranks_of_the_paper_and_ours():
    assert paper_rank(8, 4, 3) == 1251677700
    assert threshold(10**6, 3) == pytest.approx(2.3997, abs=1e-3)
