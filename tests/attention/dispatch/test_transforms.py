"""The results of PyTorch's transforms for each kind of call: a table, of which every cell is a test.

A cell of the table is `works`, or names the error. Results that work are compared with the definition, in float64. The
guide prints the same table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad

from separatrix.native import native
from tests.contracts.call_kinds import KINDS, Subject, draw
from tests.contracts.engines import ENGINES, engine  # noqa: F401
from tests.docs.pages import DOCS

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # the compiler's own
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning"),  # where a graph break occurs
]


@dataclass(frozen=True)
class Refusal:
    """An error: the name of its class, and a pattern of its message."""

    error: str
    message: str


WORKS = "works"
REFUSALS = {
    "no graph": Refusal("Unsupported", "entries to choose an algorithm"),
    "no numbers": Refusal("SeparatrixError", "entries to choose an algorithm"),
    "no forward mode": Refusal("SeparatrixError", "near-linear attention has gradients in reverse mode only"),
    "no second derivatives": Refusal("SeparatrixError", "near-linear attention has no second derivatives"),
    "dense only": Refusal("ArgumentError", "expected a dense tensor"),
    "PyTorch's error": Refusal("RuntimeError", "_scaled_dot_product_.*backward is not implemented"),
}
NEAR_LINEAR = ("certified", "bounded layer", "bounded, causal")

ALL = dict.fromkeys(KINDS, WORKS)
IN_ONE_GRAPH = {**ALL, "certified": "no graph"}
NOT_CERTIFIED = {**ALL, "certified": "no numbers"}
EXACT = {**ALL, **dict.fromkeys(NEAR_LINEAR, "no forward mode"), "certified": "no numbers"}

TABLE: dict[str, dict[str, str]] = {
    "`torch.autograd.grad`": ALL,
    "`torch.compile`": ALL,
    "`torch.compile(fullgraph=True)`": IN_ONE_GRAPH,
    "... in `torch.no_grad`": IN_ONE_GRAPH,
    "... in `torch.inference_mode`": IN_ONE_GRAPH,
    "... of frozen parameters, `eval()`": IN_ONE_GRAPH,
    "... with `dynamic=True`": IN_ONE_GRAPH,
    "`torch.export.export`, for all lengths": NOT_CERTIFIED,
    "... and trained": NOT_CERTIFIED,
    "`torch.func.grad`": NOT_CERTIFIED,
    "`torch.vmap`": NOT_CERTIFIED,
    "`torch.vmap` of `torch.func.grad`": NOT_CERTIFIED,
    "`torch.func.jvp`": EXACT,
    "`torch.func.jacfwd`": EXACT,
    "`torch.func.hessian`": EXACT,
    "`torch.autograd.forward_ad`": {**ALL, **dict.fromkeys(NEAR_LINEAR, "no forward mode")},
    "`create_graph=True`, and another gradient": {
        **ALL,
        "order 2": "PyTorch's error",
        **dict.fromkeys(NEAR_LINEAR, "no second derivatives"),
    },
    "`torch.autocast`": ALL,
    "tensors on the device `meta`": NOT_CERTIFIED,
    "sparse tensors": dict.fromkeys(KINDS, "dense only"),
}

Pair = tuple[Sequence[Tensor], Sequence[Tensor]]
"""The measured and the expected entry."""
LENGTH, OTHER_LENGTH = 3, 5


def subject(kind: str, length: int = LENGTH, requires_grad: bool = True) -> Subject:
    made = KINDS[kind](length, torch.float64)
    for leaf in made.leaves:
        leaf.requires_grad_(requires_grad)
    return made


def loss(out: Tensor) -> Tensor:
    return out.sin().sum()


def trained(out: Tensor, leaves: Sequence[Tensor]) -> list[Tensor]:
    """The output and the gradients of its loss."""
    return [out, *torch.autograd.grad(loss(out), leaves)]


def autograd(kind: str) -> Pair:
    it = subject(kind)
    return trained(it.module(*it.inputs), it.leaves), trained(it.definition(*it.leaves), it.leaves)


def compiled(kind: str, backend: str = "aot_eager", **options: object) -> Pair:
    torch._dynamo.reset()
    it = subject(kind)
    module = torch.compile(it.module, backend=backend, **options)
    return trained(module(*it.inputs), it.leaves), trained(it.definition(*it.leaves), it.leaves)


def in_one_graph(kind: str) -> Pair:
    return compiled(kind, fullgraph=True)


def without_gradients(kind: str, mode: Callable[[], object] | None) -> Pair:
    torch._dynamo.reset()
    it = subject(kind, requires_grad=mode is not None)
    module = torch.compile(it.module.eval(), backend="aot_eager", fullgraph=True)
    with mode() if mode else torch.enable_grad():
        found = module(*it.inputs)
        assert not found.requires_grad
    return [found], [it.definition(*it.leaves).detach()]


def dynamic(kind: str, backend: str = "aot_eager") -> Pair:
    """Compile at one length, and call at another without recompiling."""
    torch._dynamo.reset()
    it, longer = subject(kind), subject(kind, OTHER_LENGTH)
    module = torch.compile(it.module, backend=backend, fullgraph=True, dynamic=True)
    trained(module(*it.inputs), it.leaves)
    leaves = (*longer.inputs, *it.module.parameters())
    with torch.compiler.set_stance("fail_on_recompile"):
        found = trained(module(*longer.inputs), leaves)
    return found, trained(it.definition(*leaves), leaves)


@cache
def exported_program(kind: str) -> tuple[Subject, torch.export.ExportedProgram]:
    """A subject, and its program, exported with one length and valid for all lengths."""
    it = subject(kind)
    length = {it.inputs[0].dim() - 2: torch.export.Dim("length", min=2)}
    shapes = (length, (length,) * (len(it.inputs) - 1)) if len(it.inputs) > 1 else (length,)
    return it, torch.export.export(it.module, it.inputs, dynamic_shapes=shapes)


def exported(kind: str, train: bool = False) -> Pair:
    """Export at one length, and call at another."""
    (it, program), longer = exported_program(kind), subject(kind, OTHER_LENGTH)
    module = program.module()
    actual, leaves = module(*longer.inputs), (*longer.inputs, *it.module.parameters())
    expected = it.definition(*leaves)
    if not train:
        return [actual], [expected]
    parameters = dict(module.named_parameters())
    theirs = (*longer.inputs, *(parameters[name] for name in it.names))
    return trained(actual, theirs), trained(expected, leaves)


def func_grad(kind: str) -> Pair:
    it = subject(kind, requires_grad=False)
    every = tuple(range(len(it.leaves)))
    found = torch.func.grad(lambda *leaves: loss(it.function(*leaves)), every)(*it.leaves)
    it = subject(kind)
    return found, trained(it.definition(*it.leaves), it.leaves)[1:]


def vmap(kind: str) -> Pair:
    """Apply `vmap` over the batch of the inputs."""
    it = subject(kind, requires_grad=False)
    return [torch.vmap(lambda *inputs: it.module(*inputs))(*it.inputs)], [it.definition(*it.leaves)]


def vmap_of_grad(kind: str) -> Pair:
    """The gradient of each example of the batch."""
    it = subject(kind, requires_grad=False)
    every, count = tuple(range(len(it.leaves))), len(it.inputs)
    gradient = torch.func.grad(lambda *leaves: loss(it.function(*leaves)), every)
    found = torch.vmap(gradient, in_dims=(*[0] * count, *[None] * (len(every) - count)))(*it.leaves)
    it = subject(kind)
    one_by_one = []
    for index in range(len(it.inputs[0])):
        leaves = [*(x[index] for x in it.inputs), *it.module.parameters()]
        one_by_one.append(torch.autograd.grad(loss(it.definition(*leaves)), leaves))
    return found, [torch.stack(grads) for grads in zip(*one_by_one, strict=True)]


def tangents(leaves: Sequence[Tensor]) -> tuple[Tensor, ...]:
    return tuple(draw(50 + seed, *leaf.shape) for seed, leaf in enumerate(leaves))


def jvp(kind: str) -> Pair:
    it = subject(kind, requires_grad=False)
    given = tangents(it.leaves)
    return torch.func.jvp(it.function, it.leaves, given), torch.func.jvp(it.definition, it.leaves, given)


def jacfwd(kind: str) -> Pair:
    it = subject(kind, requires_grad=False)
    every = tuple(range(len(it.leaves)))
    return torch.func.jacfwd(it.function, every)(*it.leaves), torch.func.jacrev(it.definition, every)(*it.leaves)


def hessian(kind: str) -> Pair:
    """The gradients of the first two leaves: query and keys, or the input and the query's projection."""
    it = subject(kind, requires_grad=False)
    found = torch.func.hessian(lambda *leaves: loss(it.function(*leaves)), (0, 1))(*it.leaves)
    twice = torch.func.jacrev(torch.func.jacrev(lambda *leaves: loss(it.definition(*leaves)), (0, 1)), (0, 1))
    return [x for row in found for x in row], [x for row in twice(*it.leaves) for x in row]


def dual_numbers(kind: str) -> Pair:
    it = subject(kind, requires_grad=False)
    given = tangents(it.leaves)

    def derivative(function: Callable[..., Tensor]) -> Tensor:
        with forward_ad.dual_level():
            duals = [forward_ad.make_dual(x, dx) for x, dx in zip(it.leaves, given, strict=True)]
            return forward_ad.unpack_dual(function(*duals)).tangent

    return [derivative(it.function)], [derivative(it.definition)]


def twice(kind: str) -> Pair:
    it = subject(kind)

    def second(out: Tensor) -> list[Tensor]:
        first = torch.autograd.grad(loss(out), it.leaves, create_graph=True)
        return list(torch.autograd.grad(sum(grad.sin().sum() for grad in first), it.leaves))

    return second(it.module(*it.inputs)), second(it.definition(*it.leaves))


def autocast(kind: str) -> Pair:
    """Calls keep the dtypes of their inputs; in a layer only the projections are in bfloat16."""
    it = KINDS[kind](LENGTH, torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        actual = it.module(*it.inputs)
    expected = it.definition(*(leaf.detach().double() for leaf in it.leaves))
    is_layer = len(it.inputs) == 1
    assert actual.dtype == (torch.bfloat16 if is_layer else torch.float32)
    difference = (actual.double() - expected).abs().max().item()
    assert difference <= (0.05 if is_layer else it.error)
    return [], []


def on_meta(kind: str) -> Pair:
    it = subject(kind)
    actual = it.module.to("meta")(*(x.to("meta") for x in it.inputs))
    expected = subject(kind).definition(*subject(kind).leaves)
    assert (actual.device.type, actual.dtype) == ("meta", expected.dtype)
    return [torch.tensor(actual.shape)], [torch.tensor(expected.shape)]


def sparse(kind: str) -> Pair:
    it = subject(kind, requires_grad=False)
    return [it.module(*(x.to_sparse() for x in it.inputs))], [it.definition(*it.leaves)]


TRANSFORMS: dict[str, Callable[[str], Pair]] = dict(
    zip(
        TABLE,
        (
            autograd,
            compiled,
            in_one_graph,
            lambda kind: without_gradients(kind, torch.no_grad),
            lambda kind: without_gradients(kind, torch.inference_mode),
            lambda kind: without_gradients(kind, None),
            dynamic,
            exported,
            lambda kind: exported(kind, train=True),
            func_grad,
            vmap,
            vmap_of_grad,
            jvp,
            jacfwd,
            hessian,
            dual_numbers,
            twice,
            autocast,
            on_meta,
            sparse,
        ),
        strict=True,
    )
)


def agree(found: Sequence[Tensor], expected: Sequence[Tensor], error: float) -> None:
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=error)


GRAPHS = [transform for transform in TABLE if transform.startswith(("...", "`torch.export"))]
"""Graphs of operators, made in a different way than in the row `torch.compile(fullgraph=True)`."""
WITHOUT_NUMBERS = ("tensors on the device `meta`", "sparse tensors")
"""Calls that are computed by no engine."""
OTHER_ENGINE = "torch" if native().library is not None else "native"
"""The engine that is skipped here unless one is requested."""


def slow(computing: str, transform: str, kind: str) -> bool:
    """Whether another row, another column or the default engine also tests a cell, except for a few lines.

    An engine runs inside an operator, and a graph contains operators: the engine does not depend on how a
    graph is made. Near-linear calls and calls on fake tensors use no engine of exact attention.
    """
    return (
        (transform == "`torch.compile`" and kind != "certified")
        or (transform == "... with `dynamic=True`" and kind == "bounded, causal")
        or (computing == OTHER_ENGINE and (transform in (*GRAPHS, *WITHOUT_NUMBERS) or kind in NEAR_LINEAR))
    )


@pytest.mark.parametrize(
    ("engine", "transform", "kind"),
    [
        pytest.param(name, transform, kind, marks=pytest.mark.soak if slow(name, transform, kind) else ())
        for name in ENGINES
        for transform, row in TABLE.items()
        for kind in row
    ],
    indirect=["engine"],
)
@pytest.mark.usefixtures("engine")
def test_every_cell(transform: str, kind: str) -> None:
    cell = TABLE[transform][kind]
    if cell == WORKS:
        agree(*TRANSFORMS[transform](kind), subject(kind).error)
        return
    with pytest.raises(Exception, match=REFUSALS[cell].message) as caught:
        TRANSFORMS[transform](kind)
    assert type(caught.value).__name__ == REFUSALS[cell].error


def test_the_compiler_of_machine_code() -> None:
    """A graph compiled by PyTorch's default backend has the right results for one kind of call.

    This backend compiles slowly; `test_operators` tests another kind.
    """
    agree(*compiled("bounded layer", "inductor", fullgraph=True), subject("bounded layer").error)


@pytest.mark.soak
@pytest.mark.timeout(2400)
@pytest.mark.parametrize("kind", [kind for kind, cell in IN_ONE_GRAPH.items() if cell == WORKS])
def test_the_compiler_of_machine_code_on_every_kind(kind: str) -> None:
    agree(*compiled(kind, "inductor", fullgraph=True), subject(kind).error)
    agree(*dynamic(kind, "inductor"), subject(kind).error)


def markdown() -> str:
    """The table as the guide prints it."""
    rows = [["", *KINDS], ["---"] * (len(KINDS) + 1)]
    rows += [[transform, *row.values()] for transform, row in TABLE.items()]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def test_the_guide_prints_this_table() -> None:
    page = (DOCS / "guide" / "compile-and-transforms.md").read_text()
    assert markdown() in page
    for name in REFUSALS:
        assert f"**{name}**" in page, f"the page does not explain {name}"
