"""The inputs of a backward pass for each query, with incoming gradients scaled to about 1; the C++ kernels do the same.

The error of a query's gradient is relative to the incoming gradient of that query, even if those of other queries are
far larger; the errors of the gradients of keys and values are relative to the largest of their head. So there are two
copies of the incoming gradient: one divided by a power of two for each query, one by that of the head.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from separatrix.attention.arithmetic.incoming import Power
from separatrix.attention.call import Call, Gradients


@dataclass(frozen=True)
class IncomingRows:
    """The rows of a backward pass; with P = exp(S - lse) the weights of a query, the gradients are made of

        dS = P * (near (V - out)^T + near_lse),    dQ = scale dS K,    dV = P^T incoming,    dK = dS^T weighted.

    Attributes:
        lse: The log-sum-exps, (H, L_q), 0 for a query with nothing to attend.
        near: The incoming gradients divided by each query's power of two, (H, L_q, d_v).
        near_lse: The gradients of the log-sum-exps over the same power, (H, L_q, 1).
        incoming: The incoming gradients over the power of their head.
        weighted: The queries times the scale and their share of the head's power.
        share: Each query's power of two divided by that of its head, (H, L_q); at most 1.

    Heads of queries that share keys have one power: the gradients of the keys add up over all of them.
    """

    lse: Tensor
    near: Tensor
    near_lse: Tensor
    incoming: Tensor
    weighted: Tensor
    share: Tensor
    _own: Power
    _head: Power

    @classmethod
    def of(cls, call: Call, lse: Tensor, grad_out: Tensor, grad_lse: Tensor) -> IncomingRows:
        """The rows for the gradients of output and log-sum-exp; a query with nothing to attend has none."""
        empty = lse == -math.inf
        dO, dL = grad_out.masked_fill(empty.unsqueeze(-1), 0.0), grad_lse.masked_fill(empty, 0.0)
        both = torch.cat([dO, dL.unsqueeze(-1)], -1)
        own = Power.next_to(both.flatten(0, 1))
        near = own.divide(both.flatten(0, 1)).unflatten(0, lse.shape)
        head, share = own.of_heads(
            both.reshape(both.shape[0] // call.shared, call.shared * both.shape[1], both.shape[2])
        )
        shares = share.multiply(torch.ones_like(lse).flatten()).unflatten(0, lse.shape)
        incoming = share.multiply(near[..., :-1].flatten(0, 1)).unflatten(0, lse.shape)
        weighted = share.multiply(call.query.flatten(0, 1) * call.scale).unflatten(0, lse.shape)
        return cls(lse.masked_fill(empty, 0.0), near[..., :-1], near[..., -1:], incoming, weighted, shares, own, head)

    def gradients(self, query: Tensor, keys: list[Tensor], values: list[Tensor]) -> Gradients:
        """The gradients of the call from those that the rows give."""
        query = self._own.multiply(query.flatten(0, 1)).unflatten(0, self.lse.shape)
        return query, [self._head.multiply(x) for x in keys], [self._head.multiply(x) for x in values]
