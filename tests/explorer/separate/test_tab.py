"""The tab Separate: its numbers are the library's, its rows those of the definition, its code runs."""

from __future__ import annotations

import ast
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from separatrix.errors import ArgumentError
from separatrix.explorer.app import make_app
from separatrix.explorer.separate import code as separate_code
from separatrix.explorer.separate import fields as separate_fields
from separatrix.explorer.separate import figures as separate_figures
from separatrix.explorer.separate import probabilities
from separatrix.explorer.separate import tab as separate_tab
from separatrix.explorer.separate.fields import FIELDS, MECHANISMS, mechanism_named
from separatrix.separation import CrossAttention, SelfAttention, outcome
from separatrix.separation.results import PARTS
from tests.explorer.reader import Reader, reader, texts

BY_NAME = {field.name: field for field in FIELDS}


def given_values(**changed: str) -> dict[str, Any]:
    """The fields' values where these texts are not the defaults."""
    return {name: field.read(changed.get(name, field.default)) for name, field in BY_NAME.items()}


@pytest.fixture(scope="module")
def visitor(tmp_path_factory: pytest.TempPathFactory) -> Reader:
    app = make_app(tmp_path_factory.mktemp("results"), pages={"separate": separate_tab})
    return reader(app.server.test_client())


def test_the_numbers_are_the_librarys() -> None:
    setting = SelfAttention(200, 12, 15, a0="0.01", a1="1.2", b="0.2", c="0.8", weights="identity")
    view = probabilities.look(given_values(weights="identity", n="200", d="12"))
    assert view.probabilities == setting.success_probability()
    assert [p for _, p, _ in view.parts()] == [getattr(setting.success_probability(), part) for part in PARTS]
    cross = CrossAttention(10**100, 12, 9, a0="0.01", a1="3", strict=False)
    view = probabilities.look(given_values(weights="cross", n="10^100", d="12", m="9", a1="3"))
    assert view.probabilities == cross.success_probability()
    assert view.log10_failures == cross.log10_failure()
    assert view.broken == cross.broken_hypotheses()


@pytest.mark.parametrize("mechanism", [name for name in MECHANISMS if name != "softmax"])
def test_another_mechanism_takes_the_place_of_softmax(mechanism: str) -> None:
    values = given_values(mechanism=mechanism, n="36", d="8", weights="identity")
    view = probabilities.look(values)
    found = outcome(probabilities.make(values), mechanism_named(mechanism))
    assert (view.probabilities.exp_fires_on_d1, view.probabilities.exp_silent_on_d0) == (
        found.fires_on_d1,
        found.silent_on_d0,
    )
    assert view.probabilities.success == found.success
    exact = probabilities.make(values).success_probability()
    assert view.probabilities.lin_silent_on_d1 == exact.lin_silent_on_d1


def test_hypotheses_are_named_where_they_break() -> None:
    view = probabilities.look(given_values(weights="identity", n="100", d="9", a0="0.3", a1="0.5"))
    said = probabilities.notes(view)
    assert set(said) == {"n", "d", "a0", "a1", "b", "c"}
    assert said["n"] == ["Definition D.1 requires n = (d - 2) t. n = 98 satisfies this."]
    assert said["a1"] == ["Definition D.1 requires a1 in [0.7, inf).", "Theorem E.4 requires a1 in [1, inf)."]
    assert probabilities.notes(probabilities.look(given_values())) == {}
    kept = probabilities.look({**given_values(n="98", d="9")})
    assert "n" not in probabilities.notes(kept)
    huge = probabilities.notes(probabilities.look(given_values(n="10^100", d="9")))
    assert huge["n"] == ["Definition D.1 requires n = (d - 2) t. Any multiple of 7 satisfies this."]


@pytest.mark.parametrize("mechanism", list(MECHANISMS))
def test_a_width_that_costs_too_much_is_refused(mechanism: str) -> None:
    most = separate_fields.LARGEST_D.get(mechanism, separate_fields.ENUMERATED_D)
    if most < 102:
        with pytest.raises(ArgumentError, match=rf"d: expected at most {most} for .*, got {most + 1}"):
            probabilities.look(given_values(mechanism=mechanism, d=str(most + 1)))


numbers = {
    "n": st.one_of(st.integers(2, 300), st.integers(2, 10**100)),
    "d": st.integers(3, 102),
    "m": st.integers(1, 10**6),
    **{name: st.decimals(0, 5, places=4) for name in ("a0", "a1", "b")},
    "c": st.decimals(Decimal("0.01"), 5, places=4),
}


@settings(max_examples=60)
@given(
    st.sampled_from(["ones", "identity", "cross"]),
    st.fixed_dictionaries(numbers),
    st.sampled_from(list(separate_figures.SYMBOLS)),
    st.sampled_from(["special", "other"]),
)
def test_every_setting_in_bounds_is_shown(weights: str, chosen: dict[str, Any], axis: str, query: Any) -> None:
    values = {**chosen, "weights": weights, "mechanism": "softmax"}
    for name, value in chosen.items():
        assert BY_NAME[name].read(str(value)) == value
    view = probabilities.look(values)
    for _, p, words in view.parts():
        assert 0 <= p <= 1
        assert words
    for drawing in (separate_figures.along([values], axis), separate_figures.rows(values, query)):
        assert len({len(column) for column in drawing.columns.values()}) == 1
        assert "nan" not in drawing.csv()


def test_the_curve_passes_through_here_and_is_close_where_it_is_steep() -> None:
    values = given_values()
    drawn = separate_figures.along([values], "a1")
    columns = drawn.columns
    here = columns["a1"].index("1.2")
    assert columns["success"][here] == probabilities.look(values).probabilities.success
    assert list(map(Decimal, columns["a1"])) == sorted(map(Decimal, columns["a1"]))
    steps = np.abs(np.diff(columns["success"]))
    grid = separate_figures.grid(values, "a1")
    coarse = [probabilities.make({**values, "a1": a}).success_probability().success for a in grid]
    assert steps.max() < np.abs(np.diff(coarse)).max() / 2
    [shade] = drawn.figure.layout.shapes
    assert shade.x0 == pytest.approx(0.7, abs=0.05)  # Definition D.1 begins at 0.7
    both = separate_figures.along([values, given_values(weights="cross")], "n")
    assert both.columns["setting"] == sorted(both.columns["setting"])
    assert {trace.name for trace in both.figure.data} == {"success, A", "A is here", "success, B", "B is here"}
    assert [both.figure.data[i].line.dash for i in (0, 2)] == ["solid", "dash"]  # both are seen where they coincide


CASES = [
    {},
    {"weights": "identity", "n": "2e7", "d": "12", "a1": "0.5"},
    {"weights": "cross", "n": "10^100", "d": "11", "m": "9", "a1": "3"},
    {"mechanism": "softmax-0.5", "d": "7", "n": "123"},
    {"mechanism": "order3", "d": "5", "n": "6"},
]


def test_the_code_to_take_away_runs_and_says_the_same(forked) -> None:
    cases = [given_values(**case) for case in CASES]
    done = forked("\nprint('then')\n".join(separate_code.python(values) for values in cases))
    assert (done.returncode, done.stderr) == (0, "")
    for values, printed in zip(cases, done.stdout.split("then\n"), strict=True):
        view = probabilities.look(values)
        found, _, outside = printed.rstrip("\n").partition("\noutside:")
        [call] = ast.parse(found).body
        assert {keyword_.arg: ast.literal_eval(keyword_.value) for keyword_ in call.value.keywords}[
            "success"
        ] == view.probabilities.success
        assert outside.split("\n  ")[1:] == [str(one) for one in view.broken]


def test_the_page_shows_it(visitor: Reader) -> None:
    page = visitor.open("?tab=separate&weights=cross&n=200&d=11&m=9&a1=3")
    assert "success 0.9166" in texts(page["separate-numbers.children"])
    assert page["separate-alert.children"] == ""
    assert "CrossAttention(n=200, d=11" in page['{"kind":"python","of":"separate"}.children']
    assert len(page['{"kind":"graph","of":"attention-rows"}.figure']["data"]) == 2
    assert page['{"kind":"csv","of":"separation-along"}.children'].startswith("setting,a1,exp_fires_on_d1")
    assert not any("attention-rows-b" in name for name in page)


def test_weights_beyond_the_usual_exponents_are_shown(visitor: Reader) -> None:
    page = visitor.open("?tab=separate&mechanism=order3&n=10^100&d=3&m=1&a0=0.01&a1=5&b=5&c=5")
    assert page["separate-alert.children"] == ""
    shown = page['{"kind":"graph","of":"attention-rows"}.figure']
    assert len(shown["data"]) == 2


def test_two_settings_side_by_side(visitor: Reader) -> None:
    page = visitor.open("?tab=separate&n=200&d=22&d.2=42")
    assert visitor.fields()["n.2"] == "200"
    heads = texts(page["separate-numbers.children"])
    assert "Setting A" in heads
    assert "Setting B" in heads
    assert "d=22" in page['{"kind":"python","of":"separate"}.children']
    assert "d=42" in page['{"kind":"python","of":"separate-b"}.children']
    assert '{"kind":"graph","of":"attention-rows-b"}.figure' in page


def test_a_bad_value_is_told_below_its_control(visitor: Reader) -> None:
    visitor.open("?tab=separate&n=200&n.2=300")
    page = visitor.changed(**{"n.2": "many", "a0": None})
    assert "got 'many'" in texts(page['{"kind":"note","of":"n.2","tab":"separate"}.children'])
    assert "a0: expected a value, got nothing." in texts(page['{"kind":"note","of":"a0","tab":"separate"}.children'])
    assert "is not valid" in texts(page["separate-numbers.children"])
    assert '{"kind":"graph","of":"separation-along"}.figure' not in page
    assert "earlier settings" in page['{"kind":"caption","of":"separation-along"}.children']
    assert "is not valid" in page['{"kind":"python","of":"separate-b"}.children']
    page = visitor.changed(along="z")
    assert page["separate-alert.children"].startswith("along: expected 'n', 'd', 'm'")
