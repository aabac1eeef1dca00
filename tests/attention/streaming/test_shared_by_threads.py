"""States shared by threads: any number of threads may attend, and a concurrent change is refused."""

from __future__ import annotations

import copy
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

import separatrix as sx
from separatrix.attention.streaming import operations
from separatrix.native import native
from tests.attention.streaming.drawn_tokens import tokens, uniform

THREADS = 4
CALLS = 300


def filled():
    state = sx.TensorAttentionState(3, 4, 4, bound=1.0, tolerance=1e-4, batch_shape=(3,), dtype=torch.float64)
    _, keys, values = tokens(0, 3, 12, 4, 4, batch=(3,))
    state.append(keys, values)
    return state


@pytest.mark.skipif(native().library is None, reason="this installation has no kernels")
@pytest.mark.parametrize("lengths", [(3, 3, 3, 3), (1, 2, 5, 8)])
def test_threads_attend_one_state(lengths):
    """Each thread has its own queries, and every output has the bits that a single thread computes."""
    state = filled()
    queries = [uniform(seed, 3, length, 4) for seed, length in enumerate(lengths)]
    expected = [state.attend(query) for query in queries]
    together = threading.Barrier(THREADS)

    def attend(thread):
        together.wait()
        return sum(not torch.equal(state.attend(queries[thread]), expected[thread]) for _ in range(CALLS))

    with ThreadPoolExecutor(THREADS) as pool:
        assert list(pool.map(attend, range(THREADS))) == [0] * THREADS


class Pause:
    """Pause one thread inside a function of a module until another thread releases it."""

    def __init__(self, monkeypatch, module, name):
        self.reached, self.released = threading.Event(), threading.Event()
        plain = getattr(module, name)

        def paused(*given):
            if threading.current_thread() is not threading.main_thread():
                self.reached.set()
                assert self.released.wait(60)
            return plain(*given)

        monkeypatch.setattr(module, name, paused)

    def during(self, work, meanwhile):
        """The result of `work` on another thread; `meanwhile` runs here while it is paused."""
        with ThreadPoolExecutor(1) as pool:
            future = pool.submit(work)
            try:
                assert self.reached.wait(60)
                meanwhile()
            finally:
                self.released.set()
            return future.result()


def contents(state):
    return state.tokens, state.largest, state.roundings, [z.clone() for z in state.states]


def same(left, right):
    return left[:3] == right[:3] and all(map(torch.equal, left[3], right[3]))


CHANGES = {
    "append": lambda state, x: state.append([x, x], [x, x]),
    "extend": lambda state, x: state.extend(x, [x, x], [x, x]),
    "merge": lambda state, x: state.merge(copy.deepcopy(state)),
    "reorder": lambda state, x: state.reorder([0, 0]),
    "load_state_dict": lambda state, x: state.load_state_dict(state.state_dict()),
    "detach": lambda state, x: state.detach(),
}


@pytest.mark.parametrize("length", [1, 20])
@pytest.mark.parametrize("change", CHANGES)
def test_no_change_while_another_thread_attends(change, length, monkeypatch):
    state, x = filled(), uniform(2, 3, length, 4)
    expected, before = state.attend(x), contents(state)
    pause = Pause(monkeypatch, operations, "few_tokens_kernels")

    def meanwhile():
        with pytest.raises(sx.SeparatrixError, match="another thread"):
            CHANGES[change](state, x)
        assert same(contents(state), before)
        assert torch.equal(state.attend(x), expected)  # reading is allowed

    assert torch.equal(pause.during(lambda: state.attend(x), meanwhile), expected)
    CHANGES[change](state, x)  # now the state is not in use


READINGS = {
    "attend": lambda state, x: state.attend(x),
    "state_dict": lambda state, x: state.state_dict(),
    "copy": lambda state, x: copy.copy(state),
    **{name: lambda state, x, name=name: getattr(state, name) for name in ("states", "certificate", "tokens")},
}


@pytest.mark.parametrize("use", [*READINGS, *CHANGES])
def test_no_use_while_another_thread_appends(use, monkeypatch):
    state, x, uses = filled(), uniform(2, 3, 2, 4), READINGS | CHANGES
    alone = copy.deepcopy(state)
    alone.append([x, x], [x, x])
    pause = Pause(monkeypatch, operations, "few_tokens_kernels")

    def meanwhile():
        with pytest.raises(sx.SeparatrixError, match="another thread"):
            uses[use](state, x)

    pause.during(lambda: state.append([x, x], [x, x]), meanwhile)
    assert same(contents(state), contents(alone))


def test_a_state_is_free_after_an_error():
    state, x = filled(), uniform(2, 3, 2, 4)
    with pytest.raises(sx.ArgumentError, match="bound"):
        state.append([5 * x.sign(), x], [x, x])
    with ThreadPoolExecutor(1) as pool:
        pool.submit(state.append, [x, x], [x, x]).result()
    assert state.tokens == (14, 14)


@pytest.mark.parametrize("length", [1, 3, 20])
@pytest.mark.parametrize("masked", [False, True])
def test_a_shallow_copy_has_its_own_sums_and_counts(length, masked):
    state, x = filled(), uniform(2, 3, length, 4)
    masks = {"key_masks": [torch.arange(length) % 2 == 1] * 2} if masked else {}
    state.append([x, x], [x, x], **masks)
    before, output = contents(state), state.attend(x)
    hidden = state.hidden_counts().clone()
    twin = copy.copy(state)
    twin.append([x, x], [x, x], **masks)
    assert twin.tokens == (12 + 2 * length,) * 2
    assert same(contents(state), before)
    assert torch.equal(state.hidden_counts(), hidden)
    assert torch.equal(state.attend(x), output)
    again = copy.copy(state)
    state.append([x, x], [x, x], **masks)
    assert same(contents(again), before)
    assert same(contents(state), contents(twin))
