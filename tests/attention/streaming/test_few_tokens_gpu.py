"""A few tokens by the Triton kernels, in the interpreter: against PyTorch, exact attention and the certificate."""

from __future__ import annotations

import math

import pytest
import torch

import separatrix as sx
from separatrix.attention import reference
from separatrix.attention.arithmetic import device_reads
from separatrix.attention.near_linear import backend
from separatrix.attention.near_linear import torch as in_pytorch
from separatrix.attention.near_linear.triton import backend as triton
from separatrix.attention.near_linear.triton.backend import TritonStream
from separatrix.attention.streaming.ledger import roundings_of_few
from tests.attention.streaming.test_few_tokens import part, tokens
from tests.contracts.interpreter import interpreted, needs_triton  # noqa: F401

pytestmark = [needs_triton, pytest.mark.usefixtures("interpreted"), pytest.mark.timeout(1200)]


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Blocks of 8 monomials, so that a state has several."""
    shipped = triton.block_of
    monkeypatch.setattr(triton, "block_of", lambda *given: shipped(*given)._replace(rows=8))


@pytest.mark.parametrize(("order", "d", "d_v"), [(2, 1, 1), (3, 2, 16), (4, 2, 3), (6, 1, 2)])
@pytest.mark.parametrize("batch", [(), (2,)])
def test_they_are_pytorchs_sums(order, d, d_v, batch):
    check_stream(order, d, d_v, batch, (1, 3, 2))


def check_stream(order, d, d_v, batch, sizes):
    """States and outputs of random tokens, appended in pieces, against exact attention and plain PyTorch."""
    query, keys, values = tokens(order, sum(sizes), d, d_v, batch)

    def run():
        state = sx.TensorAttentionState(order, d, d_v, bound=1.0, tolerance=1e-2, batch_shape=batch, dtype=query.dtype)
        start = 0
        for size in sizes:
            state.append(part(keys, start, start + size), part(values, start, start + size))
            start += size
        return state, state.attend(query[..., :2, :])

    state, found = run()
    assert isinstance(state.kernels[1], TritonStream)
    exact, _ = reference.tensor_attention(query, keys, values)
    assert (found - exact[..., :2, :]).abs().max() <= state.certificate.total <= 1e-2
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backend, "BACKENDS", (in_pytorch,))
        plain, want = run()
    assert plain.kernels == ("torch", None)
    torch.testing.assert_close(found, want, atol=1e-13, rtol=0)
    for actual, other in zip(state.states, plain.states, strict=True):
        torch.testing.assert_close(actual, other, atol=1e-13, rtol=1e-13)
    assert (state.tokens, state.largest) == (plain.tokens, plain.largest)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize("norm", ["entries", "order"])
def test_narrow_types_and_norms(dtype, norm):
    query, keys, values = tokens(3, 3, 2, 2, (2,), dtype)
    if norm == "order":
        query, *keys = (0.9 * x / torch.linalg.vector_norm(x.double(), 3, dim=-1, keepdim=True) for x in (query, *keys))
    query, *keys = (x.to(dtype) for x in (query, *keys))
    scale = 1.0 if norm == "order" else None
    options = {"bound": 1.0, "tolerance": 2e-2, "scale": scale, "norm": norm, "batch_shape": (2,), "dtype": dtype}
    state = sx.TensorAttentionState(3, 2, 2, **options)
    state.append(keys, values)
    out = state.attend(query[:, :1])
    assert out.dtype == dtype
    wide = [[x.double() for x in sets] for sets in ([query[:, :1]], keys, values)]
    exact, _ = reference.tensor_attention(wide[0][0], wide[1], wide[2], scale=scale)
    assert (out.double() - exact).abs().max() <= state.certificate.total <= 2.1e-2


def test_tokens_beyond_the_bound_are_refused_before_any_is_added():
    state = sx.TensorAttentionState(3, 2, 2, bound=1.0, tolerance=1e-2, dtype=torch.float64)
    one, value = torch.ones(1, 2, dtype=torch.float64), torch.ones(1, 2, dtype=torch.float64)
    state.append([one, one], [value, value])
    before = [z.clone() for z in state.states]
    for wrong in (one * 1.01, one * math.nan):
        with pytest.raises(sx.ArgumentError, match=r"keys\[1\]: expected entries of at most 1"):
            state.append([one, wrong], [value, value])
        with pytest.raises(sx.ArgumentError, match=r"query: expected entries of at most 1"):
            state.attend(wrong)
    for wrong in (math.nan, math.inf):
        with pytest.raises(sx.ArgumentError, match=r"values\[0\]: expected finite"):
            state.append([one, one], [value * wrong, value])
    assert state.tokens == (1, 1)
    assert all(torch.equal(a, b) for a, b in zip(state.states, before, strict=True))


def test_a_step_reads_numbers_twice(monkeypatch):
    """Reading a number from a GPU synchronises: once to append a token, and once to attend."""
    query, keys, values = tokens(3, 2, 2, 2)
    state = sx.TensorAttentionState(3, 2, 2, bound=1.0, tolerance=1e-2, dtype=torch.float64)
    state.append(part(keys, 0, 1), part(values, 0, 1))
    looks = []
    monkeypatch.setattr(device_reads, "read", lambda x: (looks.append(x.shape), x.tolist())[1])
    state.append(part(keys, 1, 2), part(values, 1, 2))
    assert len(looks) == 1
    state.attend(query[:1])
    assert len(looks) == 2


def test_outputs_beyond_the_type_are_refused():
    state = sx.TensorAttentionState(3, 1, 1, bound=1.0, tolerance=1e-2)
    key, value = torch.ones(1, 1), torch.full((1, 1), 1e25)
    state.append([key, key], [value, value])
    with pytest.raises(sx.SeparatrixError, match="outputs reach"):
        state.attend(key)


def test_roundings_are_counted_call_by_call():
    """In sums of 2^-53 and 1 every counted addition rounds down."""
    state = sx.TensorAttentionState(2, 1, 1, bound=1.0, tolerance=1e-2, dtype=torch.float64)
    zero, one, small = (torch.full((1, 1), x, dtype=torch.float64) for x in (0.0, 1.0, 2.0**-53))
    state.append(zero, one)
    state.append(zero, small)
    assert float(state.states[0][0, 0, 0]) == 1.0
    assert state.roundings == (3,)
    state.append(zero.expand(4, 1), small.expand(4, 1))
    assert float(state.states[0][0, 0, 0]) == 1.0 + 2.0**-51
    assert state.roundings == (roundings_of_few(3, 4),) == (5,)


def test_causal_attention_continues_from_a_state():
    query, keys, values = tokens(3, 7, 2, 2)
    state = sx.TensorAttentionState(3, 2, 2, bound=1.0, tolerance=1e-2, dtype=torch.float64)
    parts = [(0, 1), (1, 6), (6, 7)]
    found = [state.extend(query[a:b], part(keys, a, b), part(values, a, b)) for a, b in parts]
    exact, _ = reference.tensor_attention(query, keys, values, is_causal=True)
    assert (torch.cat(found) - exact).abs().max() <= state.certificate.total <= 1e-2
