"""Models in ONNX: exported by `torch.onnx.export(dynamo=True)`, with the same numbers in onnxruntime."""

from __future__ import annotations

import onnxruntime
import pytest
import torch
from torch import Tensor, nn

import separatrix as sx
from separatrix.nn import TensorAttention
from tests.integration.models import LanguageModel, batch
from tests.integration.test_export import DYNAMIC, OTHER_SHAPES

pytestmark = pytest.mark.filterwarnings(  # the exporter's own
    "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning"
)


class InOnnx:
    """A model as onnxruntime runs it, with standard operators only."""

    def __init__(self, model: nn.Module, inputs: tuple[Tensor, ...], **options: object) -> None:
        program = torch.onnx.export(model.eval(), inputs, dynamo=True, verbose=False, **options)
        assert {node.domain for node in program.model.graph} == {""}
        proto = program.model_proto.SerializeToString()
        self._session = onnxruntime.InferenceSession(proto, providers=["CPUExecutionProvider"])

    def __call__(self, *inputs: Tensor) -> Tensor:
        names = [given.name for given in self._session.get_inputs()]
        feeds = {name: x.numpy() for name, x in zip(names, inputs, strict=True)}
        return torch.from_numpy(self._session.run(None, feeds)[0])


@pytest.mark.parametrize(("kind", "error"), [("rotary, grouped", 3e-5), ("bounded", 3e-5), ("near-linear", 5e-3)])
def test_a_model_for_all_batch_sizes_and_lengths(kind, error):
    """With padding, so that some queries may attend nothing.

    In ONNX attention is exact; the polynomial of the near-linear layer differs from it by at most its tolerance, 1e-3
    relative to the values.
    """
    model = LanguageModel(kind, blocks=1).eval()
    in_onnx = InOnnx(model, batch(3, 7), dynamic_shapes=DYNAMIC)
    for shape in OTHER_SHAPES:
        given = batch(*shape)
        torch.testing.assert_close(in_onnx(*given), model(*given).detach(), rtol=0, atol=error)


class Calls(nn.Module):
    """Calls of `tensor_attention` with different masks, windows and causality, in one model."""

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        q, k1, k2, k3, v1, v2, v3 = x
        calls = [
            sx.tensor_attention(q, [k1, k2, k3], [v1, v2, v3], is_causal=True, query_offset=1),
            sx.tensor_attention(q, [k1, k2], [v1, v2], windows=[3, None], key_masks=[mask, None]),
            sx.tensor_attention(q, k1, v1, is_causal=True),
            sx.tensor_attention(q, k1, v1, key_masks=mask),
            sx.tensor_attention(q, [k1[:, :1], k2[:, :1]], [v1[:, :1], v2[:, :1]], enable_gqa=True, is_causal=True),
            sx.tensor_attention(q, [k1, k2], [v1, v2], is_causal=True, return_lse=True)[1].unsqueeze(-1).expand_as(q),
        ]
        return torch.stack(calls)


def test_calls_in_double_precision():
    """The scale is 1/4, because PyTorch's exporter rounds the constants of a graph to float32."""
    x = torch.randn(7, 2, 2, 5, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    mask = torch.tensor([True, False, True, True, False])
    found = InOnnx(Calls(), (x, mask))(x, mask)
    torch.testing.assert_close(found, Calls()(x, mask), rtol=0, atol=1e-13)


def test_overflowing_results_are_nan():
    """A graph cannot raise an error: if PyTorch's compiled graph does, the output in ONNX is NaN."""
    layer = TensorAttention(8, 2, order=2, generator=torch.Generator().manual_seed(0))
    x = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(1))
    in_onnx = InOnnx(layer, (x,))
    torch.testing.assert_close(in_onnx(x), layer(x).detach(), rtol=0, atol=1e-5)
    assert in_onnx(1e25 * x).isnan().all()


def test_beyond_the_limit():
    layer = TensorAttention(8, 2, generator=torch.Generator().manual_seed(0))
    with pytest.raises(torch.onnx.errors.OnnxExporterError) as caught:
        InOnnx(layer, (torch.ones(1, 600, 8),))
    assert isinstance(caught.value.__cause__, sx.SeparatrixError)
    assert "at most 268435456 entries; this call has 432000000" in str(caught.value.__cause__)
