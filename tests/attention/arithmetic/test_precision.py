"""Processor modes and PyTorch settings that change arithmetic: calls raise an error, or compute without them."""

from __future__ import annotations

import platform
import sys
from contextlib import contextmanager
from operator import attrgetter

import mpmath
import pytest
import torch

import separatrix as sx
from separatrix.attention.arithmetic import precision
from separatrix.attention.arithmetic.precision import float32_products_are_float32, require_ieee_arithmetic

# The keys are subnormal in float32; the two scores are 1/8 and 1, and the values are 1 and -1.
SUBNORMAL = """
import torch, separatrix as sx
query, scale = torch.tensor([[2.0**100]]), 2.0**27
key, value = torch.tensor([[2.0**-130], [2.0**-127]]), torch.tensor([[1.0], [-1.0]])

def refused(name, call):
    try:
        found = call()
    except sx.SeparatrixError as error:
        where = "elsewhere" if "though not in this one" in str(error) else "here"
        print(name, where, str(error).removeprefix("On rank 0: ").partition(":")[0])
    else:
        print(name, "gave", found)

x = torch.ones(3, 1)
state = sx.TensorAttentionState(2, 1, 1, bound=1.0, tolerance=1e-3)
layer = sx.nn.TensorAttention(2, 1, bound=1.0, tolerance=1e-3)
tokens = torch.ones(1, 3, 2)
"""

CALLS = """
refused("exact", lambda: sx.certified_attention(query, key, value, scale=scale, tolerance=1e-3, method="exact").output)
refused("near-linear", lambda: sx.certified_attention(query, key, value, scale=scale, tolerance=1e-3).output)
refused("tolerance", lambda: sx.tensor_attention(query, key, value, scale=scale, tolerance=1e-3))
refused("append", lambda: state.append(x, x))
refused("attend", lambda: state.attend(x))
refused("layer", lambda: layer(tokens))
"""

SHARDED = """
import torch.distributed as dist
from separatrix.attention.sharded import sharded_attention
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
refused("sharded", lambda: sharded_attention(x, x, x, bound=1.0, tolerance=1e-3))
refused("causal", lambda: sharded_attention(x, x, x, bound=1.0, tolerance=1e-3, is_causal=True))
dist.destroy_process_group()
"""

EVERY_CALL = ["exact", "near-linear", "tolerance", "append", "attend", "layer", "sharded", "causal"]


def threads(count):
    """Code that sets PyTorch's number of threads; the threads are not started yet."""
    return f"import torch; torch.set_num_threads({count})\n"


def refusals(done):
    assert (done.returncode, done.stderr) == (0, "")
    return [line.split(" ", 2) for line in done.stdout.splitlines()]


def test_flushing_to_zero_is_refused(forked):
    done = forked(threads(2) + SUBNORMAL + "assert torch.set_flush_denormal(True)\n" + CALLS + SHARDED)
    assert refusals(done) == [[name, "here", "torch.set_flush_denormal"] for name in EVERY_CALL]


def test_threads_that_still_flush_are_found(forked):
    """Threads inherit the mode when they start, and keep it when the parent thread changes its own."""
    start = "torch.set_flush_denormal(True); torch.ones(10**6).mul(2.0); torch.set_flush_denormal(False)\n"
    done = forked(threads(4) + SUBNORMAL + start + CALLS)
    assert refusals(done) == [[name, "elsewhere", "torch.set_flush_denormal"] for name in EVERY_CALL[:6]]


def test_subnormal_keys_count_where_nothing_is_flushed():
    """The same call is within its certificate of mpmath's result, -0.41."""
    query, scale = torch.tensor([[2.0**100]]), 2.0**27
    key, value = torch.tensor([[2.0**-130], [2.0**-127]]), torch.tensor([[1.0], [-1.0]])
    result = sx.certified_attention(query, key, value, scale=scale, tolerance=1e-6)
    with mpmath.workdps(40):
        low, high = mpmath.exp(mpmath.mpf(1) / 8), mpmath.exp(1)
        error = abs(mpmath.mpf(result.output.item()) - (low - high) / (low + high))
    assert error <= result.certificate.total <= 1e-6


@pytest.mark.skipif(
    (sys.platform, platform.machine()) != ("linux", "x86_64"),
    reason="the numbers of the modes are those of this platform",
)
def test_other_rounding_modes_are_refused(forked):
    """Calls in the rounding modes down, up and towards zero raise an error."""
    code = """
import ctypes
for mode in (0x400, 0x800, 0xC00):
    assert ctypes.CDLL("libm.so.6").fesetround(mode) == 0
    refused("exact", lambda: sx.certified_attention(query, key, value, scale=scale, tolerance=1e-3))
    refused("append", lambda: state.append(x, x))
"""
    done = forked(threads(2) + SUBNORMAL + code)
    assert refusals(done) == [["exact", "here", "rounding mode"], ["append", "here", "rounding mode"]] * 3


def test_default_arithmetic_is_accepted(forked):
    """No error is raised in any context: inference mode, autocast, another default dtype, transforms, and threads that
    are added later.
    """
    code = """
import torch
from separatrix.attention.arithmetic.precision import _rows, require_ieee_arithmetic as check
def checked(x):
    _rows.cache_clear()
    check()
    return (x * x).sum()
x = torch.ones(3, 2)
with torch.inference_mode():
    checked(x)
check()
with torch.autocast("cpu", dtype=torch.bfloat16):
    checked(x)
torch.func.grad(checked)(x), torch.vmap(checked)(x)
check()
torch.set_default_dtype(torch.float64)
checked(x)
torch.set_default_device("meta")
checked(x)
torch.set_default_device("cpu")
for threads in (1, 3, 2, 5):
    torch.set_num_threads(threads)
    check()
"""
    done = forked(code)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


# Settings of one kind of product each, and whether float32 products on the CPU keep full precision under them.
SETTINGS = [
    ("backends", "bf16", False),
    ("backends", "tf32", False),
    ("backends.mkldnn", "bf16", False),
    ("backends.mkldnn.matmul", "bf16", False),
    ("backends.mkldnn.matmul", "tf32", False),
    ("backends.mkldnn.matmul", "ieee", True),
    ("backends.mkldnn.conv", "bf16", True),  # the library computes no convolutions
    ("backends.mkldnn.rnn", "bf16", True),
    ("backends.cuda.matmul", "tf32", True),  # a setting of another device
]


def digits():
    """Whether the planner relies on float32 products, and whether a certified call keeps its tolerance."""
    x = torch.rand(3, 500, 4, generator=torch.Generator().manual_seed(0))
    plan = sx.plan_attention(x[0], x[1], x[2], tolerance=0.1, method="polynomial")
    assert sx.certified_attention(x[0], x[1], x[2], tolerance=1e-4).certificate.total <= 1e-4
    assert plan.recipe.dtype == (torch.float32 if float32_products_are_float32() else torch.float64)
    return float32_products_are_float32()


@contextmanager
def precision_of(place, value):
    """Change a setting of PyTorch temporarily; `monkeypatch` cannot restore such attributes.

    A setting of one kind of product overrides the general setting once it is set, so all are reset first.
    """
    for one in (torch.backends.mkldnn.matmul, torch.backends.mkldnn, torch.backends.cuda.matmul):
        one.fp32_precision = "none"
    before, place.fp32_precision = place.fp32_precision, value
    try:
        yield
    finally:
        place.fp32_precision = before


@pytest.mark.parametrize(("place", "value", "keeps"), SETTINGS)
def test_settings_that_allow_lower_precision(place, value, keeps):
    """float32 is used where its products keep full precision, and float64 where they may not."""
    assert digits()
    with precision_of(attrgetter(place)(torch), value):
        assert digits() == keeps


@pytest.mark.parametrize("value", ["high", "medium"])
def test_the_setting_for_all_devices(value):
    torch.set_float32_matmul_precision(value)
    try:
        assert not digits()
    finally:
        torch.set_float32_matmul_precision("highest")
    assert digits()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_products_of_lower_precision_are_detected_by_their_results(monkeypatch, dtype):
    """A machine that rounds one of the factors although every setting says that it does not."""

    def rounded(a, b):
        return torch.matmul(a.to(dtype).float(), b)

    monkeypatch.setattr(torch.Tensor, "__matmul__", rounded)
    precision._keeps_digits.cache_clear()
    try:
        assert not float32_products_are_float32()
    finally:
        precision._keeps_digits.cache_clear()
        monkeypatch.undo()
    assert float32_products_are_float32()


def test_an_unknown_device_follows_all_settings(monkeypatch):
    monkeypatch.setattr(precision, "_keeps_digits", lambda device_type: True)
    assert float32_products_are_float32("xpu")
    with precision_of(torch.backends.cuda.matmul, "tf32"):
        assert not float32_products_are_float32("xpu")
        assert not float32_products_are_float32("cuda")
        assert float32_products_are_float32("cpu")


def test_the_test_thread_has_default_arithmetic():
    require_ieee_arithmetic()
    assert sx.tensor_attention(*(torch.ones(2, 1) for _ in range(3)), tolerance=0.1).shape == (2, 1)


def test_autocast_does_not_change_the_measured_precision():
    """The result is cached for the process: a first call under autocast must not measure products in bfloat16."""
    precision._keeps_digits.cache_clear()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert float32_products_are_float32()
