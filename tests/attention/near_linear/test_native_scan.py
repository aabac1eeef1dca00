"""The causal scan in C++ against the definition and plain PyTorch, and its order of summation."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from separatrix.attention.arithmetic.rounding import expanded_sum
from separatrix.attention.call import Call, Positions
from separatrix.attention.near_linear import backend, causal
from separatrix.attention.near_linear import torch as plain
from separatrix.attention.near_linear.approximation.coordinates import Frame
from separatrix.attention.near_linear.approximation.monomials import IndexSet, downward_closed, total_degree
from separatrix.attention.near_linear.cost import chunk_tokens
from separatrix.attention.near_linear.native import scan, scan_backward
from separatrix.attention.near_linear.sums import Expansion, Sums
from separatrix.native import native, runnable

pytestmark = pytest.mark.skipif(native().library is None, reason="no kernels are installed, or they are switched off")

HEADS, SCALE = 2, 0.3
UNEVEN = downward_closed([(0, 0, 0), (1, 0, 0), (2, 0, 0), (3, 0, 0), (0, 0, 1), (0, 1, 0), (1, 0, 1), (1, 1, 0)])


@dataclass(frozen=True)
class Case:
    """The sizes of a causal call; `key_lengths` has a length for each key set."""

    length: int
    key_lengths: tuple[int, ...]
    index_set: IndexSet
    d_v: int
    offset: int = 0
    moment: int | None = None
    masked: bool = False
    before: bool = False
    heads: int = HEADS


CASES = {
    "order 2": Case(50, (50,), total_degree(3, 3), 2),
    "order 2, wide values, more keys than queries": Case(37, (90,), total_degree(2, 4), 27, offset=53, moment=2),
    "order 3": Case(33, (33, 33), total_degree(6, 4), 8, moment=4),
    "order 3, lengths differ, masks, states before": Case(
        50, (40, 61), total_degree(3, 3), 3, offset=5, masked=True, before=True, moment=2
    ),
    "order 3, the first queries see nothing": Case(29, (17, 40), total_degree(4, 2), 1, offset=-6, masked=True),
    "order 4": Case(35, (30, 40, 35), total_degree(2, 2), 12, offset=-4, before=True, moment=0),
    "order 5": Case(20, (20, 20, 18, 20), total_degree(2, 2), 3, offset=1, masked=True, moment=2),
    "an index set that is not of total degree": Case(19, (19, 19), UNEVEN, 4, before=True),
    "one head, so many monomials that they are cut": Case(21, (21, 21), total_degree(9, 4), 2, heads=1, moment=4),
    "one token": Case(1, (1, 1), total_degree(2, 1), 2, before=True),
}


def draw(case: Case) -> tuple[Call, Expansion, list[Tensor] | None]:
    """A call of these sizes, an expansion with random coefficients, and random states before it."""
    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, dtype=torch.float64, generator=generator)

    d, order, heads = case.index_set.dimension, len(case.key_lengths) + 1, case.heads
    keys, values = (tuple(normal(heads, n, width) for n in case.key_lengths) for width in (d, case.d_v))
    masks = tuple(torch.rand(heads, n, generator=generator) < 0.7 for n in case.key_lengths) if case.masked else ()
    factors = tuple(2.0 ** torch.randint(-1, 2, (heads, d), generator=generator).double() for _ in range(order))
    frame = Frame(torch.arange(d), factors, None, factors, SCALE, d, torch.float64)
    coefficients = torch.rand(case.index_set.rank, dtype=torch.float64, generator=generator) + 0.1
    before = [normal(heads, case.index_set.rank, case.d_v + 1) for _ in keys] if case.before else None
    positions = Positions(True, case.offset, (None,) * (order - 1))
    call = Call(normal(heads, case.length, d), keys, values, masks, positions, SCALE)
    return call, Expansion(frame, case.index_set, coefficients, case.moment), before


def powers(x: Tensor, index_set: IndexSet) -> Tensor:
    """The monomials (H, n, rank) of coordinates (H, n, d), each computed separately."""
    return (x.unsqueeze(2) ** torch.from_numpy(index_set.alphas)).prod(-1)


def by_definition(call: Call, expansion: Expansion, before: list[Tensor] | None) -> tuple[Tensor, Tensor]:
    """The sums (H, L_q, d_v + 1) and the moments; a query's states are the sums over the keys that it attends."""
    factors, index_set = expansion.frame.factors, expansion.index_set
    query = powers(call.query * factors[0].unsqueeze(1) * SCALE, index_set)
    product = torch.ones((), dtype=torch.float64)
    for m, (key, value) in enumerate(zip(call.keys, call.values, strict=True)):
        length = key.shape[1]
        last = torch.arange(call.query.shape[1]) + call.positions.offset
        attended = (torch.arange(length) <= last.unsqueeze(1)).expand(key.shape[0], -1, -1)
        attended = attended & call.masks[m].unsqueeze(1) if call.masks else attended
        W = torch.cat([value, torch.ones_like(value[..., :1])], -1)
        features = powers(key * factors[m + 1].unsqueeze(1), index_set)
        state = torch.einsum("hqn,hnr,hnv->hqrv", attended.double(), features, W)
        product = product * (state if before is None else state + before[m].unsqueeze(1))
    sums = torch.einsum("hqr,r,hqrv->hqv", query, expansion.coefficients, product)
    moment = torch.zeros_like(sums[..., 0])
    if expansion.moment is not None:
        level = slice(*index_set.levels[expansion.moment])
        weights = torch.from_numpy(index_set.multinomials[level])
        moment = torch.einsum("hqr,r,hqr->hq", query[..., level], weights, product[:, :, level, -1])
    return sums, moment


def close(found: Tensor, expected: Tensor, error: float = 1e-12) -> None:
    assert found.shape == expected.shape
    assert (found - expected).abs().max() <= error * expected.abs().max()


def incoming(sums: Sums) -> tuple[Tensor, Tensor]:
    """Gradients of the output and of the log-sum-exp; that of the log-sum-exp is 0 if nothing is attended."""
    generator = torch.Generator().manual_seed(1)
    grad_out, grad_lse = (torch.randn(x.shape, dtype=x.dtype, generator=generator) for x in (sums.output, sums.moment))
    return grad_out, grad_lse.masked_fill(sums.denominator == 0, 0.0)


@pytest.fixture(params=runnable(native().library) if native().library else [])
def architecture(request):
    """Each architecture that this processor supports, selected for a test."""
    library = native().library
    assert library.separatrix_choose(request.param.encode()) == 0
    yield request.param
    library.separatrix_choose(native().architecture.encode())


@pytest.fixture
def in_pytorch(monkeypatch):
    """The result of a function with the scan of plain PyTorch."""

    def call(function, *arguments):
        with monkeypatch.context() as patch:
            patch.setattr(backend, "BACKENDS", (plain,))
            return function(*arguments)

    return call


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_sums_and_moments_are_those_of_the_definition(case, architecture):
    call, expansion, before = draw(case)
    expected, moment = by_definition(call, expansion, before)
    output = causal.attend_causal(call, expansion, before)
    close(output.denominator, expected[..., -1])
    close(output.output * output.denominator.unsqueeze(-1), expected[..., :-1])
    close(output.moment, moment)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_gradients_are_those_of_the_definition(case, architecture):
    check_gradients(case)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_plain_pytorch_computes_small_chunks_as_the_definition(case, monkeypatch):
    monkeypatch.setattr(backend, "BACKENDS", (plain,))
    monkeypatch.setattr(plain, "causal_chunk", lambda *sizes: 3)
    call, expansion, before = draw(case)
    computed = causal.attend_causal(call, expansion, before)
    sums, moment = by_definition(call, expansion, before)
    close(computed.denominator, sums[..., -1])
    close(computed.moment, moment)
    check_gradients(case)


def check_gradients(case: Case) -> None:
    """The gradients of a random call are those that autograd finds for the definition."""
    call, expansion, before = draw(case)
    leaves = [x.clone().requires_grad_() for x in (call.query, *call.keys, *call.values, *(before or []))]
    sets = len(call.keys)
    query, keys, values = leaves[0], tuple(leaves[1 : 1 + sets]), tuple(leaves[1 + sets : 1 + 2 * sets])
    graph = Call(query, keys, values, call.masks, call.positions, call.scale)
    expected, _ = by_definition(graph, expansion, leaves[1 + 2 * sets :] or None)
    attended = expected[..., -1] != 0
    D = expected[..., -1].masked_fill(~attended, 1.0)
    output = (expected[..., :-1] / D.unsqueeze(-1)).masked_fill(~attended.unsqueeze(-1), 0.0)
    sums = Sums(output.detach(), D.detach().masked_fill(~attended, 0.0), torch.zeros_like(D))
    grad_out, grad_lse = incoming(sums)
    loss = (output * grad_out).sum() + (D.abs().log() * grad_lse).sum()
    wanted = torch.autograd.grad(loss, leaves)
    actual = causal.backward_causal_after(call, expansion, sums, before, grad_out, grad_lse)
    for x, y in zip((actual[0], *actual[1], *actual[2], *actual[3]), wanted, strict=False):
        close(x, y, 1e-9)


@pytest.mark.parametrize("size", [None, 7, 16])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_it_equals_plain_pytorch_for_all_chunk_sizes(case, size, in_pytorch, monkeypatch):
    call, expansion, before = draw(case)
    expected = in_pytorch(causal.attend_causal, call, expansion, before)
    arguments = (call, expansion, expected, before, *incoming(expected))
    gradients = in_pytorch(causal.backward_causal_after, *arguments)
    if size is not None:
        monkeypatch.setattr(causal, "chunk_size", lambda *given: size)
    output = causal.attend_causal(call, expansion, before)
    for name in ("denominator", "moment"):
        close(getattr(output, name), getattr(expected, name))
    seen = expected.denominator.unsqueeze(-1)
    close(output.output * seen, expected.output * seen)
    grad_query, grad_keys, grad_values, grad_before = causal.backward_causal_after(*arguments)
    close(grad_query, gradients[0])
    for mine, theirs in zip((grad_keys, grad_values, grad_before), gradients[1:], strict=True):
        for x, y in zip(mine, theirs, strict=True):
            close(x, y)


def test_where_nothing_is_attended_and_no_coordinate_is_left_sums_are_zero():
    """If a key set is entirely hidden, all its coordinates are zero, and are dropped."""
    expansion = Expansion(expansion_frame(), total_degree(0, 2), torch.ones(1, dtype=torch.float64), None)
    x = torch.empty(2, 0, 5, dtype=torch.float64)
    ones, nothing = torch.ones(2, 3, 5, dtype=torch.float64), torch.zeros(2, 1, 3, dtype=torch.float64)
    sums, _, after = scan(expansion, x, [x, x], [0 * ones, ones], [nothing, nothing])
    assert torch.equal(sums, torch.zeros(2, 5, 3, dtype=torch.float64))
    assert torch.equal(after[1], 5 + nothing)
    seen, _, _ = scan(expansion, x, [x, x], [ones, ones], [nothing, nothing])
    assert torch.equal(seen, (torch.arange(1.0, 6.0).double() ** 2).reshape(1, 5, 1).expand(2, 5, 3))


@pytest.mark.parametrize("name", ["order 3", "order 4", "one head, so many monomials that they are cut"])
def test_every_number_of_threads_gives_the_same_bits(name):
    call, expansion, before = draw(CASES[name])
    threads, found = torch.get_num_threads(), []
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            sums = causal.attend_causal(call, expansion, before)
            grads = causal.backward_causal_after(call, expansion, sums, before, *incoming(sums))
            tensors = (grads[0], *grads[1], *grads[2], *grads[3])
            found.append([sums.output, sums.denominator, sums.moment, *tensors])
    finally:
        torch.set_num_threads(threads)
    for other in found[1:]:
        assert all(torch.equal(x, y) for x, y in zip(found[0], other, strict=True))


def test_hidden_tokens_may_hold_anything():
    call, expansion, before = draw(CASES["order 3, lengths differ, masks, states before"])
    clean = causal.attend_causal(call, expansion, before)
    grads = causal.backward_causal_after(call, expansion, clean, before, *incoming(clean))
    for x, mask in zip((*call.keys, *call.values), call.masks * 2, strict=True):
        x[~mask] = float("nan")
    dirty = causal.attend_causal(call, expansion, before)
    assert torch.equal(clean.output, dirty.output)
    again = causal.backward_causal_after(call, expansion, clean, before, *incoming(clean))
    for x, y in zip((grads[0], *grads[1], *grads[2]), (again[0], *again[1], *again[2]), strict=True):
        assert torch.equal(x, y)


LOST = 0.75 * 2.0**-53
"""Added to 1 the number is lost in each addition; added to numbers of its own magnitude it is not."""


def one_by_one(n: int) -> tuple[Expansion, Tensor, Tensor]:
    """A linear polynomial, n zero coordinates, and n values: 1, and then numbers that are lost when added to 1."""
    index_set = total_degree(1, 1)
    coefficients = torch.ones(index_set.rank, dtype=torch.float64)
    values = torch.full((1, 1, n), LOST, dtype=torch.float64)
    values[..., 0] = 1.0
    return Expansion(expansion_frame(), index_set, coefficients, None), torch.zeros(1, 1, n).double(), values


def expansion_frame() -> Frame:
    unit = torch.ones(1, 1, dtype=torch.float64)
    return Frame(torch.arange(1), (unit, unit), None, (unit, unit), 1.0, 1, torch.float64)


def test_tokens_are_added_one_by_one_and_counted_so():
    """The error is close to the counted bound, and larger than that of sums by chunks."""
    n = 60_000
    expansion, x, values = one_by_one(n)
    before = torch.zeros(1, 2, 1, dtype=torch.float64)
    sums, _, after = scan(expansion, x, [x], [values], [before])
    error = (n - 1) * LOST
    assert float(sums[0, -1, 0]) == float(after[0][0, 0, 0]) == 1.0
    call = Call(x.mT, (x.mT,), (values.mT,), (), Positions(True, 0, (None,)), 1.0)
    counted = expanded_sum(backend.summing(backend.backend_of(call), call, 2, torch.float64).tokens([n]), 1, 1, 1, 2)
    assert error <= counted.gamma(torch.float64) * (1 + error) <= 1.6 * error
    assert error > 2 * chunk_tokens(1, 2, True) * 2.0**-53


def test_gradients_of_states_are_added_from_the_last_query_to_the_first():
    n = 1000
    expansion, x, values = one_by_one(n)
    before = torch.zeros(1, 2, 1, dtype=torch.float64)
    last_first = values.flip(-1).mT.contiguous()
    grads = scan_backward(expansion, x, [x], [values], [before], last_first, [before])
    assert float(grads[2][0][0, 0, 0]) == float(grads[3][0][0, 0, 0]) == 1.0
    first_last = scan_backward(expansion, x, [x], [values], [before], values.mT.contiguous(), [before])
    assert float(first_last[3][0][0, 0, 0]) > 1.0 + 0.5 * n * LOST
