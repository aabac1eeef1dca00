"""The tab Learn without a browser: the dynamics, their law and their bound, the figures, and refused input."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import math
import shlex
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from separatrix.errors import SeparatrixError
from separatrix.explorer.app import make_app
from separatrix.explorer.learn import dynamics as learn_view
from separatrix.explorer.learn import figures as learn_figures
from separatrix.explorer.learn import sweep
from separatrix.explorer.learn import tab as learn_tab
from separatrix.explorer.learn.dynamics import LONGEST, Descent, descended
from separatrix.selection.dynamics import population_dynamics, population_loss
from separatrix.selection.laws import slow_curve_after, time_law
from tests.explorer.bad_values import bad_values
from tests.explorer.reader import reader, texts

ONE = Descent(T=20, q=2, d=2, eta=0.0125, steps=50_000)


def test_the_recursion_is_the_librarys() -> None:
    found, run = descended(ONE), population_dynamics(20, 2, 2, 0.0125, 50_000)
    at = found.run.step.astype(int)
    assert at[0] == 1
    assert at[-1] == 50_000
    assert (np.diff(at) > 0).all()
    for name in ("alpha", "C", "loss"):
        assert getattr(found.run, name).tolist() == getattr(run, name)[at].tolist()


def test_the_law_is_the_librarys_and_lies_on_its_own_loss() -> None:
    """alpha and C of the law give its loss by Lemma D.2, and its times are those of `time_law`."""
    one = Descent(T=60, q=3, d=5, eta=0.002, steps=10**8)
    law = descended(one).law
    assert np.allclose(law.loss, population_loss(law.alpha, law.C, 60, 3, 5), rtol=1e-6, atol=0)
    for at in (len(law.step) // 3, -1):
        assert law.step[at] == pytest.approx(time_law(60, 3, 5, 0.002, float(law.loss[at])), rel=1e-3)
    assert law.step[-1] <= one.steps


def test_the_law_goes_on_where_the_recursion_ends() -> None:
    one = Descent(T=20, q=2, d=2, eta=0.0125, steps=10**7)
    found = descended(one)
    assert found.run.step[-1] == LONGEST
    assert found.last.step[0] == found.law.step[-1] > LONGEST
    meets = float(np.exp(np.interp(np.log(LONGEST), np.log(found.law.step), np.log(found.law.loss))))
    assert meets == pytest.approx(float(found.run.loss[-1]), rel=0.03)


def test_the_bound_is_above_the_loss_where_the_theorem_holds() -> None:
    found = descended(ONE)
    assert ONE.broken() == {}
    step, allowed = found.bound
    assert (np.interp(found.run.step, step, allowed) > found.run.loss).all()
    assert allowed[0] == 20**2 * 2 / 0.0125


@pytest.mark.parametrize(
    ("one", "names"),
    [
        (ONE, set()),
        (Descent(20, 1, 2, 0.0125, 100), {"q"}),
        (Descent(20, 5, 2, 0.0125, 100), {"q"}),
        (Descent(20, 4, 2, 0.0126, 100), {"eta"}),
        (Descent(20, 19, 9, 1.0, 100), {"q", "eta"}),
    ],
)
def test_a_broken_hypothesis_is_named_where_it_breaks(one: Descent, names: set[str]) -> None:
    assert set(one.broken()) == names


@given(T=st.integers(3, 1000), q=st.integers(1, 999), d=st.integers(1, 64), eta=st.floats(1e-5, 1.0))
@settings(max_examples=50)
def test_no_choice_of_the_page_breaks_the_dynamics(T: int, q: int, d: int, eta: float) -> None:
    one = Descent(T, q, d, eta, 1000)
    if q >= T:
        with pytest.raises(SeparatrixError, match="less than T"):
            descended(one)
        return
    found = descended(one)
    assert all(np.isfinite(line).all() for line in (found.run.alpha, found.run.C, found.run.loss))
    assert all(len(row) == 1 for _, row in learn_view.summary([found]))


def test_two_settings_are_drawn_in_one_figure() -> None:
    other = Descent(T=40, q=2, d=2, eta=0.0125, steps=50_000)
    drawn = learn_figures.dynamics([descended(ONE), descended(other)])
    names = [trace.name for trace in drawn.figure.data]
    assert {"A: recursion", "B: recursion", "A: bound of Theorem 3.1", "B: bound of Theorem 3.1"} <= set(names)
    assert set(drawn.columns["setting"]) == {"A", "B"}
    assert drawn.text.count("the loss falls") == 2
    losses = [one for one, kind, who in zip(*(drawn.columns[name] for name in ("loss", "what", "setting")), strict=True)
              if (kind, who) == ("recursion", "B")]  # fmt: skip
    assert losses == descended(other).run.loss.tolist()


def test_the_loss_along_a_parameter_is_the_laws_and_below_the_bound() -> None:
    one, other = dataclasses.replace(ONE, steps=10**6), dataclasses.replace(ONE, T=60, steps=10**7)
    drawn = sweep.along([one, other], "T")
    names = {trace.name for trace in drawn.figure.data}
    assert names == {f"{letter}: {what}" for letter in "AB" for what in ("loss by the law", "bound of Theorem 3.1")} | {
        "A is here", "B is here"
    }  # fmt: skip
    assert drawn.text.startswith("The loss along T: A: from "), "two settings of different steps"
    rows = list(zip(*drawn.columns.values(), strict=True))
    at = {(who, T): (loss, bound) for who, T, loss, bound in rows}
    assert at["A", 1000][0] == slow_curve_after(10**6, 1000, 2, 2, 0.0125).loss
    assert all(loss is None or loss < bound for loss, bound in at.values())
    # At numbers of steps that the recursion can compute, the law is close to it.
    T = sorted({T for _, T in at})[20]
    few = dataclasses.replace(ONE, T=T, steps=LONGEST)
    assert sweep.loss_by_law(few) == pytest.approx(descended(few).last.loss[0], rel=0.1)


def test_a_map_of_the_loss_is_blank_where_there_is_no_law() -> None:
    one = dataclasses.replace(ONE, steps=10**4)
    drawn = sweep.plane(one, "T", "q")
    assert drawn.text.startswith("The loss after 10,000 steps over T and q: from ")
    heat, star = drawn.figure.data
    assert (list(star.x), list(star.y)) == ([20.0], [2.0])
    for q, losses, powers in zip(heat.y, heat.customdata, heat.z, strict=True):
        for T, loss, power in zip(heat.x, losses, powers, strict=True):
            has_law = q < T <= 0.0125 * 10**4
            assert (loss is not None) == has_law
            assert power == (math.log10(loss) if has_law else None)
    assert drawn.columns["loss"] == [loss for row in heat.customdata for loss in row]
    nowhere = sweep.plane(dataclasses.replace(one, steps=10), "q", "d")
    assert "the law does not apply" in nowhere.text


@given(
    one=st.builds(
        Descent,
        st.integers(3, 1000),
        st.integers(1, 2),
        st.integers(1, 64),
        st.floats(1e-5, 1.0),
        st.integers(10, 10**9),
    ),
    along=st.sampled_from(list(sweep.SYMBOLS)),
    across=st.sampled_from(list(sweep.SYMBOLS)),
)
@settings(max_examples=20, deadline=None)
def test_no_choice_of_the_page_breaks_the_map(one: Descent, along: str, across: str) -> None:
    drawn = sweep.plane(one, along, across) if along != across else sweep.along([one], along)
    assert all(loss is None or 0 < loss <= one.d * 64 for loss in drawn.columns["loss"])
    assert all(name in drawn.text for name in (sweep.SYMBOLS[along], "nothing is drawn elsewhere"))


def test_the_copied_code_runs() -> None:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(learn_view.python([ONE]), {})
    run = descended(ONE).run
    assert [float(one) for one in out.getvalue().split()] == [run.loss[-1], run.alpha[-1], run.C[-1]]
    words = shlex.split(learn_view.command([ONE, ONE]))
    assert words[:2] == ["python", "-c"]
    again = io.StringIO()
    with contextlib.redirect_stdout(again):
        exec(words[2], {})
    assert [float(one) for one in again.getvalue().split()] == [run.loss[-1]] * 2


@pytest.mark.parametrize("steps", [10**6, 10**9, 1000])
def test_the_copied_code_gives_the_shown_numbers(steps: int) -> None:
    one = dataclasses.replace(ONE, steps=steps)
    found = descended(one)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(learn_view.python([one]), {})
    last = found.last
    assert last.step[0] == steps, "the page shows another step than was asked for"
    assert [float(word) for word in out.getvalue().split()] == [last.loss[0], last.alpha[0], last.C[0]]
    assert f"after {steps:,} steps" in learn_figures.dynamics([found]).text


def test_the_view_over_http(tmp_path: Path) -> None:
    client = make_app(tmp_path / "none", pages={"learn": learn_tab}).server.test_client()
    seen = reader(client)
    found = seen.open("?tab=learn&T.2=60&q.2=30&eta.2=0.5")
    table = texts(found["learn-summary.children"])
    assert "Setting A" in table
    assert "Setting B" in table
    assert any("Theorem 3.1 requires 2 <= q < T/4 = 15" in texts(value) for value in found.values())
    assert any("eta <= 1/(20 d^2)" in texts(value) for value in found.values())
    assert "There are no runs yet" in texts(found["run-status.children"])
    assert {found[f"{one}-alert.children"] for one in ("learn", "learn-curve", "run", "act", "steps", "weights")} == {
        ""
    }
    for field in learn_tab.FIELDS:
        for bad in bad_values(field)[-1:] if field.scale is not None else ():
            found = seen.changed(**{field.name: bad})
            assert any(f"{field.name}: expected" in texts(value) for value in found.values())
            if field in learn_tab.DYNAMICS:
                assert "A value is not valid" in found['{"kind":"python","of":"learn"}.children']
                assert "earlier settings" in found['{"kind":"caption","of":"dynamics"}.children']
    found = seen.changed(q="20")
    assert any("q: expected less than T = 20, got 20." in texts(value) for value in found.values())
    found = seen.changed(run_T="64", run_d_e="8")
    assert any("threshold: expected at least" in texts(value) for value in found.values())
    assert not (tmp_path / "none").exists()


def test_an_unknown_run_in_the_address_is_reported(tmp_path: Path) -> None:
    client = make_app(tmp_path, pages={"learn": learn_tab}).server.test_client()
    for name in ("run-9999", "../../etc/passwd", "cell-x", "seed-0/../.."):
        found = reader(client).open(f"?tab=learn&run={name}")
        assert f"there is no run '{name}' here" in texts(found["panel.children"])


def test_a_run_name_that_is_not_text_is_reported(tmp_path: Path) -> None:
    seen = reader(make_app(tmp_path).server.test_client())
    seen.open("?tab=learn")
    found = seen.changed(run=["run-0001"])
    for alert in ("run", "weights", "steps"):
        assert found[f"{alert}-alert.children"] == "run: expected a value, got list."


def test_an_unreadable_store_is_reported_and_the_rest_works(tmp_path: Path) -> None:
    (tmp_path / "store.sqlite").write_bytes(b"no database" * 100)
    client = make_app(tmp_path, pages={"learn": learn_tab}).server.test_client()
    found = reader(client).open("?tab=learn")
    assert "store.sqlite" in texts(found["panel.children"])
    assert "loss at the end" in texts(found["learn-summary.children"])
