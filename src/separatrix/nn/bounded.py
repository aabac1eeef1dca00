"""The name `BoundedTensorAttention`, for layers whose scores have a bound."""

from __future__ import annotations

from functools import wraps
from typing import Any

from separatrix.errors import ArgumentError
from separatrix.nn.tensor_attention import TensorAttention


class _HasBound(type):
    """The class of `BoundedTensorAttention`, which every `TensorAttention` with a bound is an instance of."""

    def __instancecheck__(cls, instance: object) -> bool:
        if cls is not BoundedTensorAttention:  # a subclass
            return super().__instancecheck__(instance)
        return isinstance(instance, TensorAttention) and instance.bound is not None


class BoundedTensorAttention(TensorAttention, metaclass=_HasBound):
    """`TensorAttention` with a `bound`, which is required here.

    ``TensorAttention(..., bound=bound)`` makes the same layer, for which
    ``isinstance(layer, BoundedTensorAttention)`` is True too.

    Each head's queries and keys are divided by their l_k norms, k the order (see `normalised`), and the scores are
    multiplied by a learned temperature below `bound`, bound * sigmoid(``temperature``), half of it at the start. So
    `scale` must be None.

    Without a `tolerance` attention is exact. **With a tolerance it is near-linear in the length**, in training, in
    inference and token by token, and every entry of a head's output, before ``out_proj``, is within `tolerance` of
    exact attention's, relative to the product of the largest magnitudes of the value sets, whatever the data. Exact
    attention is that of the very queries, normalised and times their temperature, keys and values that the layer has
    computed in its type. The rounding of the output to that type is part of the tolerance: **a tolerance that the
    layer's type cannot keep is refused**, by the constructor, or when the layer is cast, which plans anew. Beside the
    tolerance stands the smallest positive number of the type, which matters to float16 alone: see `certificate`.

    For a few tokens exact attention takes less time, and a call then computes it, if its error is within the
    certificate. Which of the two it is depends on the shapes alone, and ``layer.plan.crossover(heads)`` is the length
    from which on it is near-linear; with ``method="polynomial"``, and in `decode`, it always is.

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
