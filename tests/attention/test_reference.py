"""The reference against hand-made numbers, einsum, and the identities the papers state."""

from __future__ import annotations

import pytest
import torch

from separatrix.attention import reference
from tests.contracts.attention_contract import draw, inputs


def test_column_kronecker_entry_by_entry():
    """Definition 2.4: K[i1 + (i2 - 1) n, j] = K1[i1, j] K2[i2, j]."""
    K1, K2, K3 = draw(0, 3, 2), draw(1, 4, 2), draw(2, 2, 2)
    K = reference.column_kronecker(K1, K2, K3)
    for i1 in range(3):
        for i2 in range(4):
            for i3 in range(2):
                assert torch.equal(K[i1 + 3 * i2 + 12 * i3], K3[i3] * (K2[i2] * K1[i1]))


@pytest.mark.parametrize("order", [2, 3, 4])
def test_scores_are_the_product_with_column_kronecker(order):
    """Lemma C.5, part 1: the matrix Q (K_1 (x) K_2)^T is the tensor Q . K_1 . K_2, flattened."""
    query, keys, _ = inputs(order, 5, [4, 3, 2])
    matrix = 0.3 * query @ reference.column_kronecker(*keys).mT
    tensor = reference.tensor_scores(query, keys, 0.3)
    reverse = tuple(range(2, order + 1))[::-1]
    assert torch.allclose(matrix, tensor.permute(0, 1, *reverse).flatten(2), atol=1e-14)


def test_products_of_column_kroneckers_are_hadamard_products():
    """Lemma C.3: (A_1 (x) A_2)^T (B_1 (x) B_2) = (A_1^T B_1) o (A_2^T B_2)."""
    A1, A2, B1, B2 = draw(0, 5, 3), draw(1, 6, 3), draw(2, 5, 4), draw(3, 6, 4)
    product = reference.column_kronecker(A1, A2).T @ reference.column_kronecker(B1, B2)
    assert torch.allclose(product, (A1.T @ B1) * (A2.T @ B2), atol=1e-13)


def test_row_sums_and_values_without_the_exponential():
    """Lemma C.5, parts 2 and 3, with A = Q (K_1 (x) K_2)^T."""
    Q, K1, K2, V1, V2 = draw(0, 5, 3), draw(1, 4, 3), draw(2, 6, 3), draw(3, 4, 2), draw(4, 6, 2)
    A = Q @ reference.column_kronecker(K1, K2).T
    assert torch.allclose(A.sum(1), Q @ (K1.sum(0) * K2.sum(0)), atol=1e-13)
    assert torch.allclose(A @ reference.column_kronecker(V1, V2), Q @ ((K1.T @ V1) * (K2.T @ V2)), atol=1e-13)


def test_tensor_trick():
    """Fact A.1 and Claims C.3, C.5 of Deng, Song, Yuan and Zhou: vec(A_1 X A_2^T) = (A_1 (x) A_2) vec(X), by rows.

    Row j_0 of the left side is block j_0 of the right side, and exp and row sums commute with this.
    """
    n, d = 4, 3
    A1, A2, Q, K = draw(0, n, d), draw(1, n, d), draw(2, d, d), draw(3, d, d)
    blocks = (torch.kron(A1, A2) @ (Q @ K.T).flatten()).reshape(n, n)
    rows = A1 @ Q @ K.T @ A2.T
    assert torch.allclose(blocks, rows, atol=1e-13)
    assert torch.allclose(torch.exp(blocks).sum(1), torch.exp(rows).sum(1), atol=1e-12)


def test_linear_attention_is_its_definition():
    """Definition C.1: alpha^{-1} u times the values."""
    Q, K, V = (draw(seed, 4, 3) + 2 for seed in range(3))
    out = reference.linear_attention(Q, K, V)
    for j0 in range(4):
        u = K @ Q[j0]
        assert torch.allclose(out[j0], (u / u.sum()) @ V, atol=1e-14)


def test_order_two_is_softmax_attention():
    query, keys, values = inputs(2, 5, [7])
    expected = torch.softmax(query @ keys[0].mT / 3, -1) @ values[0]
    out, lse = reference.tensor_attention(query, keys, values)
    assert torch.allclose(out, expected, atol=1e-14)
    assert torch.allclose(lse, torch.logsumexp(query @ keys[0].mT / 3, -1), atol=1e-14)


@pytest.mark.parametrize("order", [2, 3, 4])
def test_allowed_tuples_one_by_one(order):
    lengths, windows = [3, 5, 2][: order - 1], [None, 2, 1][: order - 1]
    allowed = reference.allowed_tuples(4, lengths, is_causal=True, query_offset=-1, windows=windows)
    for index in torch.cartesian_prod(*(torch.arange(size) for size in (4, *lengths))).reshape(-1, order).tolist():
        i, *js = index
        here = i - 1
        expected = all(j <= here and (w is None or j > here - w) for j, w in zip(js, windows, strict=True))
        assert allowed[tuple(index)].item() == expected
