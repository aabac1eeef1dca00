"""Packed sequences by one launch of each Triton kernel, in the interpreter, against a loop over them, bit for bit."""

from __future__ import annotations

import pytest
import torch

import separatrix as sx
from separatrix.attention.dispatch import gpu
from separatrix.attention.exact import sequences
from separatrix.attention.exact.triton import configurations, description, engine, launch
from separatrix.attention.exact.triton.configurations import Configuration
from tests.contracts.attention_contract import draw
from tests.contracts.interpreter import interpreted, needs_triton  # noqa: F401

pytestmark = [needs_triton, pytest.mark.usefixtures("interpreted"), pytest.mark.timeout(1200)]


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Blocks of 16, loops without comparisons in every dtype, and no splits, whose number depends on the launch."""
    small = (Configuration(16, 16, 4, 1),) * len(configurations.WIDTHS)
    monkeypatch.setattr(configurations, "SHIPPED", dict.fromkeys(configurations.SHIPPED, small))
    monkeypatch.setattr(description, "peeled", lambda call, precision: not call.masks)
    monkeypatch.setattr(launch, "ENOUGH_PROGRAMS", 1)


@pytest.fixture
def grids(monkeypatch):
    """Record the grid of each launch on packed sequences."""
    recorded, launch_kernel = [], gpu.launch

    def spy(program, programs, device, *arguments, sequences=1, **options):
        if sequences > 1:
            recorded.append((programs, sequences))
        launch_kernel(program, programs, device, *arguments, sequences=sequences, **options)

    monkeypatch.setattr(gpu, "launch", spy)
    return recorded


def stops(*lengths):
    return torch.tensor([0, *lengths]).cumsum(0)


def results(query_stops, key_stops, heads, shared, dtype, masked=False, prefix_stops=None, **options):
    """Output, log-sum-exp, and the gradients of query, keys and values; the first set may have other lengths."""
    cu = [query_stops, key_stops if prefix_stops is None else prefix_stops, key_stops]
    queries, prefixes, keys = (int(ends[-1]) for ends in cu)
    sizes = (queries, 5), (prefixes, 5), (keys, 5), (prefixes, 3), (keys, 3)
    leaves = [draw(m, heads if m else heads * shared, *size) for m, size in enumerate(sizes)]
    leaves = [x.to(dtype).requires_grad_() for x in leaves]
    if masked:
        options["key_masks"] = [draw(8 + m, heads * shared, 1, keys)[:, 0] < 0.5 for m in range(2)]
    out, lse = sx.tensor_attention(
        leaves[0], leaves[1:3], leaves[3:], cu_seqlens=cu, enable_gqa=shared > 1, return_lse=True, **options
    )
    incoming = draw(6, *out.shape).to(dtype), torch.where(lse.isfinite(), draw(7, *lse.shape).to(lse.dtype), 0.0)
    return out, lse, *torch.autograd.grad((out, lse), leaves, incoming)


EVEN = stops(5, 0, 18, 17)
SMALL = stops(3, 18)
CASES = {
    "causal": (SMALL, SMALL, 1, 1, torch.float32, {"is_causal": True}),
    "windows, partial sums": (EVEN, EVEN, 2, 1, torch.bfloat16, {"windows": [3, 20]}),
    "one token": (stops(1, 1), stops(1, 1), 2, 1, torch.float32, {"windows": [1, 1]}),
    "one position in a tile": (stops(2, 3), stops(2, 3), 1, 16, torch.float32, {"windows": [2, 4]}),
    "the first set is the inner one": (EVEN, EVEN, 1, 2, torch.float64, {"is_causal": True, "windows": [20, 2]}),
    "masks of query heads": (SMALL, SMALL, 1, 2, torch.float64, {"masked": True, "windows": [2, 20]}),
    "later queries": (
        stops(4, 1, 17), stops(20, 9, 18), 1, 1, torch.float16,
        {"is_causal": True, "query_offsets": [16, 8, 1], "windows": [2, None]},
    ),
    "91 tokens": (stops(34, 7, 50), stops(34, 7, 50), 1, 1, torch.float32, {"windows": [2, 39]}),
}  # fmt: skip


def looped(*shape, **options):
    """The results of a loop over the sequences."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sequences, "takes_sequences", lambda call, stops, offsets: False)
        return results(*shape, **options)


def packed_agree():
    """The results of query heads that share keys are those of a loop."""
    shape, options = (SMALL, SMALL, 1, 2, torch.float64), {"windows": [2, 20], "prefix_stops": stops(2, 19)}
    assert all(map(torch.equal, results(*shape, **options), looped(*shape, **options)))


@pytest.mark.parametrize("case", CASES)
def test_one_launch_has_the_bits_of_a_loop(case, grids, monkeypatch):
    *shape, options = CASES[case]
    if "partial sums" in case or "position" in case:
        monkeypatch.setattr(gpu, "blocks_of", lambda device: "sm_90")
    at_once = results(*shape, **options)
    assert {count for _, count in grids} == {len(shape[0]) - 1}
    assert len(grids) in (8, 9, 10)  # a range check for each pass in bfloat16 alone, and partial sums
    longest = max(int(shape[1].diff().max()), engine.LEAST_TOKENS)
    assert max(programs for programs, _ in grids) <= shape[2] * shape[3] * longest  # the bound of `takes_sequences`
    grids.clear()
    assert all(map(torch.equal, at_once, looped(*shape, **options)))
    assert grids == []


def test_the_programs_are_those_of_the_blocks_of_each_sequence(monkeypatch):
    """A program beyond the last block of its sequence does not call the kernel."""
    calls, program_of = [], launch.program_of

    class Counted:
        def __init__(self, kernel):
            self.kernel, self.arg_names, self.__name__ = kernel, kernel.arg_names, kernel.__name__

        def __call__(self, *arguments):
            calls.append(self.__name__)
            self.kernel(*arguments)

    monkeypatch.setattr(
        launch, "program_of", lambda name: program_of(name) if name == "of_sequence" else Counted(program_of(name))
    )
    results(EVEN, EVEN, 2, 1, torch.float32, windows=[3, 20])
    blocks = 1 + 0 + 2 + 2
    expected = {"attend": 2 * blocks, "query_gradient": 2 * blocks, "inner_gradient": 2 * blocks}
    expected["prefix_gradient"] = 2 * int(EVEN[-1])
    assert {name: calls.count(name) for name in expected} == expected


def test_a_sequence_that_is_out_of_range_does_not_change_the_others():
    """In bfloat16 a head of keys with NaN has outputs and gradients that are NaN, in its own sequence alone."""
    x = draw(0, 5, 2, 30, 3).bfloat16()
    x[1, 1, 12] = torch.nan
    leaves = [entry.clone().requires_grad_() for entry in x]
    out = sx.tensor_attention(leaves[0], leaves[1:3], leaves[3:], cu_seqlens=stops(10, 13, 7), windows=[2, 20])
    gradients = torch.autograd.grad(out.float().square().sum(), leaves)
    for y in (out, *gradients):
        bad = y.isnan().any(-1)
        assert bool(bad[1, 10:23].all())
        assert int(bad.sum()) == 13


@pytest.mark.parametrize(("size", "launches"), [(1e30, 2), (1e14, 5)])
def test_factors_that_must_be_balanced_are_attended_in_a_loop(size, launches, grids, monkeypatch):
    """Products of the second sequence could overflow float32, in both passes or in the backward pass alone."""
    x = draw(0, 5, 1, 12, 3).float()
    x[1, :, 5:] *= size
    x[2, :, 5:] /= size
    leaves = [entry.clone().requires_grad_() for entry in x]

    def run():
        out = sx.tensor_attention(leaves[0], leaves[1:3], leaves[3:], cu_seqlens=stops(5, 7), windows=[2, 20])
        return out, *torch.autograd.grad(out.sum(), leaves)

    at_once = run()
    assert len(grids) == launches
    monkeypatch.setattr(sequences, "takes_sequences", lambda call, stops, offsets: False)
    for found, expected in zip(at_once, run(), strict=True):
        assert torch.equal(found, expected)
        assert bool(found.isfinite().all())


def test_second_derivatives(monkeypatch):
    """Gradients that will be differentiated again are computed by the loop over sequences."""

    def second():
        leaves = [x.clone().requires_grad_() for x in draw(0, 5, 1, 5, 2)]
        out = sx.tensor_attention(leaves[0], leaves[1:3], leaves[3:], cu_seqlens=stops(2, 3), is_causal=True)
        gradients = torch.autograd.grad(out.square().sum(), leaves, create_graph=True)
        return torch.autograd.grad(sum(x.square().sum() for x in gradients), leaves)

    at_once = second()
    monkeypatch.setattr(sequences, "takes_sequences", lambda call, stops, offsets: False)
    for found, expected in zip(at_once, second(), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("lengths", "offsets", "options", "taken"),
    [
        ([[2, 3]] * 3, [0, 0], {"is_causal": True}, True),
        ([[2, 3], [3, 3], [2, 3]], [0, 0], {}, True),
        ([[2, 3], [3, 3], [2, 3]], [0, 0], {"is_causal": True}, False),
        ([[2, 3], [3, 3], [2, 3]], [1, 0], {"is_causal": True}, True),
        ([[0, 3], [0, 3], [0, 3]], [0, 0], {}, True),
        ([[0, 3], [1, 3], [0, 3]], [0, 0], {}, False),
        ([[5]] * 3, [0], {}, False),
        ([[2, 3]] * 3, [0, (1 << 23) + 1], {}, False),
        ([[2, 3]] * 3, [0, 1.5], {}, False),
        ([[2, 3]] * 4, [0, 0], {}, False),
        ([[35000, *[0] * 59999]] * 3, [0] * 60000, {}, True),
        ([[36000, *[0] * 59999]] * 3, [0] * 60000, {}, False),  # more than 2^31 programs
        ([[2] * 65536] * 3, [0] * 65536, {}, False),
    ],
)
def test_which_sequences_are_taken(lengths, offsets, options, taken):
    query, *sets = (draw(m, 1, sum(axis), 2) for m, axis in enumerate(lengths))
    call = sx.attention.call.check_call(query, sets, sets, query_offset=1, **options)
    ends = [stops(*axis).tolist() for axis in lengths]
    assert engine.takes_sequences(call, ends, offsets) == taken


def test_an_invalid_sequence_is_an_error_of_the_loop():
    query, key, value = (draw(m, 1, 6, 2) for m in range(3))
    cu = [stops(2, 4), stops(3, 3), stops(3, 3)]
    with pytest.raises(sx.SeparatrixError, match="is_causal without a query_offset"):
        sx.tensor_attention(query, [key, key], [value, value], cu_seqlens=cu, is_causal=True)
