"""`BoundedTensorAttention`: layers whose scores have a bound."""

from __future__ import annotations

from functools import wraps
from typing import Any

from separatrix.errors import ArgumentError
from separatrix.nn.tensor_attention import TensorAttention


class _HasBound(type):
    """The metaclass of `BoundedTensorAttention`: every `TensorAttention` with a bound is an instance of it."""

    def __instancecheck__(cls, instance: object) -> bool:
        if cls is not BoundedTensorAttention:  # a subclass
            return super().__instancecheck__(instance)
        return isinstance(instance, TensorAttention) and instance.bound is not None


class BoundedTensorAttention(TensorAttention, metaclass=_HasBound):
    """`TensorAttention` with a `bound`, which is required here.

    ``TensorAttention(..., bound=bound)`` makes the same layer, for which
    ``isinstance(layer, BoundedTensorAttention)`` is True too.

    Each head's queries and keys are divided by their l_k norms, k the order (see `normalised`), and the scores are
    multiplied by a learned temperature below `bound`, bound * sigmoid(``temperature``), initially half of the bound. So
    `scale` must be None.

    Without a `tolerance` attention is exact. **With a tolerance it is near-linear in the length**, in training, in
    inference and in decoding, and every entry of a head's output, before ``out_proj``, is within `tolerance` of exact
    attention, relative to the product of the largest magnitudes of the value sets, for any data. Exact attention here
    means attention with the queries (normalised and multiplied by the temperature), keys and values that the layer has
    computed in its dtype. The tolerance includes the rounding of the output to that dtype: **a tolerance that is too
    small for the layer's dtype raises an error**, in the constructor, or when the layer is cast, which computes a new
    plan. The smallest positive number of the dtype is added to the tolerance, which matters for float16 only: see
    `certificate`.

    For short sequences exact attention is faster, and the layer computes it if its rounding error is within the
    certificate. The choice depends on the shapes alone, and ``layer.plan.crossover(heads)`` is the length from which
    attention is near-linear; with ``method="polynomial"``, and in `decode`, it is always near-linear.

    Example:
        >>> isinstance(TensorAttention(8, 2, bound=1.0), BoundedTensorAttention)
        True
        >>> isinstance(TensorAttention(8, 2), BoundedTensorAttention)
        False
    """

    @wraps(TensorAttention.__init__)  # type: ignore[misc]  # the signature that tools show
    def __init__(self, *arguments: Any, **options: Any) -> None:
        if options.get("bound") is None:
            raise ArgumentError("bound", expected="a positive finite number", got=None)
        super().__init__(*arguments, **options)
