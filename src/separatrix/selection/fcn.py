"""Fully-connected nets on the flattened input, of any depth, widths and activation (Section 3.3).

    f(x) = W_L sigma(W_{L-1} ... sigma(W_1 x + b_1) ...) + b_L,    x = (x_1, ..., x_T, y_1, ..., y_q) in R^{Td + q}

Wang, Wei, Hsu and Lee print it without biases. Their lower bounds hold for any function of W_1 x, so also for the nets
with biases here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from separatrix.checks import whole
from separatrix.errors import ArgumentError
from separatrix.selection.arguments import seeded, sizes
from separatrix.selection.task import flatten_input


class FCN(nn.Module):
    """A fully-connected net for the task.

    Args:
        T: the number of tokens.
        q: the number of tokens to average.
        d: the dimension of a token.
        widths: the hidden widths, first layer first; their number is the depth minus 1.
        activation: a function that creates the activation after each hidden layer.
        generator: the source of randomness, or a seed, for weights with the same distribution as those of `nn.Linear`.
        dtype: the type of the weights.

    Example:
        >>> net = FCN(T=4, q=2, d=3, widths=[8, 5], activation=nn.Tanh)
        >>> net(torch.zeros(7, 4, 3), torch.zeros(7, 2, dtype=torch.int64)).shape, parameter_count(net)
        (torch.Size([7, 3]), 183)
    """

    def __init__(
        self,
        T: int,
        q: int,
        d: int,
        widths: Sequence[int],
        *,
        activation: Callable[[], nn.Module] = nn.ReLU,
        generator: torch.Generator | int = 0,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        self.T, self.q, self.d = sizes(T, q, d)
        if not widths:
            raise ArgumentError("widths", expected="at least one hidden width", got=list(widths))
        hidden = [whole(f"widths[{i}]", width, low=1) for i, width in enumerate(widths)]
        source = seeded(generator)
        layers: list[nn.Module] = []
        for before, after in zip([self.T * self.d + self.q, *hidden[:-1]], hidden, strict=True):
            layers += [_linear(before, after, source, dtype), activation()]
        self.layers = nn.Sequential(*layers, _linear(hidden[-1], self.d, source, dtype))

    def forward(self, X: Tensor, y: Tensor | None = None) -> Tensor:
        """The outputs of the net, of shape (..., d).

        Args:
            X: the tokens, of shape (..., T, d); or, if y is None, flattened inputs of shape (..., T d + q).
            y: the positions to average, of shape (..., q).
        """
        output: Tensor = self.layers(X if y is None else flatten_input(X, y))
        return output


def _linear(before: int, after: int, source: torch.Generator, dtype: torch.dtype) -> nn.Linear:
    """An `nn.Linear` whose weights have the usual distribution, uniform within 1/sqrt(fan in), but are drawn from
    `source`."""
    layer: nn.Linear = nn.utils.skip_init(nn.Linear, before, after, dtype=dtype)
    bound = before**-0.5
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.uniform_(-bound, bound, generator=source)
    return layer


def parameter_count(module: nn.Module) -> int:
    """The number of trainable parameters of a module."""
    return sum(parameter.numel() for parameter in module.parameters() if parameter.requires_grad)
