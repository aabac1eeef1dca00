"""Certificates are promises: a few hundred drawn cases in each test run, and a hundred thousand in a soak.

`manners` lists how inputs are drawn and `kinds` what is computed; every answer is checked by ball arithmetic.
"""

from __future__ import annotations

import math
import threading
from collections import Counter
from dataclasses import fields, replace

import numpy as np
import pytest
import torch

import separatrix as sx
from separatrix.attention.exact.triton import launch as gpu_launch
from separatrix.attention.near_linear.certificate import Certificate
from separatrix.attention.streaming import state
from separatrix.nn import TensorAttention
from tests.attention.fuzz import __main__ as fuzz_command
from tests.attention.fuzz import manners, running, shards, states, windows
from tests.attention.fuzz.calls import check_call, draw_call
from tests.attention.fuzz.kinds import KINDS, run_case
from tests.attention.fuzz.manners import MANNERS, Shapes
from tests.attention.fuzz.outcomes import BROKEN, HELD, REFUSED, UNPROMISED, Outcome
from tests.attention.fuzz.running import missing, run
from tests.attention.fuzz.tally import Tally
from tests.contracts.interpreter import needs_triton

CASES = {
    "call": 170,
    "climb": 20,
    "gradient": 40,
    "incoming gradient": 40,
    "windows": 60,
    "weights": 60,
    "state": 60,
    "threads": 30,
    "layer": 40,
    "value ranges": 60,
    "shards": 30,
}
LEAST = {
    "call": 140,
    "climb": 18,
    "gradient": 30,
    "incoming gradient": 25,
    "windows": 50,
    "weights": 55,
    "state": 45,
    "threads": 25,
    "layer": 25,
    "value ranges": 40,
    "shards": 12,
}
"""How many cases of each kind have to be answered, so that refusals cannot make the fuzz empty."""
RECIPES = {"Chebyshev", "Taylor", "greedy", "relative minimax", "squares after a miss", "squares planned"}
"""The kinds of polynomials, each of which has to occur among the calls."""
GRADIENTS_ARE_PROMISED = "gradient" in {field.name for field in fields(Certificate)}


def tallied(kind, cases, seed=0):
    tally = Tally()
    for number in range(cases):
        tally.add(run_case(seed, number, kind), seed, number)
    return tally


@pytest.mark.parametrize("kind", KINDS)
def test_no_certificate_is_broken(kind):
    tally = tallied(kind, CASES[kind])
    assert tally.broken == []
    total = tally.total()
    if kind == "gradient" and not GRADIENTS_ARE_PROMISED:
        assert total.unpromised >= LEAST[kind]
        return
    assert total.answered >= LEAST[kind]
    if kind == "call":
        assert tally.kinds["call, polynomial"].answered >= LEAST[kind] // 3
        assert min(tally.kinds[f"call, {method}"].answered for method in ("exact", "auto")) >= 20
        assert total.recipes.keys() == RECIPES


@pytest.mark.soak
@pytest.mark.timeout(4 * 3600)
def test_no_certificate_is_broken_in_a_hundred_thousand_cases(tmp_path, capsys):
    """`python -m tests.attention.fuzz` runs the same cases by hand, and adds their counts to a file."""

    def tell(tally):
        with capsys.disabled():
            print(f"\r{tally.cases:,} cases, {len(tally.broken)} broken", end="", flush=True)

    tally = run(100_000, 1, 2, tmp_path / "fuzz.json", tell)
    with capsys.disabled():
        print("", *tally.lines(), sep="\n")
    assert tally.broken == []
    assert tally.cases == 100_000
    assert tally.total().answered >= 75_000


def off(result):
    """A result whose output exceeds its certificate in every entry."""
    return replace(result, output=result.output + 1.5 * result.certificate.total)


def too_far(output):
    return output + 10 * (1 + output.abs().max()) if output.numel() else output


KINDS_OF_OUTPUTS = ["call", "climb", "state", "threads", "layer", "value ranges", "shards", "windows"]


@pytest.mark.parametrize("kind", KINDS_OF_OUTPUTS)
def test_the_fuzz_finds_broken_results(kind, monkeypatch):
    """Every kind that checks outputs, with outputs that are deliberately wrong."""
    right, attend = sx.certified_attention, state.TensorAttentionState.attend
    monkeypatch.setattr(sx, "certified_attention", lambda *given, **options: off(right(*given, **options)))
    monkeypatch.setattr(state.TensorAttentionState, "attend", lambda self, query: too_far(attend(self, query)))
    sharded, forward = shards.sharded_attention, TensorAttention._attend
    monkeypatch.setattr(shards, "sharded_attention", lambda *given, **options: too_far(sharded(*given, **options)))
    monkeypatch.setattr(TensorAttention, "_attend", lambda *given, **options: too_far(forward(*given, **options)))
    monkeypatch.setattr(windows, "check_backward", check_call)
    found = tallied(kind, 8).total()
    assert found.broken > 0
    assert found.held <= 2  # without queries, with nothing to attend, or with values that overflow the dtype


@pytest.mark.parametrize("kind", ["gradient", "incoming gradient"])
def test_the_fuzz_finds_wrong_gradients(kind, monkeypatch):
    grad = torch.autograd.grad
    monkeypatch.setattr(torch.autograd, "grad", lambda *given, **options: [2 * x for x in grad(*given, **options)])
    assert tallied(kind, 12).total().broken >= 6


@pytest.mark.parametrize("name", ["attention_weights", "top_tuples", "pair_map"])
def test_the_fuzz_finds_weights_that_do_not_sum_to_one(name, monkeypatch):
    right = getattr(sx, name)

    def wrong(*given, **options):
        found = right(*given, **options)
        if isinstance(found, torch.Tensor):
            return 1.0001 * found
        part = "weights" if name == "top_tuples" else "first"
        return replace(found, **{part: 1.0001 * getattr(found, part)})

    monkeypatch.setattr(sx, name, wrong)
    assert tallied("weights", 40).total().broken >= (3 if name == "pair_map" else 30)


def test_the_fuzz_finds_threads_that_disturb_each_other(monkeypatch):
    """Attention on any thread except the main thread is wrong in its last bit."""
    attend = state.TensorAttentionState.attend

    def disturbed(self, query):
        output = attend(self, query)
        return output if threading.current_thread() is threading.main_thread() else torch.nextafter(output, output + 1)

    monkeypatch.setattr(state.TensorAttentionState, "attend", disturbed)
    monkeypatch.setattr(states, "TYPES", (torch.float64,) * 4)
    assert tallied("threads", 8).total().broken >= 6


def test_windows_are_drawn_at_every_order():
    calls = [windows.draw_windowed(np.random.default_rng([0, number])) for number in range(300)]
    assert {len(call.keys) + 1 for call in calls} == set(range(2, 10))
    assert max(math.prod(key.shape[-2] for key in call.keys) for call in calls) > 2**63
    assert any(call.options["is_causal"] and not call.options["query_offset"] for call in calls)


def test_a_case_is_the_same_every_time():
    assert run_case(3, 7) == run_case(3, 7)
    assert [run_case(3, number).kind for number in range(5)] == [run_case(3, number).kind for number in range(5)]


def test_the_fuzz_draws_every_option():
    """A thousand draws cover orders 2 to 7, all types, lengths from 0, dimensions to 64, and every option."""
    calls = [draw_call(np.random.default_rng([0, number])) for number in range(1000)]
    assert {len(call.keys) + 1 for call in calls} == {2, 3, 4, 5, 6, 7}
    assert {call.query.dtype for call in calls} == set(manners.TYPES)
    assert {call.manner for call in calls} == set(MANNERS)
    lengths = {key.shape[-2] for call in calls for key in call.keys}
    assert 0 in lengths
    assert max(lengths) >= 150
    dimensions = {call.query.shape[-1] for call in calls}
    assert {1, 2} < dimensions
    assert max(dimensions) >= 60
    options = Counter()
    for call in calls:
        options.update(name for name, value in call.options.items() if value not in (None, False, 0))
        options["flat"] += call.query.dim() == 2
    assert min(options[name] for name in ("is_causal", "query_offset", "windows", "key_masks", "enable_gqa")) >= 40
    polynomial = sum(call.method == "polynomial" for call in calls)
    assert 450 < polynomial < 550


@pytest.mark.parametrize("manner", MANNERS)
def test_manners_are_finite_in_every_type(manner):
    shapes = Shapes((2,), (2,), 3, (4, 0, 5), 6, 2)
    for dtype in manners.TYPES:
        query, keys, values = MANNERS[manner](np.random.default_rng(0), shapes).as_type(dtype)
        assert all(torch.isfinite(x).all() and x.dtype == dtype for x in (query, *keys, *values))
        assert query.shape == (2, 3, 6)
        assert [tuple(x.shape) for x in (*keys, *values)] == [
            (2, length, width) for width in (6, 2) for length in (4, 0, 5)
        ]


def test_counts_add_up_and_are_kept(tmp_path):
    path = tmp_path / "tally.json"
    tallies = [Tally(), Tally()]
    outcomes = [Outcome("a", HELD, 10.0**-k) for k in range(1, 10)]
    outcomes += [
        Outcome("a", HELD, 0.0),
        Outcome("a", BROKEN, 3.0, "this one"),
        Outcome("b", REFUSED),
        Outcome("b", UNPROMISED),
    ]
    for number, outcome in enumerate(outcomes):
        tallies[number % 2].add(outcome, 5, number)
    tallies[0].parts, tallies[1].parts = [[5, 200, 400]], [[5, 0, 200]]
    tallies[0].merge(tallies[1])
    tallies[0].save(path)
    loaded = Tally.load(path)
    assert loaded.cases == 13
    assert (loaded.kinds["a"].held, loaded.kinds["a"].broken, loaded.kinds["a"].largest) == (10, 1, 3.0)
    assert (loaded.kinds["b"].refused, loaded.kinds["b"].unpromised, loaded.kinds["b"].answered) == (1, 1, 0)
    assert math.isclose(loaded.kinds["a"].median_looseness(), 10.0**5, rel_tol=0.13)
    assert math.isnan(loaded.kinds["b"].median_looseness())
    assert loaded.broken == ["seed 5, case 10: this one"]
    assert list(missing(loaded, 5, 500)) == [(5, 400, 500)]
    assert list(missing(loaded, 6, 200)) == [(6, 0, 200)]
    assert any("1 broken" in line for line in loaded.lines())


def test_an_interrupted_run_is_resumed(tmp_path, monkeypatch):
    """Run in this process: parts that are in the file are not rerun."""
    ran = []

    class Here:
        """Run submitted work immediately."""

        def __init__(self, *given, **options):
            pass

        def __enter__(self):
            return self

        def __exit__(self, *given):
            pass

        def submit(self, work, *part):
            future = running.Future()
            future.set_result(work(*part))
            return future

    def part(seed, first, last, triton):
        ran.append((seed, first, last, triton))
        tally = Tally(parts=[[seed, first, last]])
        for number in range(first, last):
            tally.add(Outcome("a", HELD, 0.5), seed, number)
        return tally

    monkeypatch.setattr(running, "ProcessPoolExecutor", Here)
    monkeypatch.setattr(running, "run_part", part)
    seen = []
    out = tmp_path / "fuzz.json"
    assert run(400, 9, 2, out, lambda tally: seen.append(tally.cases)).cases == 400
    assert run(1000, 9, 2, out, lambda tally: None).cases == 1000
    assert ran == [(9, first, first + 200, False) for first in range(0, 1000, 200)]
    assert seen[-1] == 400
    assert run(30, 9, 2, tmp_path / "triton.json", lambda tally: None, triton=True).cases == 30
    assert ran[5:] == [(9, 0, 20, True), (9, 20, 30, True)]


def test_one_case_by_the_command(capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["fuzz", "--seed", "3", "--case", "7"])
    assert fuzz_command.main() == 0
    outcome = run_case(3, 7)
    assert capsys.readouterr().out.startswith(f"{outcome.kind}: {outcome.how}, ratio ")


@needs_triton
def test_the_triton_kernels_run_if_requested(monkeypatch):
    """Case 6 of seed 7 is a call of exact attention of order 4, causal and with windows, whose certificate holds."""
    launched, launch = [], gpu_launch._launch
    monkeypatch.setattr(
        gpu_launch, "_launch", lambda *given, **sizes: (launched.append(given[0]), launch(*given, **sizes))
    )
    for triton, expected in ((True, {"attend"}), (False, set())):
        launched.clear()
        tally = running.run_part(7, 6, 7, triton)
        assert set(launched) == expected
        assert (tally.total().held, tally.parts) == (1, [[7, 6, 7]])
