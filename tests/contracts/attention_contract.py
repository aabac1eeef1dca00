"""The contract that every algorithm of order-k attention must satisfy.

A subclass supplies `attend` and, for an approximate algorithm, `error` and `lse_error`: the allowed differences of its
output and log-sum-exp from the reference. An algorithm without a log-sum-exp returns None for it. An algorithm for
another score form supplies `definition` as well. A subclass sets a test to None if its algorithm does not support the
option of the test. Inputs are float64 in [-1, 1], where every algorithm applies; causal sequences have even lengths, so
that two ranks can share them.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from separatrix.attention import reference
from tests.contracts.derivatives import same_gradients
from tests.pairwise import pairwise

ORDERS = [2, 3, 4]


def draw(seed: int, *shape: int) -> Tensor:
    return 2 * torch.rand(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)) - 1


def inputs(order: int, query_length: int, lengths: list[int], d: int = 3, d_v: int = 2, batch: tuple[int, ...] = (2,)):
    query = draw(0, *batch, query_length, d)
    keys = [draw(10 + m, *batch, length, d) for m, length in enumerate(lengths[: order - 1])]
    values = [draw(20 + m, *batch, length, d_v) for m, length in enumerate(lengths[: order - 1])]
    return query, keys, values


class AttentionContract:
    error = 1e-10
    lse_error = 1e-10

    def attend(
        self, query: Tensor, keys: list[Tensor], values: list[Tensor], **options: object
    ) -> tuple[Tensor, Tensor | None]:
        raise NotImplementedError

    def definition(
        self, query: Tensor, keys: list[Tensor], values: list[Tensor], **options: object
    ) -> tuple[Tensor, Tensor]:
        return reference.tensor_attention(query, keys, values, **options)

    def agrees(self, query: Tensor, keys: list[Tensor], values: list[Tensor], **options: object) -> None:
        out, lse = self.attend(query, keys, values, **options)
        expected, expected_lse = self.definition(query, keys, values, **options)
        assert out.shape == expected.shape
        assert (out - expected).abs().max() <= self.error
        if lse is not None:
            empty = expected_lse == -torch.inf
            assert torch.equal(lse == -torch.inf, empty)
            assert (lse - expected_lse)[~empty].abs().max() <= self.lse_error

    def same(self, first: tuple[Tensor, Tensor | None], second: tuple[Tensor, Tensor | None]) -> None:
        """Assert that two calls give the same result, each within its own error."""
        assert (first[0] - second[0]).abs().max() <= 2 * self.error
        if first[1] is not None:
            assert (first[1] - second[1]).abs().max() <= 2 * self.lse_error

    @pytest.mark.parametrize(
        ("order", "lengths", "sizes"),
        pairwise(ORDERS, [[1, 1, 1], [5, 3, 4], [2, 7, 1]], [(1, 1, 1), (6, 3, 5), (4, 7, 2)]),
    )
    def test_equals_reference(self, order, lengths, sizes):
        query_length, d, d_v = sizes
        self.agrees(*inputs(order, query_length, lengths, d, d_v))

    @pytest.mark.parametrize("order", ORDERS)
    def test_default_scale_is_one_over_d(self, order):
        query, keys, values = inputs(order, 3, [4, 5, 2], d=5)
        out, _ = self.attend(query, keys, values)
        explicit, _ = self.attend(query, keys, values, scale=1 / 5)
        assert torch.equal(out, explicit)

    @pytest.mark.parametrize("order", ORDERS)
    @pytest.mark.parametrize("scale", [0.0, -0.4, 1.3])
    def test_other_scales(self, order, scale):
        self.agrees(*inputs(order, 3, [4, 5, 2]), scale=scale)

    @pytest.mark.parametrize("order", ORDERS)
    def test_leading_dimensions_broadcast(self, order):
        query = draw(0, 3, 1, 4, 3)
        keys = [draw(1, 2, 5, 3), draw(2, 3, 2, 3, 3), draw(3, 4, 3)][: order - 1]
        values = [draw(4, 3, 1, 5, 2), draw(5, 3, 2), draw(6, 2, 4, 2)][: order - 1]
        self.agrees(query, keys, values)

    @pytest.mark.parametrize("order", ORDERS)
    def test_no_leading_dimensions(self, order):
        self.agrees(*inputs(order, 3, [4, 5, 2], batch=()))

    @pytest.mark.parametrize("order", ORDERS)
    def test_order_of_keys_does_not_matter(self, order):
        query, keys, values = inputs(order, 4, [6, 5, 3])
        moved = [torch.randperm(key.shape[-2], generator=torch.Generator().manual_seed(7)) for key in keys]
        permuted = self.attend(
            query,
            [key[:, p] for key, p in zip(keys, moved, strict=True)],
            [value[:, p] for value, p in zip(values, moved, strict=True)],
        )
        self.same(self.attend(query, keys, values), permuted)

    @pytest.mark.parametrize("order", ORDERS[1:])
    def test_order_of_key_sets_does_not_matter(self, order):
        query, keys, values = inputs(order, 4, [6, 5, 3])
        self.same(self.attend(query, keys, values), self.attend(query, keys[::-1], values[::-1]))

    @pytest.mark.parametrize("order", ORDERS)
    @pytest.mark.parametrize("is_causal", [False, True])
    def test_outputs_are_averages(self, order, is_causal):
        query, keys, values = inputs(order, 6, [6, 6, 6])
        out, _ = self.attend(query, keys, [torch.ones_like(value) for value in values], is_causal=is_causal)
        assert (out - 1).abs().max() <= self.error

    @pytest.mark.parametrize("order", ORDERS)
    def test_a_mask_is_a_slice(self, order):
        query, keys, values = inputs(order, 4, [6, 5, 3])
        kept = [torch.arange(key.shape[-2]) % 3 != 1 for key in keys]
        sliced = self.attend(
            query,
            [key[:, keep] for key, keep in zip(keys, kept, strict=True)],
            [value[:, keep] for value, keep in zip(values, kept, strict=True)],
        )
        self.same(self.attend(query, keys, values, key_masks=kept), sliced)

    @pytest.mark.parametrize("order", ORDERS)
    def test_masks_of_each_batch_entry(self, order):
        query, keys, values = inputs(order, 4, [6, 5, 3])
        masks = [
            torch.rand(2, key.shape[-2], generator=torch.Generator().manual_seed(m)) > 0.5 for m, key in enumerate(keys)
        ]
        masks[0] = torch.tensor([[True] * 6, [False] * 6])
        self.agrees(query, keys, values, key_masks=masks)
        self.agrees(query, keys, values, key_masks=[masks[0], *[None] * (order - 2)])

    @pytest.mark.parametrize("order", ORDERS)
    def test_causal_is_a_prefix_call(self, order):
        query, keys, values = inputs(order, 8, [8, 8, 8])
        out, lse = self.attend(query, keys, values, is_causal=True)
        for i in range(8):
            prefix = self.attend(
                query[:, i : i + 1], [key[:, : i + 1] for key in keys], [value[:, : i + 1] for value in values]
            )
            self.same((out[:, i : i + 1], None if lse is None else lse[:, i : i + 1]), prefix)

    @pytest.mark.parametrize("order", ORDERS)
    @pytest.mark.parametrize("offset", [-3, 2, 9])
    def test_causal_with_an_offset(self, order, offset):
        self.agrees(*inputs(order, 6, [8, 9, 4]), is_causal=True, query_offset=offset)

    @pytest.mark.parametrize("order", ORDERS)
    def test_grouped_heads(self, order):
        query = draw(0, 2, 6, 4, 3)
        keys = [draw(1 + m, 2, 2, 5, 3) for m in range(order - 1)]
        values = [draw(5 + m, 2, 2, 5, 2) for m in range(order - 1)]
        self.agrees(query, keys, values, enable_gqa=True)

    @pytest.mark.parametrize("order", ORDERS)
    def test_nothing_to_attend(self, order):
        query, keys, values = inputs(order, 4, [0, 5, 3])
        out, lse = self.attend(query, keys, values)
        assert torch.equal(out, torch.zeros(2, 4, 2, dtype=torch.float64))
        assert lse is None or torch.equal(lse, torch.full((2, 4), -torch.inf, dtype=torch.float64))

    @pytest.mark.parametrize("order", ORDERS)
    def test_no_query(self, order):
        out, lse = self.attend(*inputs(order, 0, [4, 5, 3]))
        assert out.shape == (2, 0, 2)
        assert lse is None or lse.shape == (2, 0)

    @pytest.mark.parametrize("order", ORDERS)
    @pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"masked": True}])
    def test_gradients(self, order, options):
        query, keys, values = inputs(order, 4, [4, 4, 4], d=2, batch=(1,))
        options = dict(options)
        if options.pop("masked", False):
            options["key_masks"] = [torch.tensor([True, False, True, True])] * (order - 1)
        leaves = [x.requires_grad_() for x in (query, *keys, *values)]

        def function(q, *sets):
            results = self.attend(q, list(sets[: order - 1]), list(sets[order - 1 :]), **options)
            return tuple(x for x in results if x is not None)

        def definition(q, *sets):
            return self.definition(q, list(sets[: order - 1]), list(sets[order - 1 :]), **options)[:count]

        count = len(function(*leaves))
        same_gradients(function, definition, leaves, 100 * self.error)
