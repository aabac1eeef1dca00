"""The comparison of derivatives detects an error in a single entry."""

from __future__ import annotations

import pytest
import torch

from tests.contracts.derivatives import same_gradients, same_second_derivatives, same_tangents

COMPARED = {"gradients": same_gradients, "second": same_second_derivatives, "tangents": same_tangents}


def definition(x, y):
    return (x * y).sin().cumsum(-1), x.exp().sum(-1)


def wrong(x, y):
    """Only derivatives differ: by 1e-8 in the last entry of the second input, from the second derivatives on."""
    entry = torch.zeros_like(y)
    entry[-1] = 1e-8
    first, second = definition(x, y)
    return first + entry * (y - y.detach()), second + 1e-8 * (x[0] - x[0].detach()) ** 2


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")  # PyTorch's own warning, in forward mode
@pytest.mark.parametrize("kind", COMPARED)
def test_an_error_in_one_entry_is_detected(kind):
    generator = torch.Generator().manual_seed(0)
    leaves = [torch.rand(3, dtype=torch.float64, generator=generator).requires_grad_() for _ in range(2)]
    COMPARED[kind](definition, definition, leaves, 0.0)
    with pytest.raises(AssertionError, match="not close"):
        COMPARED[kind](wrong, definition, leaves, 1e-11)
