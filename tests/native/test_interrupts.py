"""Signals in long calls of the kernels: handlers run within a moment, and an exception in a handler ends the call.

Every interrupted call would take hours. A test fails by its time limit only if the signal is not handled.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest

from separatrix.native import native

pytestmark = pytest.mark.skipif(native().library is None, reason="this installation has no kernels")

Forked = Callable[..., subprocess.CompletedProcess[str]]

START = """
import asyncio, os, signal, threading, warnings
import torch
import separatrix as sx
from separatrix.errors import LongCallWarning
from separatrix.native import native

warnings.simplefilter("ignore", LongCallWarning)
torch.set_num_threads(2)

def tensors(*shape, count=5, **options):
    return torch.randn(count, *shape, generator=torch.Generator().manual_seed(0), **options).unbind(0)

def attend(query, k1, k2, v1, v2, **options):
    return sx.tensor_attention(query, [k1, k2], [v1, v2], **options)

def send_later(number=signal.SIGINT, seconds=0.5):
    timer = threading.Timer(seconds, os.kill, (os.getpid(), number))
    timer.daemon = True
    timer.start()

def works():
    small = tensors(2, 8, 4, dtype=torch.float64)
    expected = torch.einsum("hid,hjd,hkd->hijk", *small[:3]).div(4).flatten(2).softmax(-1).unflatten(2, (8, 8))
    expected = torch.einsum("hijk,hjd,hkd->hid", expected, *small[3:])
    return torch.allclose(attend(*small), expected)

def interrupted(call):
    send_later()
    try:
        call()
    except KeyboardInterrupt:
        return works()
    return "not interrupted"

assert works()  # the first call imports modules
long = tensors(1, 100_000, 16)
"""

BACKWARD = """
query, k1, k2, v1, v2 = (x.requires_grad_() for x in tensors(1, 100_000, 16))
from separatrix.attention.exact.operators import attend_backward
with torch.no_grad():
    arguments = (query, [k1, k2], [v1, v2], [None, None], False, 0, [0, 0], 1 / 16)
    incoming = (torch.ones_like(query), torch.ones(1, 100_000), torch.ones_like(query), torch.zeros(1, 100_000))
    print(interrupted(lambda: attend_backward(*arguments, *incoming)))
"""

CALLS = {
    "forward": "print(interrupted(lambda: attend(*long)))",
    "forward with a gradient": "print(interrupted(lambda: attend(*(x.clone().requires_grad_() for x in long))))",
    "causal": "print(interrupted(lambda: attend(*long, is_causal=True)))",
    "order 4": """
q, k1, k2, k3, v1 = tensors(1, 3000, 8)
print(interrupted(lambda: sx.tensor_attention(q, [k1, k2, k3], [v1, k1, k2])))
""",
    "backward": BACKWARD,
    "order 2": """
q, k, v = tensors(1, 1_000_000, 64, count=3)
mask = torch.ones(1_000_000, dtype=torch.bool)
print(interrupted(lambda: sx.tensor_attention(q, k, v, key_masks=mask)))
""",
}


def output(done: subprocess.CompletedProcess[str]) -> list[str]:
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("call", CALLS)
def test_ctrl_c_ends_a_call(forked: Forked, call: str, threads: int) -> None:
    code = START.replace("set_num_threads(2)", f"set_num_threads({threads})") + CALLS[call]
    assert output(forked(code)) == ["True"]


@pytest.mark.parametrize("causal", [False, True])
def test_ctrl_c_ends_near_linear_attention_of_a_layer_of_many_tokens(forked: Forked, causal: bool) -> None:
    """Calls of near-linear attention are repeated until the signal arrives, in the kernels or between two calls."""
    code = (
        START
        + f"""
few = [0.1 * x for x in tensors(1, 200_000, 8)]
def repeat():
    while True:
        attend(*few, tolerance=1e-3, is_causal={causal})
print(interrupted(repeat))
"""
    )
    assert output(forked(code)) == ["True"]


def test_no_memory_is_kept(forked: Forked) -> None:
    code = (
        START
        + """
for _ in range(3):
    assert interrupted(lambda: attend(*long)) is True
library = native().library
library.separatrix_highest_bytes.restype = __import__("ctypes").c_int64
library.separatrix_highest_bytes()
print(library.separatrix_highest_bytes())
"""
    )
    assert output(forked(code)) == ["0"]


def test_a_handler_that_returns_lets_the_call_go_on(forked: Forked) -> None:
    """The second signal raises: both handlers ran during one call, and the user's handler is still installed."""
    code = (
        START
        + """
heard = []
def handler(number, frame):
    heard.append(number)
    send_later()
    if len(heard) == 3:
        raise RuntimeError("enough")
before = signal.signal(signal.SIGINT, handler)
send_later()
try:
    attend(*long)
except RuntimeError as error:
    print(error, len(heard), signal.getsignal(signal.SIGINT) is handler)
signal.signal(signal.SIGINT, signal.SIG_IGN)
print(works())
"""
    )
    assert output(forked(code)) == ["enough 3 True", "True"]


def test_a_handler_may_call_the_kernels(forked: Forked) -> None:
    code = (
        START
        + """
def handler(number, frame):
    raise RuntimeError(f"computed: {works()}")
signal.signal(signal.SIGALRM, handler)
send_later(signal.SIGALRM)
try:
    attend(*long)
except RuntimeError as error:
    print(error, works())
"""
    )
    assert output(forked(code)) == ["computed: True True"]


def test_a_call_on_another_thread_does_not_take_the_signal(forked: Forked) -> None:
    """The main thread gets the signal immediately, as during any other work of a thread, and the process can exit."""
    code = (
        START
        + """
thread = threading.Thread(target=lambda: attend(*long), daemon=True)
thread.start()
send_later()
try:
    threading.Event().wait()
except KeyboardInterrupt:
    print(thread.is_alive(), works(), flush=True)
os._exit(0)
"""
    )
    assert output(forked(code)) == ["True True"]


def test_a_child_that_another_thread_forks_can_be_interrupted(forked: Forked) -> None:
    code = (
        START.replace("set_num_threads(2)", "set_num_threads(1)")  # no OpenMP thread survives in a child process
        + """
def fork():
    if not (child := os.fork()):
        print(interrupted(lambda: attend(*long)), flush=True)
        os._exit(0)
    os.waitpid(child, 0)
thread = threading.Thread(target=fork)
thread.start()
thread.join()
"""
    )
    assert output(forked(code)) == ["True"]


def test_asyncio_ends_a_call_at_the_second_ctrl_c(forked: Forked) -> None:
    """The first signal cancels the task, which waits for the call, as for any other code that does not await."""
    code = (
        START
        + """
async def main():
    send_later(seconds=0.5)
    send_later(seconds=1.5)
    attend(*long)
try:
    asyncio.run(main())
except KeyboardInterrupt:
    print(works())
"""
    )
    assert output(forked(code)) == ["True"]


@pytest.mark.parametrize("few", [False, True])
def test_an_interrupted_append_leaves_a_state_that_keeps_its_bound(forked: Forked, few: bool) -> None:
    """Whenever the signal arrives, sums and token counts agree, and outputs are within the certificate."""
    code = (
        START
        + f"""
size, few = {4 if few else 200_000}, {few}
keys, values = (0.1 * torch.randn(size, 4, dtype=torch.float64) for _ in range(2))
state = sx.TensorAttentionState(3, 4, 4, bound=1.0, tolerance=1e-3, dtype=torch.float64)
for seconds in (0.05, 0.1, 0.2, 0.3):
    send_later(seconds=seconds)
    try:
        while True:
            state.append([keys, keys], [values, values])
    except KeyboardInterrupt:
        pass
    counts = [int(z[0, 0, -1]) for z in state.states]
    assert counts == list(state.tokens) and counts[0] == counts[1] and counts[0] % size == 0, counts
query = torch.zeros(1, 4, dtype=torch.float64)
if state.tokens[0]:
    error = (state.attend(query) - values.mean(0) ** 2).abs().max()
    assert error <= state.certificate.total, (error, state.certificate)
print("kept")
"""
    )
    assert output(forked(code)) == ["kept"]
