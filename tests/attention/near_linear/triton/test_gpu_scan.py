"""The causal scan by the Triton kernels, in the interpreter, against the definition and plain PyTorch."""

from __future__ import annotations

import pytest
import torch

import separatrix as sx
from separatrix.attention import reference
from separatrix.attention.near_linear import backend, causal
from separatrix.attention.near_linear import torch as in_pytorch
from separatrix.attention.near_linear.approximation.monomials import total_degree
from separatrix.attention.near_linear.backend import backend_of
from separatrix.attention.near_linear.triton import backend as triton
from separatrix.attention.near_linear.triton import launch
from tests.attention.near_linear.test_native_scan import UNEVEN, Case, by_definition, close, draw, incoming
from tests.contracts.attention_contract import inputs
from tests.contracts.interpreter import interpreted, needs_triton  # noqa: F401

pytestmark = [needs_triton, pytest.mark.usefixtures("interpreted"), pytest.mark.timeout(1200)]

CASES = {
    "order 2": Case(9, (14,), total_degree(2, 3), 2, offset=5, moment=2),
    "order 3, lengths differ, masks, states before": Case(
        10, (7, 15), UNEVEN, 3, offset=3, masked=True, before=True, moment=2
    ),
    "order 3, the first queries see nothing": Case(7, (3, 9), total_degree(2, 2), 1, offset=-2, masked=True),
    "order 4": Case(5, (5, 6, 5), total_degree(1, 2), 2, offset=-1, before=True, moment=0, heads=1),
    "order 6": Case(5, (5, 6, 5, 2, 4), total_degree(1, 1), 1, offset=-1, before=True, moment=1, heads=1),
    "one token": Case(1, (1, 1), total_degree(2, 1), 2, before=True),
}


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    """Pieces of 4 tokens and stretches of two pieces, so that short sequences have several of each."""
    shipped = launch.block_of

    def small(kernel, dtype, columns, of=None):
        return shipped(kernel, dtype, columns, of)._replace(rows=8, tokens=4)

    for module in (launch, triton):
        monkeypatch.setattr(module, "block_of", small)
    monkeypatch.setattr(triton, "scan_tokens", lambda *sizes: 8)


@pytest.mark.parametrize("case", CASES)
def test_sums_gradients_and_states_are_those_of_the_definition(case):
    check_scan(CASES[case])


def check_scan(case):
    """Sums, moments and gradients of a random call, against the definition and against plain PyTorch."""
    call, expansion, before = draw(case)
    assert backend_of(call) is triton
    output = causal.attend_causal(call, expansion, before)
    sums, moment = by_definition(call, expansion, before)
    close(output.denominator, sums[..., -1])
    close(output.moment, moment)
    sees = sums[..., -1] != 0
    close(output.output[sees], (sums[..., :-1] / sums[..., -1:])[sees])
    assert not output.output[~sees].any()
    grad_out, grad_lse = incoming(output)
    by_kernels = causal.backward_causal_after(call, expansion, output, before, grad_out, grad_lse)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backend, "BACKENDS", (in_pytorch,))
        patch.setattr(causal, "chunk_size", lambda *sizes: 5)
        plain = causal.backward_causal_after(call, expansion, output, before, grad_out, grad_lse)
    for ours, theirs in zip(by_kernels[1:], plain[1:], strict=True):
        for actual, other in zip(ours, theirs, strict=True):
            close(actual, other)
    close(by_kernels[0], plain[0])


def test_stretches_fill_their_memory_and_consist_of_complete_pieces(monkeypatch):
    monkeypatch.undo()
    assert triton.scan_tokens(8, 495, 17, 2, False) == (1 << 28) // (8 * 8 * 495 * 3 * 32) * 32
    assert triton.scan_tokens(1 << 20, 1 << 17, 100, 2, False) == triton.piece_tokens(100) == 16


def test_a_causal_call_keeps_its_certificate():
    """Causal attention by the kernels and its gradient keep the certificate of the public call."""
    query, keys, values = inputs(3, 9, [9, 9], d=2, d_v=2, batch=(1,))
    leaves = [x.float().requires_grad_() for x in (query, *keys, *values)]
    result = sx.certified_attention(
        leaves[0], leaves[1:3], leaves[3:], tolerance=1e-1, method="polynomial", is_causal=True
    )
    wide = [x.detach().double().requires_grad_() for x in leaves]
    expected, _ = reference.tensor_attention(wide[0], wide[1:3], wide[3:], is_causal=True)
    assert (result.output - expected).abs().max() <= result.certificate.total <= 1e-1
    grads = torch.autograd.grad(result.output.sum(), leaves)
    exact = torch.autograd.grad(expected.sum(), wide)
    assert max((a - b).abs().max().item() for a, b in zip(grads, exact, strict=True)) <= 5e-2
