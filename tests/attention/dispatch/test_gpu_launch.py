"""Launches of the kernels in Triton: on the device of their tensors, with explicit options, on known architectures."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from separatrix.attention.call import check_call
from separatrix.attention.dispatch import gpu
from separatrix.attention.exact import gpu as exact_gpu
from separatrix.attention.exact.backend import require_proved
from separatrix.attention.exact.gpu import configurations
from separatrix.attention.exact.gpu import launch as exact_launch
from separatrix.attention.near_linear.triton import launch as near_linear_launch
from separatrix.errors import SeparatrixError
from tests.contracts.devices import WithoutGuards

PACKAGES = {"exact": configurations.KERNELS, "polynomial": ("add_state", "carry")}


@pytest.fixture
def launches(monkeypatch):
    """Replace the kernels and CUDA's driver: a list of kernels, current devices at their launch, and options."""
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
            name = f"separatrix.attention.{package}.gpu.programs.{kernel}"
            module = ModuleType(name)
            setattr(module, kernel, Program(kernel))
            monkeypatch.setitem(sys.modules, name, module)
    return recorded


@pytest.fixture
def call():
    """A call with masks on the second GPU, of fake tensors."""
    with FakeTensorMode(), WithoutGuards():
        query, *sets = (torch.empty(2, 5, 3, device="cuda:1") for _ in range(5))
        mask = torch.empty(2, 5, dtype=torch.bool, device="cuda:1")
        yield check_call(query, sets[:2], sets[2:], key_masks=[mask, mask])


def test_every_kernel_is_launched_on_the_device_of_its_tensors(launches, call):
    """Device 0 is current, and the tensors are on device 1."""
    out, lse = exact_launch.forward(call, "ieee")
    exact_launch.gradients(call, "ieee", (out, lse, lse, lse))
    x = call.query.double()
    near_linear_launch.launch("add_state", 3, x, warps=4)
    near_linear_launch.launch("carry", 1, x, warps=4)
    assert [(kernel, device) for kernel, device, _ in launches] == [
        *((kernel, 1) for kernel in ("attend", "query_gradient", "prefix_gradient", "inner_gradient")),
        ("add_state", 1),
        ("carry", 1),
    ]
    assert torch.cuda._exchange_device(-1) == 0


def test_fused_multiply_adds_are_asked_for(launches, call):
    """The default of `enable_fp_fusion` is not the same in all versions of Triton."""
    exact_launch.forward(call, "ieee")
    near_linear_launch.launch("carry", 1, call.query, warps=4)
    assert [options["enable_fp_fusion"] for _, _, options in launches] == [True, True]


def test_no_programs_are_no_launch(launches, call):
    near_linear_launch.launch("carry", 0, call.query, warps=4)
    assert launches == []


def test_masks_are_no_loads_of_8_bits(launches, call):
    """From these, Triton 3.7 infers that operands of float32 were widened, and uses TF32 on Blackwell."""
    assert [x.dtype for x in exact_launch.described(call, "ieee").tensors[5:]] == [torch.int32, torch.int32]


@pytest.mark.parametrize("name", [*gpu.ARCHITECTURES["cuda"], "sm_75", "sm_121"])
def test_bounds_and_certificates_are_refused_on_unknown_architectures(name, launches, call, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: divmod(int(name.removeprefix("sm_")), 10))
    gpu.architecture.cache_clear()
    try:
        assert exact_gpu.takes(call)
        if name in gpu.ARCHITECTURES["cuda"]:
            require_proved(call, torch.float32)
            near_linear_launch.launch("carry", 1, call.query, warps=4)
            return
        with pytest.raises(SeparatrixError, match=f"no bound on the error .* this GPU is of {name}"):
            require_proved(call, torch.float32)
        with pytest.raises(SeparatrixError, match=f"no certificate .* cuda:1.* this GPU is of {name}"):
            near_linear_launch.launch("carry", 1, call.query, warps=4)
    finally:
        gpu.architecture.cache_clear()


def test_the_name_of_an_amd_architecture(monkeypatch):
    properties = type("Properties", (), {"gcnArchName": "gfx942:sramecc+:xnack-"})
    monkeypatch.setattr(torch.version, "hip", "6.4")
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: properties)
    gpu.architecture.cache_clear()
    try:
        assert gpu.architecture(torch.device("cuda", 0)) == "gfx942"
    finally:
        gpu.architecture.cache_clear()
