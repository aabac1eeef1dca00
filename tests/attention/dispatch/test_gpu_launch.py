"""Launches of the Triton kernels: on the device of their tensors, with explicit options, on known architectures."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import ModuleType

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from separatrix.attention.arithmetic import device_reads
from separatrix.attention.call import check_call
from separatrix.attention.dispatch import gpu
from separatrix.attention.exact import guarded
from separatrix.attention.exact import triton as exact_triton
from separatrix.attention.exact.backend import require_proved
from separatrix.attention.exact.triton import configurations, description, size
from separatrix.attention.exact.triton import launch as exact_launch
from separatrix.attention.near_linear.triton import launch as near_linear_launch
from separatrix.errors import SeparatrixError
from tests.contracts.devices import WithoutGuards

PACKAGES = {"exact": (*configurations.KERNELS, *configurations.AROUND), "near_linear": ("add_state", "carry")}


@pytest.fixture
def launches(monkeypatch):
    """Replace the kernels and the CUDA driver; record the kernels, the current devices at launch, and the options."""
    current, recorded = [0], []

    def exchange(device):
        previous, current[0] = current[0], device if device >= 0 else current[0]
        return previous

    class Program:
        def __init__(self, name):
            self.name = name

        def __getitem__(self, grid):
            return lambda *arguments, **options: recorded.append((self.name, current[0], options))

    for name in ("_exchange_device", "_maybe_exchange_device"):
        monkeypatch.setattr(torch.cuda, name, exchange)
    for package, kernels in PACKAGES.items():
        for kernel in kernels:
            name = f"separatrix.attention.{package}.triton.programs.{kernel}"
            module = ModuleType(name)
            setattr(module, kernel, Program(kernel))
            monkeypatch.setitem(sys.modules, name, module)
    return recorded


def made(dtype=torch.float32, order=3, length=5, transposed=False, **options):
    """A call on the second GPU with fake tensors; it has masks unless other options are given."""

    def empty(*sizes, dtype=dtype):
        if transposed:
            return torch.empty(sizes[1], sizes[0], *sizes[2:], dtype=dtype, device="cuda:1").transpose(0, 1)
        return torch.empty(sizes, dtype=dtype, device="cuda:1")

    query, *sets = empty(2, 5, 3), *(empty(2, length, 3) for _ in range(2 * order - 2))
    options = options or {"key_masks": [empty(2, length, dtype=torch.bool) for _ in range(order - 1)]}
    return check_call(query, sets[: order - 1], sets[order - 1 :], **options)


@pytest.fixture
def fake():
    """Use fake GPU tensors in the test, and remove them from the cache before and after it."""
    description._on_device.cache_clear()
    with FakeTensorMode(), WithoutGuards():
        yield
    description._on_device.cache_clear()


@pytest.fixture
def call(fake):
    return made()


class CountedLaunches(TorchDispatchMode):
    """Count the PyTorch operators that launch a kernel: all except views and operators that only allocate memory."""

    def __init__(self):
        super().__init__()
        self.operators = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        allocates = function.overloadpacket in (
            torch.ops.aten.empty, torch.ops.aten.empty_like, torch.ops.aten.new_empty, torch.ops.aten.empty_strided
        )  # fmt: skip
        if function.namespace == "aten" and not function.is_view and not allocates:
            self.operators.append(function)
        return function(*args, **(kwargs or {}))


def test_operators_that_launch_nothing_are_not_counted(fake):
    x = torch.empty(2, 3, device="cuda:1")
    with CountedLaunches() as counted:
        torch.empty_like(x.view(6)[1:])
        y = x.transpose(0, 1) * 2
        y.add_(1).to(torch.float64)
    assert len(counted.operators) == 3


@pytest.mark.parametrize(
    ("dtype", "order", "options", "forward", "backward", "looks"),
    [
        (torch.bfloat16, 3, {"is_causal": True}, 4, 6, 0),
        (torch.bfloat16, 3, {"windows": [3, 2]}, 4, 7, 0),
        (torch.bfloat16, 3, {"windows": [3, 2], "transposed": True}, 5, 9, 0),
        (torch.bfloat16, 3, {}, 5, 7, 0),
        (torch.bfloat16, 3, {"transposed": True}, 5, 8, 0),
        (torch.float32, 3, {"is_causal": True}, 4, 6, 1),
        (torch.float16, 3, {"is_causal": True}, 4, 6, 1),
        (torch.float64, 3, {"windows": [3, 2]}, 4, 7, 1),
        (torch.float32, 3, {}, 5, 7, 1),
        (torch.float32, 3, {"transposed": True}, 5, 8, 1),
        (torch.float32, 4, {"is_causal": True}, 6, 8, 1),
    ],
    ids=str,
)
def test_few_launches_around_the_kernels(launches, fake, monkeypatch, dtype, order, options, forward, backward, looks):
    """At most 6 launches around a forward pass and 12 around a backward pass; in bfloat16 the host reads no number.

    One launch converts all masks and copies all transposed tensors; a transposed incoming gradient takes another. With
    windows the gradients of prefix keys are partial sums, which one launch adds up. In the second round the keys and
    values are longer by one, as in a growing cache: nothing is copied from the host.
    """
    seen = []
    monkeypatch.setattr(
        device_reads, "read", lambda x: (seen.append(x), [configurations.ORIGIN] * configurations.BOUNDS)[1]
    )
    monkeypatch.setattr(gpu, "blocks_of", lambda device: "sm_90")
    around = set(configurations.AROUND)

    def count(run):
        """The result of a run, the number of launches around the kernels, and the number of reads on the host."""
        launches.clear()
        seen.clear()
        with CountedLaunches() as counted:
            results = run()
        own = sum(kernel in around for kernel, _, _ in launches)
        assert {kernel for kernel, _, _ in launches} & set(configurations.KERNELS)
        return results, len(counted.operators) + own, len(seen)

    for length in (5, 6):  # factors derived from the scale are copied to the GPU in the first round
        given = {"length": length, **options}
        if "is_causal" in options or "windows" in options:
            given["query_offset"] = length - 5
        (out, lse), forward_launches, forward_looks = count(
            lambda given=given: guarded.forward(made(dtype, order, **given))
        )
        incoming = made(dtype, order, **given).query if "transposed" in given else out
        _, backward_launches, backward_looks = count(
            lambda given=given, out=out, lse=lse, incoming=incoming: guarded.backward(
                made(dtype, order, **given), out, lse, incoming, lse
            )
        )
    assert (forward_launches, backward_launches) == (forward, backward)
    assert forward <= 6
    assert backward <= 12
    assert (forward_looks, backward_looks) == (looks, looks)


def test_every_kernel_is_launched_on_the_device_of_its_tensors(launches, call, monkeypatch):
    """Device 0 is current, and the tensors are on device 1."""
    monkeypatch.setattr(gpu, "blocks_of", lambda device: "sm_90")
    size.left_of(made(torch.bfloat16), backward=False)
    out, lse = exact_launch.forward(call, "ieee", call.query)
    rows = exact_launch.incoming_rows(call, out, lse, out, lse, 0)
    for gradients_of in (call, made(windows=[3, 2])):
        exact_launch.gradients(gradients_of, "ieee", call.query, (*rows, description.scales_of(call)))
    x = call.query.double()
    near_linear_launch.launch("add_state", 3, x, warps=4)
    near_linear_launch.launch("carry", 1, x, warps=4)
    assert [(kernel, device) for kernel, device, _ in launches] == [
        *((kernel, 1) for kernel in ("copy_sets", "prepare", "largest", "check_range")),
        *((kernel, 1) for kernel in ("copy_sets", "prepare", "attend", "incoming_rows")),
        *((kernel, 1) for kernel in ("query_gradient", "prefix_gradient", "inner_gradient")),
        *((kernel, 1) for kernel in ("prepare", "query_prefix_gradient", "add_partials", "inner_gradient")),
        ("add_state", 1),
        ("carry", 1),
    ]
    assert torch.cuda._exchange_device(-1) == 0


def test_a_split_forward_pass_has_one_more_launch(launches, fake, monkeypatch):
    """Two query heads that share keys, one query and a long cache: packed, split, and merged on the device."""
    monkeypatch.setattr(gpu, "blocks_of", lambda device: "sm_90")
    query, *sets = (torch.empty(heads, n, 3, device="cuda:1") for heads, n in ((2, 1), *[(1, 300)] * 4))
    plain = check_call(query[:1], sets[:2], sets[2:], is_causal=True, query_offset=299)
    exact_launch.forward(replace(plain, query=query), "ieee", query)
    (_, device, options), (merged, other, _) = launches[-2:]
    assert (options["PACKED"], options["ALONE"], options["SPLIT"]) == (True, False, True)
    assert (merged, device, other) == ("merge_splits", 1, 1)


def test_fused_multiply_adds_are_requested(launches, call):
    """The default of `enable_fp_fusion` is not the same in all versions of Triton."""
    exact_launch.forward(call, "ieee", call.query)
    near_linear_launch.launch("carry", 1, call.query, warps=4)
    assert {kernel for kernel, _, _ in launches} == {"copy_sets", "prepare", "attend", "carry"}
    assert all(options["enable_fp_fusion"] for _, _, options in launches)


def test_zero_programs_do_not_launch(launches, call):
    near_linear_launch.launch("carry", 0, call.query, warps=4)
    assert launches == []


@pytest.mark.parametrize(
    ("vendor", "warps", "most"), [("cuda", 8, (1 << 31) - 1), ("hip", 8, (1 << 23) - 1), ("hip", 4, (1 << 24) - 1)]
)
def test_a_launch_with_too_many_programs_is_an_error(vendor, warps, most, launches, call, monkeypatch):
    """Triton launches nothing on NVIDIA's GPUs, and HIP has fewer than 2^32 threads, of which a warp has 64."""
    monkeypatch.setattr(gpu, "vendor", lambda: vendor)
    near_linear_launch.launch("carry", most, call.query, warps=warps)
    with pytest.raises(SeparatrixError, match=f"at most {most} programs, but this call needs {most + 1}"):
        near_linear_launch.launch("carry", most + 1, call.query, warps=warps)
    assert len(launches) == 1


@pytest.mark.parametrize(("vendor", "most"), [("cuda", (1 << 31) - 1), ("hip", (1 << 23) - 1)])
def test_plain_pytorch_computes_calls_with_too_many_programs(vendor, most, fake, monkeypatch):
    """One program of `prefix_gradient` has one key, and 16 columns have 8 warps on AMD's GPUs."""
    monkeypatch.setattr(gpu, "vendor", lambda: vendor)
    monkeypatch.setattr(configurations, "vendor", lambda: vendor)
    for tokens in (10, 11, 300):
        for heads, taken in ((most // tokens, True), (most // tokens + 1, False)):
            call = replace(made(is_causal=True), **of_heads(heads, tokens))
            assert exact_triton.takes(call) == taken


def of_heads(heads, tokens):
    """The tensors of a call without masks, which share their memory."""
    x = torch.empty(tokens, 3, device="cuda:1").expand(heads, -1, -1)
    return {"query": x, "keys": (x, x), "values": (x, x)}


def test_masks_are_not_loaded_as_8_bits(launches, call):
    """From 8-bit loads Triton 3.7 infers that operands of float32 were widened, and uses TF32 on Blackwell."""
    assert [x.dtype for x in description.described(call, "ieee").tensors[4:]] == [torch.int32, torch.int32]


@pytest.mark.parametrize("name", [*gpu.ARCHITECTURES["cuda"], "sm_75", "sm_121"])
def test_bounds_and_certificates_are_refused_on_unknown_architectures(name, launches, call, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: divmod(int(name.removeprefix("sm_")), 10))
    gpu.unchecked.cache_clear()
    try:
        assert exact_triton.takes(call)
        if name in gpu.ARCHITECTURES["cuda"]:
            require_proved(call, torch.float32)
            near_linear_launch.launch("carry", 1, call.query, warps=4)
            return
        with pytest.raises(SeparatrixError, match=f"no bound on the error .* architecture of this GPU is {name}"):
            require_proved(call, torch.float32)
        with pytest.raises(SeparatrixError, match=f"no certificate .* cuda:1.* architecture of this GPU is {name}"):
            near_linear_launch.launch("carry", 1, call.query, warps=4)
    finally:
        gpu.unchecked.cache_clear()


def test_the_name_of_an_amd_architecture(monkeypatch):
    properties = type("Properties", (), {"gcnArchName": "gfx942:sramecc+:xnack-"})
    monkeypatch.setattr(torch.version, "hip", "6.4")
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: properties)
    assert gpu.architecture(torch.device("cuda", 0)) == "gfx942"
