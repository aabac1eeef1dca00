"""The attention contract for bounded attention: by its plan alone, and exactly where that is cheaper."""

from __future__ import annotations

from separatrix.attention.call import check_call
from separatrix.attention.near_linear.bounded_attention import bounded_attention
from separatrix.attention.near_linear.bounded_plan import plan_bounded, score_radius
from tests.contracts.attention_contract import AttentionContract


class TestBoundedAttention(AttentionContract):
    error = 1e-5
    may_be_exact = False

    def attend(self, query, keys, values, **options):
        call = check_call(query, keys, values, **options)
        order, d = len(keys) + 1, query.shape[-1]
        radius = score_radius(order, d, 1.0, call.scale, "entries", query.dtype)
        plan = plan_bounded(order, d, radius, self.error, query.dtype)
        return bounded_attention(plan, call, may_be_exact=self.may_be_exact), None


class TestBoundedAttentionThatMayBeExact(TestBoundedAttention):
    may_be_exact = True
