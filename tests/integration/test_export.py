"""Whole models in `torch.export`, `torch.compile(dynamic=True)` and AOTInductor, for all batch sizes and lengths."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from tests.integration.models import KINDS, LanguageModel, batch

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # warnings of the exporter and the compiler
OTHER_SHAPES = [(1, 2), (5, 13), (2, 31)]


SIZE, LENGTH = torch.export.Dim("size", min=1, max=64), torch.export.Dim("length", min=2, max=64)
DYNAMIC = ({0: SIZE, 1: LENGTH},) * 2
"""The shapes of a `batch`."""


class WithAndWithoutPadding(nn.Module):
    """A model that is called without and with padding in one program."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.model = LanguageModel(kind, blocks=1)

    def forward(self, tokens: Tensor, padding: Tensor) -> Tensor:
        return torch.stack([self.model(tokens), self.model(tokens, padding)])


@pytest.mark.parametrize("kind", KINDS)
def test_exported_for_all_batch_sizes_and_lengths(kind):
    model = WithAndWithoutPadding(kind)
    module = torch.export.export(model, batch(3, 7), dynamic_shapes=DYNAMIC).module()
    for shape in OTHER_SHAPES:
        torch.testing.assert_close(module(*batch(*shape)), model(*batch(*shape)), rtol=1e-6, atol=2e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_one_graph_for_many_batch_sizes(kind):
    model, graphs = LanguageModel(kind, blocks=1), []

    def backend(graph: torch.fx.GraphModule, _: object):
        graphs.append(graph)
        return graph.forward

    torch._dynamo.reset()
    compiled = torch.compile(model, backend=backend, dynamic=True, fullgraph=True)
    for size in (2, 3, 4, 5, 6, 9):
        tokens, _ = batch(size, 6)
        torch.testing.assert_close(compiled(tokens), model(tokens), rtol=0, atol=1e-6)
    assert len(graphs) == 1


LOADING = """
import sys, torch
import separatrix.nn  # for its operators
from safetensors.torch import load_file, save_file
inputs, program, outputs = sys.argv[1:]
given = load_file(inputs)
run = torch._inductor.aoti_load_package(program)
with torch.no_grad():
    save_file({name: run(given[name], given["mask " + name]) for name in given if not name.startswith("mask")}, outputs)
"""


class Both(nn.Module):
    """A model of exact layers and a model of near-linear layers, compiled together."""

    def __init__(self) -> None:
        super().__init__()
        self.exact, self.near_linear = LanguageModel("windows", 1), LanguageModel("near-linear", 1)

    def forward(self, tokens: Tensor, padding: Tensor) -> Tensor:
        return self.exact(tokens) + self.near_linear(tokens, padding)


@pytest.mark.timeout(600)  # C++ is compiled
@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")  # the compiler's own
@pytest.mark.parametrize("dynamic", [pytest.param(False, marks=pytest.mark.soak), True])
def test_compiled_ahead_of_time_and_loaded_by_another_process(dynamic, forked, tmp_path, monkeypatch):
    """The variable CI is set, so that Inductor refuses operators that PyTorch's table decomposes."""
    monkeypatch.setenv("CI", "true")
    model = Both().eval() if dynamic else LanguageModel("order 3", 1).eval()
    shapes = [(3, 7), *(OTHER_SHAPES if dynamic else [])]
    inputs, package, outputs = (str(tmp_path / name) for name in ("inputs", "model.pt2", "outputs"))
    options = {"aot_inductor.compile_wrapper_opt_level": "O0", "aot_inductor.precompile_headers": False}
    with torch.no_grad():
        program = torch.export.export(model, batch(3, 7), dynamic_shapes=DYNAMIC if dynamic else None)
        torch._inductor.aoti_compile_and_package(program, package_path=package, inductor_configs=options)
    batches = {str(shape): batch(*shape) for shape in shapes}
    save_file({k: v for name, (x, mask) in batches.items() for k, v in ((name, x), (f"mask {name}", mask))}, inputs)
    done = forked(LOADING, inputs, package, outputs)
    assert done.returncode == 0, done.stderr
    loaded = load_file(outputs)
    assert len(loaded) == len(shapes)
    for name, given in batches.items():
        torch.testing.assert_close(loaded[name], model(*given).detach(), rtol=1e-5, atol=1e-5)
