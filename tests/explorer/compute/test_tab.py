"""The tab Compute without a browser: the plan, the time, the sample, the diagram, and refused input."""

from __future__ import annotations

import contextlib
import io
import math
import shlex
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import separatrix as sx
from separatrix import doctor
from separatrix.attention.near_linear.cost import exact_cost, polynomial_cost
from separatrix.commands.app import app as command_line
from separatrix.errors import SeparatrixError
from separatrix.explorer.app import make_app
from separatrix.explorer.compute import machine_speed, phase_diagram, plan_table, sample_certificate
from separatrix.explorer.compute import tab as compute_tab
from separatrix.explorer.compute.machine_speed import Speeds
from separatrix.explorer.compute.plan_table import PlanSettings, planned
from tests.explorer.bad_values import bad_values
from tests.explorer.reader import reader, texts

ONE = PlanSettings(10**6, 8, 0.9, 3, 1e-3)
SPEEDS = Speeds({"exact": 2.0, "polynomial": 3.0})


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use recorded speeds, so that the speed of the machine is not measured."""
    monkeypatch.setattr(machine_speed, "_found", dict(SPEEDS.factors))


@given(
    n=st.integers(2, 10**12),
    d=st.integers(1, 64),
    bound=st.floats(0.01, 2.6),
    order=st.integers(2, 4),
    tolerance=st.floats(1e-12, 1.0),
)
@settings(max_examples=25)
def test_the_plan_is_the_librarys_and_its_time_the_models(
    n: int, d: int, bound: float, order: int, tolerance: float
) -> None:
    sizes = PlanSettings(n, d, bound, order, tolerance)
    if plan_table.EASY_RADIUS < bound**order <= plan_table.HOPELESS_RADIUS:
        return
    plan = planned(sizes)
    assert plan.plan == sx.plan_shapes(n, d, bound, order, tolerance)
    if plan.plan.method in ("exact", "none"):
        assert plan.modelled == exact_cost(sizes.shape, False).time
    else:
        assert plan.plan.rank == math.comb(d + plan.plan.degree, plan.plan.degree)
        assert plan.modelled == polynomial_cost(sizes.shape, plan.plan.rank, True).time
    rows = plan_table.table([plan, planned(ONE)], SPEEDS)
    assert {len(row) for _, row in rows} == {2}


def test_slow_plans_are_refused_before_planning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_table, "plan_shapes", lambda *_: pytest.fail("it was planned"))
    with pytest.raises(SeparatrixError, match=r"B\^k = 36.*of a degree below (\d+) keeps") as refused:
        planned(PlanSettings(10**6, 8, 6.0, 2, 1e-3))
    assert "separatrix plan --n 1000000 --d 8 --bound 6.0" in str(refused.value)


def test_the_least_degree_of_a_refusal_is_at_most_the_planners() -> None:
    sizes = PlanSettings(10**6, 2, math.sqrt(20.5), 2, 1e-3)
    degree = int(str(plan_table.too_dear(sizes)).partition("of a degree below ")[2].split()[0])
    plan = sx.plan_shapes(sizes.n, sizes.d, sizes.bound, sizes.order, sizes.tolerance)
    assert plan.degree is not None
    assert 30 < degree <= plan.degree


def test_a_plan_that_the_library_would_not_run_says_so() -> None:
    sizes = (PlanSettings(10**12, 40, 1.3, 3, 1e-3), PlanSettings(10**9, 8, 9.0, 3, 1e-3))
    rows = dict(plan_table.table([planned(size) for size in sizes], SPEEDS))
    assert rows["method"] == ["none", "none"]
    assert rows["time here, on one core"] == ["-", "-"]
    assert all(why.startswith("Neither method is in reach") for why in rows["why"])


def test_the_time_is_the_models_times_the_machines() -> None:
    plan = planned(ONE)
    [(_, [told])] = [row for row in plan_table.table([plan], SPEEDS) if row[0].startswith("time")]
    assert told == plan_table.spelled_seconds(3e-9 * plan.modelled)


def test_the_machine_is_timed_once_for_all_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    times: list[float] = []

    def timed(*, seconds: float, clock: Callable[[], float]) -> list[doctor.Speed]:
        assert clock is time.thread_time, "the time in which other programs have the core would count"
        times.append(seconds)
        return [doctor.Speed("exact", "", 4.0, 2.0), doctor.Speed("polynomial", "", 9.0, 3.0)]

    monkeypatch.setattr(machine_speed, "_found", {})
    monkeypatch.setattr(doctor, "speeds", timed)
    threads = [threading.Thread(target=machine_speed.speeds) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert times == [machine_speed.SECONDS]
    assert machine_speed.speeds().seconds("polynomial", 1e9) == 3.0


@pytest.mark.parametrize(
    "sizes",
    [
        ONE,
        PlanSettings(10**6, 4, 1.2, 2, 1e-6),
        PlanSettings(50, 3, 0.5, 4, 1e-2),
        PlanSettings(10**4, 8, 9.0, 2, 1e-3),
        PlanSettings(2, 1, 0.1, 6, 1.0),
    ],
)
def test_the_certificate_of_a_sample_is_above_its_true_error(sizes: PlanSettings) -> None:
    sample = sample_certificate.sampled(sizes)
    assert 0 <= sample.error <= sample.total <= sizes.tolerance
    assert sample.method == planned(sizes).plan.method
    assert sample.n == min(sizes.n, sample_certificate.tokens(sizes))
    assert sample.n**sizes.order <= sample_certificate.SCORES


def test_an_expensive_sample_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample_certificate, "certified_attention", lambda *_, **__: pytest.fail("it was run"))
    with pytest.raises(SeparatrixError, match="No sample was run: neither method is in reach"):
        sample_certificate.sampled(PlanSettings(10**12, 64, 1.2, 3, 1e-8))
    with pytest.raises(SeparatrixError, match="No sample was run: below a tolerance of 1e-08"):
        sample_certificate.sampled(PlanSettings(10**6, 1, 1.2, 3, 1e-9))
    with pytest.raises(SeparatrixError, match=r"No sample was run: below a tolerance of 2e-06"):
        sample_certificate.sampled(PlanSettings(10**6, 1, math.sqrt(10), 2, 1e-6))


@pytest.mark.parametrize(
    ("bound", "n", "symbol", "at"),
    [(1.2, 2**20, "star", 20.0), (9.0, 2**20, "triangle-right", 20.0), (0.1, 8, "triangle-down", 4.0)],
)
def test_the_star_is_where_the_setting_is(bound: float, n: int, symbol: str, at: float) -> None:
    drawn = phase_diagram.phase([replace(ONE, n=n, bound=bound)])
    mark = drawn.figure.data[-1]
    assert (mark.marker.symbol, mark.y[0]) == (symbol, at)
    assert mark.x[0] == min(bound, phase_diagram.diagram(3, ONE.d, ONE.tolerance).bounds[-1])
    assert ("beyond the edge" in drawn.text) == (symbol != "star")
    assert (mark.mode, mark.showlegend) == ("markers", True)  # a text would cover the border on a phone


@pytest.mark.parametrize("d", [1, 8, 64])
@pytest.mark.parametrize("order", [2, 5])
@pytest.mark.parametrize("tolerance", [1e-2, 1e-6])
def test_the_diagram_is_that_of_the_plans(d: int, order: int, tolerance: float) -> None:
    """On both sides of the border the plan has the method of the diagram, which has the same d and tolerance."""
    panel = phase_diagram.diagram(order, d, tolerance)
    for at in range(6, len(panel.borders), 14):
        n, most = 2 ** phase_diagram.LENGTHS[at], panel.borders[at]
        for bound, near_linear in ((0.99 * most, True), (1.01 * most, False)):
            if most and bound**order < plan_table.EASY_RADIUS:
                plan = sx.plan_shapes(n, d, bound, order, tolerance)
                by_minimax = "minimax" in (plan.index_set or "")  # minimax may be enough where Chebyshev is not
                assert by_minimax or (plan.method == "polynomial") == near_linear, (n, bound)


def test_two_orders_have_two_panels() -> None:
    drawn = phase_diagram.phase([ONE, replace(ONE, order=2)])
    assert [trace.name for trace in drawn.figure.data[-2:]] == ["Setting A", "Setting B"]
    assert [trace.xaxis for trace in drawn.figure.data[-2:]] == ["x", "x2"]
    assert [trace.mode for trace in drawn.figure.data[-2:]] == ["markers+text"] * 2
    assert set(drawn.columns["order"]) == {2, 3}


def test_the_sample_is_removed_when_a_setting_changes(quick, tmp_path: Path) -> None:
    client = make_app(tmp_path, pages={"compute": compute_tab}).server.test_client()
    seen = reader(client)
    assert "certified: total" in texts(seen.open("?tab=compute")["sample-found.children"])
    field = '{"kind":"field","of":"d","slides":"yes","tab":"compute"}.value'
    page = seen.changed(d="9", changed=field)
    assert texts(page["sample-found.children"]) == "The settings have changed: run the sample again."
    assert "certified: total" in texts(seen.changed(d="9", changed="sample-run.n_clicks")["sample-found.children"])


def test_the_copied_code_runs() -> None:
    other = replace(ONE, n=1000, tolerance=1e-05)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(plan_table.python([ONE, other]), {})
    assert out.getvalue().splitlines() == [str(planned(ONE).plan), str(planned(other).plan)]
    done = CliRunner().invoke(command_line, shlex.split(plan_table.command(ONE))[1:])
    assert done.exit_code == 0
    assert "495" in done.output


def test_the_view_over_http(quick, tmp_path: Path) -> None:
    client = make_app(tmp_path, pages={"compute": compute_tab}).server.test_client()
    seen = reader(client)
    page = seen.open("?tab=compute&n.2=1000&k.2=2")
    table = texts(page["compute-plan.children"])
    for word in ("Setting A", "Setting B", "polynomial", "495", "border"):
        assert word in table
    assert {page[f"{name}-alert.children"] for name in ("compute", "phase", "sample", "file")} == {""}
    for field in compute_tab.FIELDS:
        for bad in bad_values(field)[-2:]:
            page = seen.changed(**{field.name: bad})
            assert "A value is not valid" in texts(page["compute-plan.children"])
            assert "A value is not valid" in page["sample-alert.children"]
            assert "A value is not valid" in page['{"kind":"python","of":"compute"}.children']
            assert "earlier settings" in page['{"kind":"caption","of":"phase"}.children']
            assert any(f"{field.name}: expected" in texts(value) for value in page.values())
    page = seen.changed(B="6", k="2")
    assert "it is not done here" in texts(page["compute-plan.children"])
    assert "it is not done here" in page["sample-alert.children"]
