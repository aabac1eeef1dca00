"""A few tokens by the C++ kernels: against PyTorch, exact attention and the certificate."""

from __future__ import annotations

import math

import pytest
import torch

import separatrix as sx
from separatrix.attention import reference
from separatrix.attention.near_linear import backend
from separatrix.attention.near_linear import torch as plain
from separatrix.attention.near_linear.native import NativeStream
from separatrix.attention.streaming.ledger import roundings_of_few
from separatrix.attention.streaming.operations import FEW
from separatrix.native import native
from tests.pairwise import pairwise

pytestmark = pytest.mark.skipif(native().library is None, reason="this installation has no kernels")


@pytest.fixture
def calls(monkeypatch):
    """How often the kernels appended and attended."""
    made = {"append": 0, "attend": 0}

    def counted(name):
        plain = getattr(NativeStream, name)

        def call(self, *given, **options):
            made[name] += 1
            return plain(self, *given, **options)

        monkeypatch.setattr(NativeStream, name, call)

    counted("append")
    counted("attend")
    return made


def tokens(order, n, d, d_v, batch=(), dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)

    def draw(width):
        return (2 * torch.rand(*batch, n, width, dtype=torch.float64, generator=generator) - 1).to(dtype)

    return draw(d), [draw(d) for _ in range(order - 1)], [draw(d_v) for _ in range(order - 1)]


def part(sets, start, stop):
    return [x[..., start:stop, :] for x in sets]


def in_pytorch(monkeypatch):
    monkeypatch.setattr(backend, "BACKENDS", (plain,))


@pytest.mark.parametrize(
    ("shape", "batch", "sizes"),
    pairwise(
        [(2, 1, 1), (2, 5, 16), (3, 3, 8), (3, 4, 7), (4, 2, 19), (5, 2, 2)],
        [(), (3,), (2, 3)],
        [(1,) * 9, (1, 8, 3, 5), (2, 40, 1)],
    ),
)
def test_they_are_pytorchs_sums(shape, batch, sizes, monkeypatch, calls):
    order, d, d_v = shape
    sizes = sizes if order < 4 else tuple(min(size, 9) for size in sizes)  # the reference visits all tuples
    query, keys, values = tokens(order, sum(sizes), d, d_v, batch)

    def run():
        state = sx.TensorAttentionState(order, d, d_v, bound=1.0, tolerance=1e-4, batch_shape=batch, dtype=query.dtype)
        start, outputs = 0, []
        for size in sizes:
            state.append(part(keys, start, start + size), part(values, start, start + size))
            start += size
            outputs += [state.attend(query[..., :1, :]), state.attend(query[..., :FEW, :])]
        return state, outputs

    state, found = run()
    few = sum(size <= FEW for size in sizes)
    assert calls == {"append": few, "attend": 2 * len(sizes)}
    exact, _ = reference.tensor_attention(query, keys, values)
    assert (found[-1] - exact[..., :FEW, :]).abs().max() <= state.certificate.total <= 1e-4
    in_pytorch(monkeypatch)
    plain, want = run()
    assert calls["append"] == few
    for actual, other in zip(found, want, strict=True):
        torch.testing.assert_close(actual, other, atol=1e-13, rtol=0)
    for actual, other in zip(state.states, plain.states, strict=True):
        torch.testing.assert_close(actual, other, atol=1e-13, rtol=1e-13)
    assert state.tokens == plain.tokens
    assert state.largest == plain.largest


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("norm", ["entries", "order"])
def test_narrow_types_and_norms(dtype, norm, calls):
    query, keys, values = tokens(3, 20, 3, 4, (2,), dtype)
    if norm == "order":
        query, *keys = (0.9 * x / torch.linalg.vector_norm(x.double(), 3, dim=-1, keepdim=True) for x in (query, *keys))
    query, *keys = (x.to(dtype) for x in (query, *keys))
    scale = 1.0 if norm == "order" else None
    options = {"bound": 1.0, "tolerance": 2e-2, "scale": scale, "norm": norm, "batch_shape": (2,), "dtype": dtype}
    state = sx.TensorAttentionState(3, 3, 4, **options)
    for i in range(20):
        state.append(part(keys, i, i + 1), part(values, i, i + 1))
    out = state.attend(query[:, :3])
    assert calls == {"append": 20, "attend": 1}
    assert out.dtype == dtype
    wide = [[x.double() for x in sets] for sets in ([query[:, :3]], keys, values)]
    exact, _ = reference.tensor_attention(wide[0][0], wide[1], wide[2], scale=scale)
    assert (out.double() - exact).abs().max() <= state.certificate.total <= 2.1e-2


def test_tokens_at_the_bound_are_taken_and_beyond_it_refused(calls):
    """A norm that is too close to the bound for rounding is checked twice, by the kernels and by PyTorch."""
    state = sx.TensorAttentionState(3, 2, 2, bound=1.0, tolerance=1e-2, norm="order", dtype=torch.float64)
    value = torch.ones(1, 2, dtype=torch.float64)
    key = torch.tensor([[state.largest_token, 0.0]], dtype=torch.float64)  # its k-th power is 1, which is not below 1
    state.append([key, key], [value, value])
    state.attend(key)
    assert calls == {"append": 2, "attend": 2}
    assert state.tokens == (1, 1)
    before = [z.clone() for z in state.states]
    for wrong in (key * (1 + 1e-12), torch.full((1, 2), math.nan, dtype=torch.float64)):
        with pytest.raises(sx.ArgumentError, match=r"keys\[1\]: expected l_3 norms of at most 1"):
            state.append([key, wrong], [value, value])
        with pytest.raises(sx.ArgumentError, match=r"query: expected l_3 norms of at most 1"):
            state.attend(wrong)
    for wrong in (math.nan, math.inf):
        with pytest.raises(sx.ArgumentError, match=r"values\[0\]: expected finite"):
            state.append([key, key], [value * wrong, value])
    assert state.tokens == (1, 1)
    assert all(torch.equal(a, b) for a, b in zip(state.states, before, strict=True))


def test_states_that_others_hold_are_not_changed():
    _, keys, values = tokens(3, 3, 2, 2)
    state = sx.TensorAttentionState(3, 2, 2, bound=1.0, tolerance=1e-2, dtype=torch.float64)
    state.append(part(keys, 0, 1), part(values, 0, 1))
    held = state.states
    kept = [z.clone() for z in held]
    state.append(part(keys, 1, 2), part(values, 1, 2))
    assert all(torch.equal(a, b) for a, b in zip(held, kept, strict=True))
    assert not torch.equal(state.states[0], kept[0])


def test_tokens_without_a_gradient_do_not_change_the_graph_of_others(calls):
    query, keys, values = tokens(3, 4, 2, 3)
    key, fixed = keys[0].clone().requires_grad_(), keys[1]

    def state_of_two():
        state = sx.TensorAttentionState(3, 2, 3, bound=1.0, tolerance=1e-2, dtype=torch.float64)
        state.append([key[:2], fixed[:2]], part(values, 0, 2))
        return state, state.attend(query).sum()

    state, out = state_of_two()
    with torch.no_grad():
        state.append(part(keys, 2, 3), part(values, 2, 3))
    assert calls == {"append": 1, "attend": 0}
    (gradients,) = torch.autograd.grad(out, key)
    (want,) = torch.autograd.grad(state_of_two()[1], key)
    assert torch.equal(gradients, want)


def test_outputs_beyond_the_type_are_refused(calls):
    state = sx.TensorAttentionState(3, 1, 1, bound=1.0, tolerance=1e-2)
    key, value = torch.ones(1, 1), torch.full((1, 1), 1e25)
    state.append([key, key], [value, value])
    with pytest.raises(sx.SeparatrixError, match="outputs reach"):
        state.attend(key)
    assert calls == {"append": 1, "attend": 1}


def test_the_same_bits_with_one_thread_and_two():
    """States large enough that heads go to several threads."""
    query, keys, values = tokens(3, 2, 8, 8, (30,), torch.float32)

    def run(threads):
        torch.set_num_threads(threads)
        state = sx.TensorAttentionState(3, 8, 8, bound=1.0, tolerance=1e-2, batch_shape=(30,))
        state.append(keys, values)
        return state.attend(query), *state.states

    before = torch.get_num_threads()
    try:
        assert all(torch.equal(actual, two) for actual, two in zip(run(1), run(2), strict=True))
    finally:
        torch.set_num_threads(before)


def test_roundings_are_counted_call_by_call():
    """In sums of 2^-53 and 1 every counted addition rounds down."""
    state = sx.TensorAttentionState(2, 1, 1, bound=1.0, tolerance=1e-2, dtype=torch.float64)
    zero, one, small = (torch.full((1, 1), x, dtype=torch.float64) for x in (0.0, 1.0, 2.0**-53))
    state.append(zero, one)
    for _ in range(10):
        state.append(zero, small)
    assert float(state.states[0][0, 0, 0]) == 1.0  # ten roundings of half a unit each
    assert state.roundings == (12,)
    together = sx.TensorAttentionState(2, 1, 1, bound=1.0, tolerance=1e-2, dtype=torch.float64)
    together.append(zero, one)
    together.append(zero.expand(FEW, 1), small.expand(FEW, 1))
    assert float(together.states[0][0, 0, 0]) == 1.0 + 2.0**-50
    assert together.roundings == (roundings_of_few(2, FEW),) == (FEW + 1,)
