"""One pass over tokens in their memory layout, against the products of chunks that it replaces."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from separatrix.attention.arguments import check_arguments
from separatrix.attention.call import flattened
from separatrix.attention.near_linear import native as kernels
from separatrix.attention.near_linear import sums
from separatrix.attention.near_linear.analysis import analyse
from separatrix.attention.near_linear.approximation.coordinates import Frame
from separatrix.attention.near_linear.approximation.monomials import total_degree
from separatrix.attention.near_linear.sums import Expansion
from separatrix.native import native, runnable

pytestmark = pytest.mark.skipif(native().library is None, reason="this installation has no kernels")


def made(heads, lengths, d, d_v, given, computed, *, masked=False, turned=False, columns=0, moment=2):
    """A call, and an expansion of degree 3 with random coefficients, a moment and `columns` columns of squares.

    A moment of 3 is above the degree of the coefficients.
    """
    generator = torch.Generator().manual_seed(d + d_v)

    def draw(length, width):
        x = 2 * torch.rand(heads, length, width, generator=generator, dtype=torch.float64) - 1
        x = x.to(given)
        return x.mT.contiguous().mT if turned else x

    query, keys = draw(lengths[0], d), [draw(n, d) for n in lengths[1:]]
    values = [draw(n, d_v) for n in lengths[1:]]
    masks = [torch.rand(heads, n, generator=generator) < 0.7 for n in lengths[1:]] if masked else None
    call = flattened(check_arguments(query, keys, values, key_masks=masks, scale=0.3))
    frame = analyse(call).frame
    index_set = total_degree(d, 3)
    coefficients = torch.rand(index_set.levels[3][1 if moment < 3 else 0], generator=generator, dtype=torch.float64)
    squares = tuple(draw(n, columns) ** 2 for n in lengths[1:]) if columns else ()
    return call, Expansion(replace(frame, dtype=computed), index_set, coefficients, moment, squares)


def run(call, expansion):
    states = sums.states(call, expansion)
    output = sums.attend(call, expansion, states)
    weighted = [] if output.weighted is None else [output.weighted]
    return [*states, output.output, output.denominator, output.moment, *weighted]


@pytest.fixture
def taken(monkeypatch):
    """The number of passes."""
    count = []
    true = kernels.NativePass
    monkeypatch.setattr(kernels, "NativePass", lambda *given: (count.append(1), true(*given))[1])
    return count


SHAPES = (
    (1, (1, 1, 1), 1, 1),
    (2, (5, 7, 3), 3, 2),
    (3, (300, 33, 257), 4, 5),
    (1, (2100, 1030, 5000), 2, 8),
    (1, (40, 4, 9, 17), 3, 4),
)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("types", [("float32", "float32"), ("float32", "float64"), ("float64", "float64")])
@pytest.mark.parametrize(("heads", "lengths", "d", "d_v"), SHAPES)
@pytest.mark.parametrize(("columns", "moment"), [(0, 2), (1, 2), (11, 3), (0, 3)])
def test_a_pass_equals_the_products_of_chunks(
    columns, moment, heads, lengths, d, d_v, types, masked, monkeypatch, taken
):
    given, computed = (getattr(torch, name) for name in types)
    call, expansion = made(heads, lengths, d, d_v, given, computed, masked=masked, columns=columns, moment=moment)
    found = run(call, expansion)
    level, terms = slice(*expansion.level), slice(expansion.terms)
    assert len(taken) == len(lengths)
    monkeypatch.setattr(kernels, "one_pass", lambda *given: None)
    wanted = run(call, expansion)
    for i in range(len(call.keys)):  # compare only the entries that are computed
        for states in (found, wanted):
            parts = states[i][:, terms, : d_v + 1], states[i][:, level, d_v:]
            states[i] = torch.cat([part.flatten(1) for part in parts], 1)
    close = 1e-11 if computed == torch.float64 else 2e-4
    for actual, other in zip(found, wanted, strict=True):
        assert actual.dtype == other.dtype
        size = other.abs().max().item()
        tolerance = max(close, 2e-7 if other.dtype == torch.float32 else 0.0) * size
        torch.testing.assert_close(actual, other, atol=tolerance, rtol=0.0)


def test_a_hidden_token_may_be_anything():
    call, expansion = made(2, (9, 40, 300), 3, 4, torch.float64, torch.float64, masked=True)
    wanted = run(call, expansion)
    for key, value, mask in zip(call.keys, call.values, call.masks, strict=True):
        key.masked_fill_(~mask.unsqueeze(-1), float("nan"))
        value.masked_fill_(~mask.unsqueeze(-1), float("inf"))
    assert all(torch.equal(actual, other) for actual, other in zip(run(call, expansion), wanted, strict=True))


def test_a_query_with_nothing_to_attend_has_the_output_zero():
    call, expansion = made(1, (4, 3, 3), 2, 2, torch.float64, torch.float64, masked=True)
    for mask in call.masks:
        mask.zero_()
    *_, out, denominator, moment = run(call, expansion)
    assert not out.any()
    assert not denominator.any()
    assert not moment.any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_same_bits_with_one_thread_and_two(dtype):
    call, expansion = made(1, (3000, 70000, 4100), 3, 2, torch.float32, dtype)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        one = run(call, expansion)
        torch.set_num_threads(2)
        assert all(torch.equal(x, y) for x, y in zip(one, run(call, expansion), strict=True))
    finally:
        torch.set_num_threads(before)


def test_tokens_with_strided_columns_use_another_path(taken):
    call, expansion = made(1, (30, 20, 20), 3, 2, torch.float64, torch.float64, turned=True)
    assert call.query.stride(2) != 1
    found = run(call, expansion)
    assert not taken
    straight, _ = made(1, (30, 20, 20), 3, 2, torch.float64, torch.float64)
    for actual, other in zip(found, run(straight, expansion), strict=True):
        torch.testing.assert_close(actual, other, atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("architecture", runnable(native().library) if native().library else [])
@pytest.mark.parametrize("by_chunks", [False, True])
def test_a_token_shares_its_sum_in_float32_with_no_more_tokens_than_promised(architecture, by_chunks, monkeypatch):
    """In float32, 2^24 + 1 is 2^24: a 1 is lost exactly if it is added to the same float32 sum as 2^24.

    Head j has 2^24 at one token and 1 at token j. The test examines the sum of the values times the monomial 1.
    """
    library, length = native().library, 700
    if by_chunks:
        monkeypatch.setattr(kernels, "one_pass", lambda *given: None)
    assert library.separatrix_choose(architecture.encode()) == 0
    try:
        for large in (0, 1, 255, 299, 699):
            values = torch.zeros(length, length, 1)
            values[:, :, 0].fill_diagonal_(1.0)
            values[:, large, 0] = 2.0**24
            tokens = torch.ones(length, length, 2)
            call = flattened(check_arguments(tokens, [tokens] * 2, [values] * 2))
            index_set = total_degree(2, 3)
            coefficients = torch.ones(index_set.rank, dtype=torch.float64)
            frame = replace(analyse(call).frame, dtype=torch.float32)
            state = sums.key_state(call, Expansion(frame, index_set, coefficients, 2), kernels, 0, 0, length)
            lost = state[:, 0, 0] == 2.0**24
            others = [j for j in range(length) if j != large]
            assert 2 <= int(lost[others].sum()) <= kernels.TOKENS_OF_A_LANE - 1
    finally:
        library.separatrix_choose(native().architecture.encode())


@pytest.mark.parametrize("architecture", runnable(native().library) if native().library else [])
def test_a_factor_that_is_subnormal_in_float32_rounds_no_coordinate_more_often(architecture):
    """The coordinate of a token is its monomial of degree 1; the factor has three significant bits in float32."""
    library = native().library
    chosen = library.separatrix_chosen()
    assert library.separatrix_choose(architecture.encode()) == 0
    try:
        factor = 5.3 * 2.0**-149
        frame = Frame(
            torch.arange(1), (torch.full((1, 1), factor, dtype=torch.float64),) * 2, None, (), 1.0, 1, torch.float32
        )
        x = torch.tensor([[[1.7e30]]])
        exact = x.double() * factor
        values = torch.ones(1, 1, 1)
        expansion = Expansion(frame, total_degree(1, 1), torch.ones(2, dtype=torch.float64), None)
        state = kernels.one_pass(expansion, x, 1, values).state(values, None)
        for coordinate in (state[0, 1, 0], frame.coordinates(x, 1).squeeze()):
            assert abs(coordinate.item() / exact.item() - 1) <= 3 * 2.0**-24
    finally:
        assert library.separatrix_choose(chosen) == 0
