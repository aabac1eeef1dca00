"""All computations run with fake GPU tensors: no tensor is created on another device, and host reads are counted.

A tensor on the wrong device raises PyTorch's error, with fake tensors as with real ones.
"""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import _disable_current_modes

import separatrix as sx
from separatrix.attention import certified
from separatrix.attention.call import check_call
from separatrix.attention.dispatch import gpu as gpu_dispatch
from separatrix.attention.exact import guarded
from separatrix.attention.sharded import agreement, sharded_attention, sharded_exact_attention
from separatrix.hf import interface
from tests.contracts.attention_contract import draw
from tests.contracts.devices import devices, on_a_gpu


def drawn(order, dtype=torch.float32):
    query, *sets = draw(0, 2 * order - 1, 2, 9, 4).to(dtype)
    return query, sets[: order - 1], sets[order - 1 :]


MASK = torch.arange(18).reshape(2, 9) % 3 != 1
OPTIONS = {
    "plain": {},
    "causal": {"is_causal": True},
    "windows": {"windows": True, "query_offset": 1},
    "masked": {"key_masks": True, "is_causal": True},
}


def options_of(name, masks):
    """The options of a call, with a mask and a window for each of its key sets."""
    each = {"key_masks": masks, "windows": [3] * len(masks)}
    return {option: each.get(option, value) for option, value in OPTIONS[name].items()}


@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("name", OPTIONS)
def test_exact_attention(name, order):
    """The call as an operator, whose results are on the device of its arguments."""

    def run(query, keys, values, mask):
        options = options_of(name, [mask] * (order - 1))
        return sx.tensor_attention(query, keys, values, return_lse=True, **options)

    found, looks = on_a_gpu(run, *drawn(order), MASK)
    assert (devices(found), looks) == ({"cuda"}, 0)


def test_ordinary_attention():
    query, (key,), (value,) = drawn(2)
    found, looks = on_a_gpu(sx.tensor_attention, *(x.unsqueeze(0) for x in (query, key, value)))
    assert (devices(found), looks) == ({"cuda"}, 0)


LOOKS = {"plain": 4, "large factors": 6, "large scores": 4, "not finite": 13}
"""How often a forward and a backward pass of the plain PyTorch engine read numbers."""


@pytest.mark.parametrize("kind", LOOKS)
def test_the_engine_in_plain_pytorch(kind, monkeypatch):
    """The forward and backward functions of the operators if Triton is not installed or does not support a call."""
    monkeypatch.setattr(gpu_dispatch, "DEVICES", set())
    query, keys, values = drawn(3)
    if kind == "large factors":
        query, keys = query * 1e20, [keys[0] * 1e-20, keys[1]]
    elif kind == "large scores":
        query = query * 300
    elif kind == "not finite":
        keys[0][0, 5] = torch.nan

    def run(query, keys, values):
        call = check_call(query, keys, values, is_causal=True)
        out, lse = guarded.forward(call)
        return out, lse, guarded.backward(call, out, lse, out, lse)

    found, looks = on_a_gpu(run, query, keys, values)
    assert (devices(found), looks) == ({"cuda"}, LOOKS[kind])


@pytest.mark.parametrize("ties", [False, True], ids=["", "ties"])
@pytest.mark.parametrize("name", OPTIONS)
def test_top_tuples(name, ties):
    def run(query, keys, mask):
        found = sx.top_tuples(query, keys, 3, **options_of(name, [mask, mask]))
        return found.indices, found.weights, found.lse

    query, keys, _ = drawn(3)
    found, looks = on_a_gpu(run, query.round() if ties else query, [key.round() if ties else key for key in keys], MASK)
    assert devices(found) == {"cuda"}
    assert 0 < looks <= 10


@pytest.fixture
def readable(monkeypatch):
    """Accept fake tensors where a tolerance requires readable ones: these tests supply the numbers."""
    monkeypatch.setattr(certified, "check_readable", lambda call: None)


@pytest.mark.usefixtures("readable")
@pytest.mark.parametrize("method", ["polynomial", "exact", "auto"])
@pytest.mark.parametrize("name", ["plain", "causal", "masked"])
def test_planning_and_certificates(name, method):
    def run(query, keys, values, mask):
        options = options_of(name, [mask, mask])
        found = sx.certified_attention(query, keys, values, tolerance=1e-2, method=method, **options)
        return found.output, found.lse, found.certificate.per_query

    found, looks = on_a_gpu(run, *drawn(3), MASK)
    assert devices(found) == {"cuda"}
    assert 0 < looks <= 60


@pytest.mark.usefixtures("readable")
def test_order_2_in_a_basis_of_its_own():
    """Order 2 also runs with rotated and centred coordinates, and index sets shaped by the amplitudes."""

    def run(query, keys, values):
        found = sx.certified_attention(query, keys, values, tolerance=1e-9, method="polynomial")
        return found.output, found.certificate.per_query

    found, _ = on_a_gpu(run, *drawn(2, torch.float64))
    assert devices(found) == {"cuda"}


def test_the_bound_on_exact_attention():
    found, looks = on_a_gpu(lambda *given: sx.exact_error_bound(*given, return_lse=True), *drawn(3))
    assert (devices(found), looks) == ({"cuda"}, 4)


def test_linear_attention_and_weights():
    query, (key, other), (value, _) = drawn(3)
    found, looks = on_a_gpu(lambda *given: sx.linear_attention(*given), query.abs(), key.abs(), value)
    assert (devices(found), looks) == ({"cuda"}, 0)
    found, _ = on_a_gpu(lambda query, *keys: sx.attention_weights(query, list(keys), [1, 2]), query, key, other)
    assert devices(found) == {"cuda"}


def test_states():
    def run(query, keys, values):
        state = sx.TensorAttentionState(3, 4, 4, bound=1.0, tolerance=1e-2, batch_shape=(2,), device=query.device)

        def some(start, stop):
            return [[x[:, start:stop] for x in sets] for sets in (keys, values)]

        state.append(*some(0, 3))
        found = [state.attend(query[:, :2]), state.extend(query[:, 3:6], *some(3, 6))]
        found.append(state.extend(query[:, 6:7], *some(6, 7)))
        state.reorder([1, 0])
        return found, state.states

    found, looks = on_a_gpu(run, *drawn(3))
    assert devices(found) == {"cuda"}
    assert looks < 40


@pytest.mark.parametrize(
    "options",
    [{}, {"bound": 1.0, "tolerance": 1e-2}, {"rotary": 1e4, "windows": [3, 2]}, {"num_kv_heads": 1}],
    ids=["plain", "bounded", "rotary", "grouped"],
)
def test_layers(options):
    layer = sx.nn.TensorAttention(8, 2, order=3, **options)
    held = {name: x.detach() for name, x in (*layer.named_parameters(), *layer.named_buffers())}

    def run(held, x):
        return torch.func.functional_call(layer, held, (x,), {"is_causal": True})

    found, looks = on_a_gpu(run, held, draw(1, 2, 7, 8).float())
    assert (devices(found), looks) == ({"cuda"}, 0)


@pytest.mark.parametrize(("masked", "most"), [(False, 0), (True, 6)])
def test_the_interface_of_transformers(masked, most):
    query, (key,), (value,) = drawn(2)

    def run(query, key, value, mask):
        return interface.exact(torch.nn.Module(), query, key, value, mask if masked else None)[0]

    mask = torch.ones(2, 1, 9, 9, dtype=torch.bool).tril()
    found, looks = on_a_gpu(run, *(x.unsqueeze(1) for x in (query, key, value)), mask)
    assert devices(found) == {"cuda"}
    assert looks <= most


@pytest.fixture
def alone(monkeypatch):
    """A process group of one rank, whose barriers run on the CPU and outside of any mode."""

    def outside(agree):
        def agreed(*args):
            with _disable_current_modes(), torch._C.DisableTorchFunction():
                return agree(*args)

        return agreed

    monkeypatch.setattr(agreement.RankPass, "_agree", outside(agreement.RankPass._agree))
    dist.init_process_group("fake", rank=0, world_size=1, store=dist.HashStore())
    yield
    dist.destroy_process_group()


@pytest.mark.usefixtures("alone")
def test_sharding():
    found, _ = on_a_gpu(lambda *given: sharded_exact_attention(*given, is_causal=True), *drawn(3))
    assert devices(found) == {"cuda"}
    found, _ = on_a_gpu(lambda *given: sharded_attention(*given, bound=1.0, tolerance=1e-2), *drawn(3))
    assert devices(found) == {"cuda"}


@pytest.mark.parametrize("order", [2, 3])
def test_backward_passes_keep_shapes_and_types(order):
    """Use the meta device: in a CPU build, a fake GPU tensor that requires a gradient crashes the process."""
    with FakeTensorMode():
        query = torch.empty(2, 5, 4, device="meta", dtype=torch.bfloat16, requires_grad=True)
        sets = [
            torch.empty(2, 6, 4, device="meta", dtype=torch.bfloat16, requires_grad=True) for _ in range(2 * order - 2)
        ]
        out, lse = sx.tensor_attention(query, sets[: order - 1], sets[order - 1 :], return_lse=True)
        (out.sum() + lse.sum()).backward()
    for x in (query, *sets):
        assert (x.grad.shape, x.grad.dtype, x.grad.device) == (x.shape, x.dtype, x.device)


def test_a_tensor_on_the_wrong_device_is_detected():
    """These tests rely on PyTorch's error for operations on tensors of two devices."""

    def run(x):
        return x + torch.arange(9)

    with pytest.raises(RuntimeError, match="device"):
        on_a_gpu(run, drawn(2)[0][0, :, 0])


def test_a_read_elsewhere_is_detected():
    with pytest.raises(Exception, match="_local_scalar_dense"):
        on_a_gpu(lambda x: x.sum().item(), drawn(2)[0])


@pytest.mark.parametrize(("version", "usable"), [("3.5.1", False), ("3.6.0", True), ("3.10.0+rocm", True)])
def test_an_untested_triton_version_is_not_used(monkeypatch, version, usable):
    monkeypatch.setattr(gpu_dispatch.importlib.util, "find_spec", lambda name: object())
    monkeypatch.setitem(sys.modules, "triton", SimpleNamespace(__version__=version))
    assert gpu_dispatch.installed.__wrapped__() == usable
