r"""Theorem C.2 as a program: two inputs that a given net cannot distinguish, and its error on one of them.

In the theorem of Wang, Wei, Hsu and Lee, write the first layer's weight on the tokens q, ..., T as [V_q; ...; V_T].
With at most (T - q + 1) d - 1 neurons it has a kernel vector u != 0. The net has equal outputs on the two inputs with
tokens 0, ..., 0, +-u_q, ..., +-u_T and the query y = {1, ..., q - 1, j}, where u_j is the longest token of u, but their
targets +-u_j / q are 2 |u_j| / q apart: on one of the two the error is at least |u_j| / q.

**The constant.** The proof scales u to |u_j| = 1/2, where the *norm* of the error is at least 1/(2q) and its square at
least 1/(4 q^2): the theorem's squared error >= 1/(2q) does not follow there, and the zero net, whose error is exactly
1/(2q) on both inputs, contradicts it. But tokens are not bounded, so u may be scaled arbitrarily and *every* constant
can be reached: as a statement about all inputs the theorem is true but says nothing about size; for tokens of norm at
most r it says that the norm of the error is at least r/q. Here u is scaled to |u_j| = q by default, for which the norm
of the error and its square are both at least 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from separatrix.checks import positive
from separatrix.errors import ArgumentError, SeparatrixError
from separatrix.selection.arguments import sizes
from separatrix.selection.task import flatten_input, subset_average


@dataclass(frozen=True)
class Counterexample:
    """Two inputs that a net cannot distinguish.

    Attributes:
        first: the first input (x_1, ..., x_T, y_1, ..., y_q) in R^{Td + q}, positions counted from 0.
        second: the second input.
        loss: the norm of the error that the net must make on one of them: half the distance of the two targets, minus
            half the distance of the two outputs, which differs from zero only by rounding.
        errors: the norms of the errors that the net makes on the two inputs; the larger is at least `loss`.
    """

    first: Tensor
    second: Tensor
    loss: float
    errors: tuple[float, float]


def fcn_counterexample(module: nn.Module, T: int, q: int, d: int, *, token_norm: float | None = None) -> Counterexample:
    """The pair of inputs of Theorem C.2 for a given net.

    Args:
        module: the net, whose first layer is `nn.Linear(T d + q, k)` with k <= (T - q + 1) d - 1. It takes (2, T d + q)
            and returns (2, d), and is run in evaluation mode.
        T: the number of tokens.
        q: the number of tokens to average.
        d: the dimension of a token.
        token_norm: the norm of the longest token of the pair; None stands for q, and the theorem's proof has 1/2.

    Raises:
        ArgumentError: if the net does not have this form.
        SeparatrixError: if the two outputs differ by more than rounding.

    Example:
        >>> from separatrix.selection.fcn import FCN
        >>> counterexample = fcn_counterexample(FCN(T=4, q=2, d=1, widths=[2, 9]), T=4, q=2, d=1)
        >>> round(counterexample.loss, 5), max(counterexample.errors) >= counterexample.loss
        (1.0, True)
    """
    T, q, d = sizes(T, q, d)
    layer = _first_linear(module, T, q, d)
    scale = positive("token_norm", token_norm) if token_norm is not None else float(q)
    block = layer.weight.detach()[:, (q - 1) * d : T * d].double()
    u = torch.linalg.svd(block, full_matrices=True).Vh[-1].reshape(T - q + 1, d)
    norms = torch.linalg.vector_norm(u, dim=1)
    j = int(norms.argmax())
    xi = torch.cat([u.new_zeros(q - 1, d), u * (scale / norms[j])])
    X = torch.stack([xi, -xi])
    y = torch.tensor([[*range(q - 1), q - 1 + j]] * 2)
    inputs = flatten_input(X, y).to(layer.weight)
    outputs = _run(module, layer, inputs, d)
    errors = torch.linalg.vector_norm(outputs - subset_average(X, y).to(outputs.device), dim=1)
    blur = float(torch.linalg.vector_norm(outputs[0] - outputs[1]))
    loss = scale / q - blur / 2
    if blur > 1e-2 * scale / q:
        raise SeparatrixError(
            f"fcn_counterexample: the outputs on two inputs with the same first layer are {blur:.3g} apart; either the "
            "module also uses its input after that layer, or it amplifies rounding errors too much."
        )
    return Counterexample(inputs[0], inputs[1], loss, (float(errors[0]), float(errors[1])))


def _first_linear(module: nn.Module, T: int, q: int, d: int) -> nn.Linear:
    layer = next((part for part in module.modules() if isinstance(part, nn.Linear)), None)
    if layer is None:
        raise ArgumentError("module", expected="a module whose first layer is nn.Linear", got=type(module).__name__)
    if layer.in_features != T * d + q:
        expected = f"a first layer of T d + q = {T * d + q} inputs"
        raise ArgumentError("module", expected=expected, got=f"one of {layer.in_features}")
    widest = (T - q + 1) * d - 1
    if layer.out_features > widest:
        raise ArgumentError(
            "module",
            expected=f"a first layer of at most (T - q + 1) d - 1 = {widest} neurons",
            got=f"one of {layer.out_features}",
            hypothesis="the width of Theorem C.2",
        )
    return layer


def _run(module: nn.Module, layer: nn.Linear, inputs: Tensor, d: int) -> Tensor:
    """The outputs in float64; an error if `layer` did not receive the inputs themselves."""
    received: list[Tensor] = []
    handle = layer.register_forward_pre_hook(lambda _, arguments: received.append(arguments[0].detach()))
    try:
        with _evaluation(module), torch.no_grad():
            outputs = module(inputs)
    finally:
        handle.remove()
    if not received or received[0].shape != inputs.shape or not torch.equal(received[0], inputs):
        raise ArgumentError(
            "module", expected="its first nn.Linear to be given the input itself", got="something computed before it"
        )
    if outputs.shape != (2, d):
        raise ArgumentError("module", expected=f"outputs of shape (2, {d}) for two inputs", got=tuple(outputs.shape))
    return outputs.double()  # type: ignore[no-any-return]


@contextmanager
def _evaluation(module: nn.Module) -> Iterator[None]:
    """Set evaluation mode in the block, and restore the mode of each part after it."""
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, mode in modes:
            part.training = mode
