"""States saved and loaded: the settings of their certificate are compared, and impossible sums are refused."""

from __future__ import annotations

import json
import math
import random
from dataclasses import replace

import mpmath
import pytest
import torch
from safetensors.torch import load_file, save_file

import separatrix as sx
from separatrix.attention.near_linear.approximation.minimax import minimax
from separatrix.attention.near_linear.bounded_plan import plan_bounded
from separatrix.attention.streaming import state as state_module

GOOD = {"order": 3, "head_dim": 3, "value_dim": 2, "bound": 1.0, "tolerance": 1e-3}


def uniform(seed, *shape, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    return 2 * torch.rand(*shape, dtype=dtype, generator=generator) - 1


def state(count=9, **changed):
    new_state = sx.TensorAttentionState(**(GOOD | changed))
    shape = (*new_state.batch_shape, count)
    new_state.append(
        [uniform(m, *shape, new_state.head_dim).to(new_state.dtype) / 2 for m in range(1, new_state.order)],
        [uniform(50 + m, *shape, new_state.value_dim).to(new_state.dtype) for m in range(1, new_state.order)],
    )
    return new_state


def test_a_saved_state_is_resumed_unchanged(tmp_path):
    """A state is saved in a safetensors file, which has only tensors, and loaded into a state with other tokens."""
    first = state()
    save_file(first.state_dict(), tmp_path / "state.safetensors")
    again = state(4)
    again.load_state_dict(load_file(tmp_path / "state.safetensors"))
    for each in (first, again):
        each.append([uniform(m, 5, 3) for m in (7, 8)], [uniform(m, 5, 2) for m in (9, 10)])
    query = uniform(0, 4, 3)
    assert torch.equal(first.attend(query), again.attend(query))
    assert first.certificate.total == again.certificate.total
    assert first.tokens == again.tokens == (14, 14)


def test_the_configuration_can_be_read_by_people():
    text = bytes(state(dtype=torch.float64, batch_shape=(2, 3)).state_dict()["configuration"].tolist())
    parsed = json.loads(text)
    assert (parsed["dtype"], parsed["batch_shape"], parsed["bound"], parsed["norm"]) == (
        "float64",
        [2, 3],
        1.0,
        "entries",
    )
    assert parsed["degree"] == 4
    assert 1.0 < parsed["radius"] < 1.0 + 1e-12


def state_of_degree(monkeypatch, degree, **changed):
    """A state whose plan has another degree than the planner now chooses, as in earlier versions."""

    def plan(*given):
        planned = plan_bounded(*given)
        return replace(planned, polynomial=minimax(degree, planned.radius))

    with monkeypatch.context() as patched:
        patched.setattr(state_module, "plan_bounded", plan)
        return state(**changed)


@pytest.mark.parametrize("degree", [5, 7])
@pytest.mark.parametrize("masked", [False, True])
def test_a_state_of_a_higher_degree_is_loaded_without_the_sums_beyond_the_plan(degree, masked, monkeypatch):
    """Earlier versions planned higher degrees: their sums contain those of all lower degrees."""
    before, expected = state_of_degree(monkeypatch, degree, batch_shape=(2,)), state(batch_shape=(2,))
    assert before.plan.degree == degree > expected.plan.degree
    mask = torch.tensor([[True, False, True, True, True], [True] * 5])
    for each in (before, expected):
        tokens = [[uniform(m, 2, 5, width) for m in (7, 8)] for width in (3, 2)]
        each.append(*tokens, key_masks=[mask, None] if masked else None)
    loaded = sx.TensorAttentionState(**GOOD, batch_shape=(2,))
    loaded.load_state_dict(before.state_dict())
    for mine, theirs in zip(loaded.states, expected.states, strict=True):
        assert torch.allclose(mine, theirs, rtol=1e-13, atol=1e-13)
    query = uniform(0, 2, 4, 3)
    assert torch.allclose(loaded.attend(query), expected.attend(query), rtol=1e-6, atol=1e-7)
    assert loaded.certificate.total == expected.certificate.total
    assert loaded.state_dict().keys() == expected.state_dict().keys()
    again = sx.TensorAttentionState(**GOOD, batch_shape=(2,))
    again.load_state_dict(loaded.state_dict())  # saved again, it has the degree of the plan
    spoilt = before.state_dict()
    spoilt["states.0"][0, -1, 0] += 1  # among the omitted sums
    with pytest.raises(sx.ArgumentError, match="saved: expected tensors that match their checksum"):
        again.load_state_dict(spoilt)


def test_a_state_of_a_lower_degree_is_refused(monkeypatch):
    before, after = state_of_degree(monkeypatch, 3), state(2)
    with pytest.raises(sx.ArgumentError, match="saved: expected a state with degree = 4, got degree = 3"):
        after.load_state_dict(before.state_dict())
    assert after.tokens == (2, 2)


@pytest.mark.parametrize("degree", [10**9, 5.0, "5", None, True])
def test_a_degree_that_the_sums_do_not_have_is_refused(degree):
    saved = state().state_dict()
    told = json.loads(bytes(saved["configuration"].tolist())) | {"degree": degree}
    saved["configuration"] = torch.tensor(list(json.dumps(told).encode()), dtype=torch.uint8)
    with pytest.raises(sx.ArgumentError, match=r"saved(: expected a state with degree|\['states.0'\]: expected shape)"):
        state().load_state_dict(saved)


OTHER = {
    "order": {"order": 4},
    "head_dim": {"head_dim": 2},
    "value_dim": {"value_dim": 3},
    "bound": {"bound": 1.0 - 1e-9},
    "tolerance": {"tolerance": 1e-3 + 1e-12},
    "scale": {"scale": 0.3},
    "norm": {"norm": "order"},
    "dtype": {"dtype": torch.float64},
    "batch_shape": {"batch_shape": (2, 3)},
}


@pytest.mark.parametrize("name", OTHER)
def test_differing_settings_are_named(name):
    """Loading and merging raise the same error."""
    here, there = state(batch_shape=(3, 2)), state(**({"batch_shape": (3, 2)} | OTHER[name]))
    before = here.state_dict()
    with pytest.raises(sx.ArgumentError, match=rf"saved: expected a state with {name} = .*, got {name} = "):
        here.load_state_dict(there.state_dict())
    with pytest.raises(sx.ArgumentError, match=rf"other: expected a state with {name} = .*, got {name} = "):
        here.merge(there)
    assert all(torch.equal(before[entry], x) for entry, x in here.state_dict().items())


def attention(query, keys, values, scale):
    """Outputs of one column by the definition in mpmath, to 60 digits, for d = 1 and sets of equal length."""
    with mpmath.workdps(60):
        rows = []
        for q in query.flatten().tolist():
            pairs = [(mpmath.mpf(1), mpmath.mpf(1))]
            for key, value in zip(keys, values, strict=True):
                tokens = list(zip(key.flatten().tolist(), value.flatten().tolist(), strict=True))
                pairs = [(a * mpmath.mpf(k), b * mpmath.mpf(v)) for a, b in pairs for k, v in tokens]
            weights = [mpmath.exp(scale * q * a) for a, _ in pairs]
            rows.append(mpmath.fsum(w * b for w, (_, b) in zip(weights, pairs, strict=True)) / mpmath.fsum(weights))
        return rows


@pytest.mark.parametrize("order", [4, 6])
def test_a_state_of_bfloat16_is_not_taken_for_one_of_float64(order):
    """A token of 1.0078 is within the bound of 1 in bfloat16, but not in float64, whose certificate is smaller."""
    arguments = {"order": order, "head_dim": 1, "value_dim": 1, "bound": 1.0, "tolerance": 1e-2, "scale": -8.0}
    narrow = sx.TensorAttentionState(**arguments, dtype=torch.bfloat16)
    wide = sx.TensorAttentionState(**arguments, dtype=torch.float64)
    at_most = 1 + torch.finfo(torch.bfloat16).eps
    keys = [torch.tensor([[at_most], [-at_most]], dtype=torch.bfloat16) for _ in range(order - 1)]
    values = [torch.tensor([[1.0], [-1.0]], dtype=torch.bfloat16) for _ in range(order - 1)]
    narrow.append(keys, values)
    with pytest.raises(sx.ArgumentError, match=r"expected a state with dtype = float64, got dtype = bfloat16"):
        wide.load_state_dict(narrow.state_dict())
    again = sx.TensorAttentionState(**arguments, dtype=torch.bfloat16)
    again.load_state_dict(narrow.state_dict())
    query = torch.tensor([[at_most], [0.5]], dtype=torch.bfloat16)
    truth = attention(query, keys, values, arguments["scale"])
    actual = again.attend(query).flatten().tolist()
    error = max(abs(x - float(t)) for x, t in zip(actual, truth, strict=True))
    assert error <= again.certificate.total <= 1e-2


def changed(name, entry):
    def change(saved):
        saved[name][entry[0]] = entry[1]

    return change


WRONG = {
    "NaN in a state": (changed("states.1", ((0, 3, 1), math.nan)), r"saved\['states.1'\]: expected finite entries"),
    "infinity in a state": (changed("states.0", ((0, 3, 1), math.inf)), r"saved\['states.0'\]: expected finite"),
    "negative counts": (changed("tokens", (1, -9)), r"saved\['tokens'\]\[1\]: expected a count >= 0, got -9"),
    "another count": (changed("tokens", (0, 8)), r"saved\['states.0'\]: expected 8 in the column of ones"),
    "no count": (changed("tokens", (0, 0)), r"saved\['largest'\]\[0\]: expected 0, because there are no tokens"),
    "negative roundings": (changed("roundings", (0, -1)), r"saved\['roundings'\]\[0\]: expected at least 4"),
    "too few roundings": (changed("roundings", (1, 3)), r"saved\['roundings'\]\[1\]: expected at least 4, for 9"),
    "NaN for a magnitude": (changed("largest", (0, math.nan)), r"saved\['largest'\]\[0\]: expected a finite"),
    "infinite magnitude": (changed("largest", (0, math.inf)), r"saved\['largest'\]\[0\]: expected a finite"),
    "negative magnitude": (changed("largest", (0, -1.0)), r"saved\['largest'\]\[0\]: expected a finite"),
    "magnitude too small": (changed("largest", (0, 1e-3)), r"saved\['states.0'\]: expected sums that 9 tokens"),
    "sums of other tokens": (changed("states.0", ((0, 5, 2), 50.0)), r"saved\['states.0'\]: expected sums that 9"),
    "zero states": (changed("states.0", (..., 0.0)), r"saved\['states.0'\]: expected 9 in the column of ones"),
}


@pytest.mark.parametrize("what", WRONG)
def test_sums_that_no_tokens_have(what):
    here, there = state(4), state()
    before, saved = here.state_dict(), there.state_dict()
    change, message = WRONG[what]
    change(saved)
    with pytest.raises(sx.ArgumentError, match=message):
        here.load_state_dict(saved)
    assert all(torch.equal(before[entry], x) for entry, x in here.state_dict().items())


def test_a_flipped_bit_is_refused_wherever_it_is():
    """After most bit flips the sums could be those of other tokens, so that only the checksum detects the damage."""
    here, saved, draw = state(4), state().state_dict(), random.Random(0)
    for name, x in saved.items():
        for _ in range(60):
            damaged = {**saved, name: x.clone()}
            data = damaged[name].reshape(-1).view(torch.uint8)
            data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
            with pytest.raises(sx.ArgumentError, match=r"^saved"):
                here.load_state_dict(damaged)
    assert here.tokens == (4, 4)
    here.load_state_dict(saved)


def test_a_corrupted_state_is_not_merged():
    here, there = state(4), state()
    there.states[0][0, 2, 0] = math.nan
    with pytest.raises(sx.ArgumentError, match=r"other\['states.0'\]: expected finite entries"):
        here.merge(there)
    with pytest.raises(sx.ArgumentError, match=r"other: expected a TensorAttentionState, got dict"):
        here.merge(there.state_dict())
    assert here.tokens == (4, 4)


def encoded(text):
    return torch.tensor(list(text), dtype=torch.uint8)


FORMS = {
    "missing": (
        lambda saved: saved.pop("largest"),
        r"saved: expected the entries .*'digest', 'largest'",
    ),
    "no configuration": (lambda saved: saved.pop("configuration"), r"saved: expected the entries"),
    "more": (lambda saved: saved.update(more=torch.ones(1)), r"saved: expected the entries .* got .*'more'"),
    "no tensor": (lambda saved: saved.update(largest=[1.0, 1.0]), r"saved\['largest'\]: expected shape \(2,\)"),
    "type": (lambda saved: saved.update(tokens=torch.ones(2)), r"saved\['tokens'\]: expected .*int64, got .*float32"),
    "shape": (lambda saved: saved.update(tokens=torch.tensor([1])), r"saved\['tokens'\]: expected shape \(2,\)"),
    "list": (lambda saved: saved.update(configuration=[1]), r"saved\['configuration'\]: expected a tensor of bytes"),
    "floats": (lambda saved: saved.update(configuration=torch.ones(2)), "expected a tensor of bytes"),
    "text": (lambda saved: saved.update(configuration=encoded(b"\xff{")), "expected the bytes of a JSON text"),
    "deep": (lambda saved: saved.update(configuration=encoded(b"[" * 10**5)), "expected the bytes of a JSON text"),
    "number": (lambda saved: saved.update(configuration=encoded(b"3")), "expected a JSON object, got int"),
}


@pytest.mark.parametrize("what", FORMS)
def test_values_that_are_not_saved_states(what):
    saved = state().state_dict()
    change, message = FORMS[what]
    change(saved)
    with pytest.raises(sx.ArgumentError, match=message):
        state().load_state_dict(saved)


def test_a_list_is_not_a_saved_state():
    with pytest.raises(sx.ArgumentError, match="saved: expected a mapping"):
        state().load_state_dict([torch.ones(1)])


@pytest.mark.parametrize("order", [2, 3, 5])
@pytest.mark.parametrize("bound", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("norm", ["entries", "order"])
def test_states_of_tokens_at_the_bound_are_loaded(order, bound, norm):
    """Reachable sums are accepted: all tokens at the bound, in thousands of pieces, merged with themselves."""
    made = [
        sx.TensorAttentionState(
            order, 2, 1, bound=bound, tolerance=1e-2, scale=0.5 * bound**-order, norm=norm, dtype=torch.float64
        )
        for _ in range(2)
    ]
    size = bound if norm == "entries" else bound * 2 ** (-1 / order)
    keys = [torch.full((7, 2), size, dtype=torch.float64)] * (order - 1)
    values = [torch.full((7, 1), -3.0, dtype=torch.float64)] * (order - 1)
    for _ in range(300):
        made[0].append(keys, values)
    made[0].merge(made[0])
    made[1].load_state_dict(made[0].state_dict())
    assert made[1].tokens == (4200,) * (order - 1)


def test_empty_states_are_saved_too():
    empty = sx.TensorAttentionState(**GOOD)
    empty.merge(empty)
    other = state()
    other.load_state_dict(empty.state_dict())
    assert other.tokens == (0, 0)
    none = sx.TensorAttentionState(**GOOD, batch_shape=(0,))
    none.load_state_dict(none.state_dict())


def test_hidden_tokens_are_counted_and_the_counts_are_checked():
    """A state of nine tokens, two of which are masked for one head and none for the other."""
    masks = torch.ones(2, 9, dtype=torch.bool)
    masks[0, 3:5] = False
    state = sx.TensorAttentionState(**GOOD, batch_shape=(2,))
    sets = ([uniform(m, 2, 9, size) for m in (1, 2)] for size in (3, 2))
    state.append(*sets, key_masks=[masks, None])
    saved = state.state_dict()
    assert saved["hidden"].tolist() == [[2, 0], [0, 0]]
    again = sx.TensorAttentionState(**GOOD, batch_shape=(2,))
    again.load_state_dict(saved)
    assert torch.equal(again.attend(uniform(0, 2, 4, 3)), state.attend(uniform(0, 2, 4, 3)))
    wrong = {
        "7 in the column of ones": ({"hidden": torch.tensor([[2, 2], [0, 0]])}, r"saved\['states.0'\]: expected 7 in"),
        "counts": ({"hidden": torch.tensor([[2, 0], [-1, 0]])}, r"saved\['hidden'\]\[1\]: expected counts from 0 to 9"),
        "more than all": ({"hidden": torch.tensor([[10, 0], [0, 0]])}, r"saved\['hidden'\]\[0\]: expected counts"),
        "shape": ({"hidden": torch.tensor([2, 0])}, r"saved\['hidden'\]: expected shape \(2, 2\)"),
        "type": ({"hidden": saved["hidden"].double()}, r"saved\['hidden'\]: expected shape \(2, 2\) and torch.int64"),
    }
    for changed, said in wrong.values():
        with pytest.raises(sx.ArgumentError, match=said):
            again.load_state_dict({**saved, **changed})
    with pytest.raises(sx.ArgumentError, match=r"saved\['states.0'\]: expected 9 in the column of ones, as many"):
        again.load_state_dict({name: x for name, x in saved.items() if name != "hidden"})
