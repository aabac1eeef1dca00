"""Modes of the processor and settings of PyTorch that change arithmetic: refused, or computed around."""

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

# Two scores, 1/8 and 1, of keys that are not normal numbers in float32; the values are 1 and -1.
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
    """Code that lets PyTorch compute with so many threads, which it has not started yet."""
    return f"import torch; torch.set_num_threads({count})\n"


def refusals(done):
    assert (done.returncode, done.stderr) == (0, "")
    return [line.split(" ", 2) for line in done.stdout.splitlines()]


def test_flushing_to_zero_is_refused(forked):
    done = forked(threads(2) + SUBNORMAL + "assert torch.set_flush_denormal(True)\n" + CALLS + SHARDED)
    assert refusals(done) == [[name, "here", "torch.set_flush_denormal"] for name in EVERY_CALL]


def test_threads_that_still_flush_are_found(forked):
    """They inherit the mode when they are started, and keep it when the thread that started them changes its own."""
    start = "torch.set_flush_denormal(True); torch.ones(10**6).mul(2.0); torch.set_flush_denormal(False)\n"
    done = forked(threads(4) + SUBNORMAL + start + CALLS)
    assert refusals(done) == [[name, "elsewhere", "torch.set_flush_denormal"] for name in EVERY_CALL[:6]]


def test_subnormal_keys_count_where_nothing_is_flushed():
    """The same call within its certificate of mpmath's answer, -0.41."""
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
    """Down, up and towards zero."""
    code = """
import ctypes
for mode in (0x400, 0x800, 0xC00):
    assert ctypes.CDLL("libm.so.6").fesetround(mode) == 0
    refused("exact", lambda: sx.certified_attention(query, key, value, scale=scale, tolerance=1e-3))
    refused("append", lambda: state.append(x, x))
"""
    done = forked(threads(2) + SUBNORMAL + code)
    assert refusals(done) == [["exact", "here", "rounding mode"], ["append", "here", "rounding mode"]] * 3


def test_sound_arithmetic_is_not_refused(forked):
    """Whatever the context: inference mode, autocast, another default type, transforms; and with more threads later."""
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


# Settings of single kinds of products, and whether float32 products of the CPU keep their digits under them.
SETTINGS = [
    ("backends", "bf16", False),
    ("backends", "tf32", False),
    ("backends.mkldnn", "bf16", False),
    ("backends.mkldnn.matmul", "bf16", False),
    ("backends.mkldnn.matmul", "tf32", False),
    ("backends.mkldnn.matmul", "ieee", True),
    ("backends.mkldnn.conv", "bf16", True),  # there are no convolutions here
    ("backends.mkldnn.rnn", "bf16", True),
    ("backends.cuda.matmul", "tf32", True),  # of another device
]


def digits():
    """Whether float32 products are relied on, by the planner too, and a certified call keeps its promise."""
    x = torch.rand(3, 500, 4, generator=torch.Generator().manual_seed(0))
    plan = sx.plan_attention(x[0], x[1], x[2], tolerance=0.1, method="polynomial")
    assert sx.certified_attention(x[0], x[1], x[2], tolerance=1e-4).certificate.total <= 1e-4
    assert plan.recipe.dtype == (torch.float32 if float32_products_are_float32() else torch.float64)
    return float32_products_are_float32()


@contextmanager
def precision_of(place, value):
    """A setting of PyTorch, set for a while; `monkeypatch` cannot put such attributes back.

    What was once set for one kind of product no longer follows the setting above it, so that all are left to it first.
    """
    for one in (torch.backends.mkldnn.matmul, torch.backends.mkldnn, torch.backends.cuda.matmul):
        one.fp32_precision = "none"
    before, place.fp32_precision = place.fp32_precision, value
    try:
        yield
    finally:
        place.fp32_precision = before


@pytest.mark.parametrize(("place", "value", "keeps"), SETTINGS)
def test_settings_that_allow_fewer_digits(place, value, keeps):
    """float32 is used where its products keep their digits, and float64 where they may not."""
    assert digits()
    with precision_of(attrgetter(place)(torch), value):
        assert digits() == keeps


@pytest.mark.parametrize("value", ["high", "medium"])
def test_the_one_setting_for_all_devices(value):
    torch.set_float32_matmul_precision(value)
    try:
        assert not digits()
    finally:
        torch.set_float32_matmul_precision("highest")
    assert digits()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_products_of_fewer_digits_are_noticed_by_what_they_do(monkeypatch, dtype):
    """A machine that rounds one of the factors, and says nothing of it in any setting."""

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


def test_a_device_of_no_known_setting_obeys_them_all(monkeypatch):
    monkeypatch.setattr(precision, "_keeps_digits", lambda device_type: True)
    assert float32_products_are_float32("xpu")
    with precision_of(torch.backends.cuda.matmul, "tf32"):
        assert not float32_products_are_float32("xpu")
        assert not float32_products_are_float32("cuda")
        assert float32_products_are_float32("cpu")


def test_the_thread_of_the_tests_is_sound():
    require_ieee_arithmetic()
    assert sx.tensor_attention(*(torch.ones(2, 1) for _ in range(3)), tolerance=0.1).shape == (2, 1)


def test_autocast_does_not_decide_what_products_keep():
    """What is found out is kept for the process: a first call under autocast must not find products in bfloat16."""
    precision._keeps_digits.cache_clear()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert float32_products_are_float32()
