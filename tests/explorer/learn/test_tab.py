"""The tab Learn without a browser: the dynamics, their law and their bound, the figures, and what is refused."""

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
    descent = Descent(T=60, q=3, d=5, eta=0.002, steps=10**8)
    law = descended(descent).law
    assert np.allclose(law.loss, population_loss(law.alpha, law.C, 60, 3, 5), rtol=1e-6, atol=0)
    for at in (len(law.step) // 3, -1):
        assert law.step[at] == pytest.approx(time_law(60, 3, 5, 0.002, float(law.loss[at])), rel=1e-3)
    assert law.step[-1] <= descent.steps


def test_the_law_goes_on_where_the_recursion_ends() -> None:
    descent = Descent(T=20, q=2, d=2, eta=0.0125, steps=10**7)
    result = descended(descent)
    assert result.run.step[-1] == LONGEST
    assert result.last.step[0] == result.law.step[-1] > LONGEST
    meets = float(np.exp(np.interp(np.log(LONGEST), np.log(result.law.step), np.log(result.law.loss))))
    assert meets == pytest.approx(float(result.run.loss[-1]), rel=0.03)


def test_the_bound_is_above_the_loss_where_the_theorem_holds() -> None:
    result = descended(ONE)
    assert ONE.broken() == {}
    step, allowed = result.bound
    assert (np.interp(result.run.step, step, allowed) > result.run.loss).all()
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
    descent = Descent(T, q, d, eta, 1000)
    if q >= T:
        with pytest.raises(SeparatrixError, match="less than T"):
            descended(descent)
        return
    result = descended(descent)
    assert all(np.isfinite(line).all() for line in (result.run.alpha, result.run.C, result.run.loss))
    assert all(len(row) == 1 for _, row in learn_view.summary([result]))


def test_two_settings_are_drawn_in_one_figure() -> None:
    other = Descent(T=40, q=2, d=2, eta=0.0125, steps=50_000)
    drawn = learn_figures.dynamics([descended(ONE), descended(other)])
    names = [trace.name for trace in drawn.figure.data]
    assert {"A: recursion", "B: recursion", "A: bound of Theorem 3.1", "B: bound of Theorem 3.1"} <= set(names)
    assert set(drawn.columns["setting"]) == {"A", "B"}
    assert drawn.text.count("the loss falls") == 2
    rows = zip(*(drawn.columns[name] for name in ("loss", "what", "setting")), strict=True)
    losses = [loss for loss, kind, who in rows if (kind, who) == ("recursion", "B")]
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
    # Where the recursion has run as far, the law is near it.
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


def test_what_is_copied_runs() -> None:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(learn_view.python([ONE]), {})
    run = descended(ONE).run
    assert [float(word) for word in out.getvalue().split()] == [run.loss[-1], run.alpha[-1], run.C[-1]]
    words = shlex.split(learn_view.command([ONE, ONE]))
    assert words[:2] == ["python", "-c"]
    again = io.StringIO()
    with contextlib.redirect_stdout(again):
        exec(words[2], {})
    assert [float(word) for word in again.getvalue().split()] == [run.loss[-1]] * 2


@pytest.mark.parametrize("steps", [10**6, 10**9, 1000])
def test_what_is_copied_gives_the_numbers_that_are_shown(steps: int) -> None:
    one = dataclasses.replace(ONE, steps=steps)
    result = descended(one)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(learn_view.python([one]), {})
    last = result.last
    assert last.step[0] == steps, "the page shows another step than was asked for"
    assert [float(word) for word in out.getvalue().split()] == [last.loss[0], last.alpha[0], last.C[0]]
    assert f"after {steps:,} steps" in learn_figures.dynamics([result]).text


def test_the_view_over_http(tmp_path: Path) -> None:
    client = make_app(tmp_path / "none", pages={"learn": learn_tab}).server.test_client()
    seen = reader(client)
    page = seen.open("?tab=learn&T.2=60&q.2=30&eta.2=0.5")
    table = texts(page["learn-summary.children"])
    assert "Setting A" in table
    assert "Setting B" in table
    assert any("Theorem 3.1 asks for 2 <= q < T/4 = 15" in texts(value) for value in page.values())
    assert any("eta <= 1/(20 d^2)" in texts(value) for value in page.values())
    assert "There are no runs yet" in texts(page["run-status.children"])
    assert {page[f"{name}-alert.children"] for name in ("learn", "learn-curve", "run", "act", "steps", "weights")} == {
        ""
    }
    for field in learn_tab.FIELDS:
        for bad in bad_values(field)[-1:] if field.scale is not None else ():
            page = seen.changed(**{field.name: bad})
            assert any(f"{field.name}: expected" in texts(value) for value in page.values())
            if field in learn_tab.DYNAMICS:
                assert "A value is not valid" in page['{"kind":"python","of":"learn"}.children']
                assert "earlier settings" in page['{"kind":"caption","of":"dynamics"}.children']
    page = seen.changed(q="20")
    assert any("q: expected less than T = 20, got 20." in texts(value) for value in page.values())
    page = seen.changed(run_T="64", run_d_e="8")
    assert any("threshold: expected at least" in texts(value) for value in page.values())
    assert not (tmp_path / "none").exists()


def test_an_unknown_run_in_the_address_is_said(tmp_path: Path) -> None:
    client = make_app(tmp_path, pages={"learn": learn_tab}).server.test_client()
    for name in ("run-9999", "../../etc/passwd", "cell-x", "seed-0/../.."):
        page = reader(client).open(f"?tab=learn&run={name}")
        assert f"there is no run '{name}' here" in texts(page["panel.children"])


def test_a_run_that_is_no_text_is_said(tmp_path: Path) -> None:
    seen = reader(make_app(tmp_path).server.test_client())
    seen.open("?tab=learn")
    page = seen.changed(run=["run-0001"])
    for alert in ("run", "weights", "steps"):
        assert page[f"{alert}-alert.children"] == "run: expected a value, got list."


def test_a_store_that_cannot_be_read_is_said_and_the_rest_works(tmp_path: Path) -> None:
    (tmp_path / "store.sqlite").write_bytes(b"no database" * 100)
    client = make_app(tmp_path, pages={"learn": learn_tab}).server.test_client()
    page = reader(client).open("?tab=learn")
    assert "store.sqlite" in texts(page["panel.children"])
    assert "loss at the end" in texts(page["learn-summary.children"])
