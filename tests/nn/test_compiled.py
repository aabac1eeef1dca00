"""A compiled transformer of two of our layers: one forward and one backward graph, and the same training."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch
from functorch.compile import make_boxed_func
from torch import fx
from torch._dynamo.backends.common import aot_autograd

from benchmarks.compiled import CASES, CLASSES, Case, Transformer

SMALL = {case.name: replace(case, batch=2, n=12, heads=2) for case in CASES}
SMALL |= {
    "bounded, exact": Case("bounded, exact", 2, 12, 2, {"bound": 1.0}),
    "bounded, always near-linear": Case(
        "bounded, always near-linear", 2, 12, 2, {"bound": 0.5, "tolerance": 1e-3, "method": "polynomial"}
    ),
    "rotary, in windows, grouped": Case(
        "rotary, in windows, grouped", 2, 12, 4, {"windows": (7, 3), "rotary": 100.0, "num_kv_heads": 2}
    ),
}


def ours(graph: fx.GraphModule) -> int:
    """The number of nodes of a graph that are operators of this library."""
    return sum("separatrix" in str(node.target) for node in graph.graph.nodes)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # dynamo's own
@pytest.mark.parametrize("name", SMALL)
def test_a_transformer_is_one_graph_and_learns_the_same(name: str) -> None:
    """Three steps of Adam compile once, with both layers' attention in the graphs, and give equal weights."""
    torch.manual_seed(0)
    eager = Transformer(SMALL[name], width=8).double()
    trained = copy.deepcopy(eager)
    graphs: dict[str, list[fx.GraphModule]] = {"forward": [], "backward": []}

    def counting(kind: str):
        def compiler(graph: fx.GraphModule, _: object):
            graphs[kind].append(graph)
            return make_boxed_func(graph.forward)

        return compiler

    torch._dynamo.reset()
    backend = aot_autograd(fw_compiler=counting("forward"), bw_compiler=counting("backward"))
    runs = {"eager": (eager, eager), "compiled": (trained, torch.compile(trained, backend=backend, fullgraph=True))}
    tokens = torch.randint(CLASSES, (3, 2, 13), generator=torch.Generator().manual_seed(1))
    losses: dict[str, list[float]] = {}
    for kind, (model, run) in runs.items():
        optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
        for batch in tokens:
            loss = run(batch[:, :-1], batch[:, 1:])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            losses.setdefault(kind, []).append(loss.item())
    assert [len(made) for made in graphs.values()] == [1, 1]
    if name != "order 2":  # order 2 is PyTorch's own operator
        assert [ours(made[0]) >= 2 for made in graphs.values()] == [True, True]
    assert losses["compiled"] == pytest.approx(losses["eager"], rel=1e-9)
    assert losses["eager"][0] != losses["eager"][-1]
    for a, b in zip(eager.parameters(), trained.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-7)
