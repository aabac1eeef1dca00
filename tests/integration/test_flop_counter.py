"""`FlopCounterMode` counts attention: two operations for each product and sum of each allowed tuple."""

from __future__ import annotations

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode, sdpa_backward_flop_count, sdpa_flop_count

import separatrix as sx
from separatrix.attention import reference

CALLS = {
    "all": {},
    "causal": {"is_causal": True},
    "causal, offset": {"is_causal": True, "query_offset": 2},
    "windows": {"windows": [3, 2]},
    "one window, causal": {"is_causal": True, "windows": [None, 2]},
}


def literal_tuples(lengths: tuple[int, ...], options: dict[str, object]) -> int:
    query, *keys = lengths
    return int(reference.allowed_tuples(query, keys, **options).sum())


@pytest.mark.parametrize("order", [3, 4])
@pytest.mark.parametrize("call", CALLS)
def test_against_a_literal_count(call, order):
    """Each tuple has one score and one output forward, and one score and one product per gradient backward."""
    options = dict(CALLS[call])
    if order == 4 and "windows" in options:
        options["windows"] = [*options["windows"], 4]
    heads, d, d_v, sets = 2, 4, 3, order - 1
    lengths = (5,) * order if options.get("is_causal") and not options.get("query_offset") else (5, *range(6, 6 + sets))
    generator = torch.Generator().manual_seed(0)

    def draw(length: int, width: int) -> torch.Tensor:
        return torch.randn(heads, length, width, generator=generator, requires_grad=True)

    query = draw(lengths[0], d)
    keys, values = ([draw(length, width) for length in lengths[1:]] for width in (d, d_v))
    with FlopCounterMode(display=False) as forward:
        out = sx.tensor_attention(query, keys, values, **options)
    with FlopCounterMode(display=False) as backward:
        out.sum().backward()
    tuples = heads * literal_tuples(lengths, options)
    assert tuples > 0
    scores, outputs = 2 * tuples * d, 2 * tuples * d_v
    assert forward.get_total_flops() == scores + outputs
    weights = outputs  # the gradient of a weight is a product of the incoming gradient and the values
    assert backward.get_total_flops() == scores + weights + (1 + sets) * scores + sets * outputs


def test_order_2_is_counted_as_pytorch_counts():
    """A call that returns the log-sum-exp runs our operator, and is counted by PyTorch's formulas for its fused
    attention.
    """
    x = torch.randn(3, 2, 4, 6, 8, generator=torch.Generator().manual_seed(0), requires_grad=True)
    with FlopCounterMode(display=False) as forward:
        out, _ = sx.tensor_attention(x[0], x[1], x[2], return_lse=True)
    with FlopCounterMode(display=False) as backward:
        out.sum().backward()
    shape = x.shape[1:]
    assert forward.get_total_flops() == sdpa_flop_count(shape, shape, shape)
    assert backward.get_total_flops() == sdpa_backward_flop_count(shape, shape, shape, shape)


BEFORE_AND_AFTER = """
import torch, separatrix as sx
layer = sx.nn.TensorAttention(8, 2, order=3)
x = torch.ones(2, 5, 8)
from torch.utils.flop_counter import FlopCounterMode
counts = []
for mode in (torch.enable_grad, torch.no_grad, torch.inference_mode):
    with mode(), FlopCounterMode(display=False) as counter:
        layer(x)
    counts.append(counter.flop_counts["Global"].get(torch.ops.separatrix.attend))
print(counts)
"""


def test_a_counter_imported_after_the_layer(forked):
    """Formulas are registered when a counter is first active, also without gradients."""
    done = forked(BEFORE_AND_AFTER)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{[2 * 4 * 5**3 * (4 + 4)] * 3}\n"
