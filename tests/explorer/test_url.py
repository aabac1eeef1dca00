"""Fields and addresses: valid input, and the handling of invalid input."""

from __future__ import annotations

from decimal import Decimal
from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from separatrix.errors import ArgumentError
from separatrix.explorer import address
from separatrix.explorer.context import ADDRESS_CHARACTERS
from separatrix.explorer.fields import Field, decimal, whole
from separatrix.explorer.tabs import tabs
from separatrix.written_numbers import spell
from tests.explorer.bad_values import bad_values

EVERY = [pytest.param(tab, field, id=f"{name}-{field.name}") for name, tab in tabs().items() for field in tab.FIELDS]
N = whole("n", "n", "", "", low=2, high=10**100, default="200", log=True)


@pytest.mark.parametrize(("tab", "field"), EVERY)
def test_every_field_takes_its_default_and_its_bounds(tab, field: Field) -> None:
    field.read(field.default)
    assert field.help.strip()
    for value, _ in field.choices:
        assert field.read(value) == value
    if field.scale is not None:
        assert field.scale.low < field.scale.high
        assert not field.scale.log or field.scale.low > 0
        for end in (field.scale.low, field.scale.high):
            if abs(end) < 1e15:
                assert float(field.read(f"{end:.12f}".rstrip("0").rstrip("."))) == end


@pytest.mark.parametrize(("tab", "field"), EVERY)
def test_every_bad_value_is_reported_and_the_default_is_used(tab, field: Field) -> None:
    for bad in bad_values(field):
        with pytest.raises(ArgumentError):
            field.read(bad)
        fields_read = address.read({field.name: bad}, tab.FIELDS, compares=tab.COMPARES)
        assert fields_read.state[field.name] == field.default
        [said] = fields_read.notes
        assert said.startswith(f"{field.name}: expected")
        assert said.endswith("is used instead.")
        if tab.COMPARES and not field.shared:
            second = field.name + address.SECOND
            fields_read = address.read({second: bad}, tab.FIELDS, compares=True)
            assert fields_read.state[second] == field.default
            assert fields_read.notes[0].startswith(f"{second}: expected")


@pytest.mark.parametrize(("text", "value"), [("1,000", 1000), ("12,345,678", 12345678), ("1_000", None)])
def test_thousands_may_be_separated_by_commas(text: str, value: int | None) -> None:
    if value is None:
        with pytest.raises(ArgumentError):
            N.read(text)
    else:
        assert N.read(text) == value


@pytest.mark.parametrize("text", ["1,00", "1,0000", ",100", "1,000,", "1,5", "0,001"])
def test_other_commas_are_refused(text: str) -> None:
    with pytest.raises(ArgumentError):
        N.read(text)


@given(st.text(max_size=200))
def test_a_text_is_a_number_in_range_or_an_error(text: str) -> None:
    for field in (N, decimal("b", "b", "", "", low="-1", high="1", default="0", places=4)):
        try:
            value = field.read(text)
        except ArgumentError:
            continue
        assert field.scale is not None
        assert field.scale.low <= value <= field.scale.high


@given(st.decimals(min_value=-1, max_value=1, places=4))
def test_decimals_are_kept_exactly(value: Decimal) -> None:
    assert decimal("b", "b", "", "", low="-1", high="1", default="0", places=4).read(str(value)) == value


@given(st.integers(2, 10**100))
def test_whole_numbers_are_kept_exactly(value: int) -> None:
    assert N.read(str(value)) == value
    assert N.read(spell(value)) == value


@given(st.text(max_size=300))
def test_no_query_breaks_anything(text: str) -> None:
    parameters, _ = address.query(f"?{text}")
    for tab in tabs().values():
        fields_read = address.read(parameters, tab.FIELDS, compares=tab.COMPARES)
        for field in tab.FIELDS:
            field.read(fields_read.state[field.name])


@given(
    st.dictionaries(
        st.sampled_from(["n", "d", "n.2", "d.2"]), st.sampled_from(["3", "7", "22", "1e1", "nonsense", "&=;#%20"])
    )
)
def test_written_values_are_read_again(given_state: dict[str, str]) -> None:
    fields = (N, whole("d", "d", "", "", low=3, high=102, default="12"))
    fields_read = address.read(given_state, fields, compares=True)
    parameters, notes = address.query(urlencode({"tab": "separate", **fields_read.state}))
    assert notes == ()
    assert parameters["tab"] == "separate"
    again = address.read(parameters, fields, compares=True)
    assert (again.state, again.notes) == (fields_read.state, ())
    assert address.compares(fields_read.state) == any(name.endswith(".2") for name in given_state)


def test_a_long_address_is_not_read() -> None:
    parameters, [said] = address.query("?n=" + "1" * ADDRESS_CHARACTERS)
    assert parameters == {}
    assert "longer than 4096" in said


def test_the_first_setting_is_the_default_of_the_second() -> None:
    fields = (N, whole("d", "d", "", "", low=3, high=102, default="12"))
    state = address.read({"n": "500", "d.2": "22"}, fields, compares=True).state
    assert address.side(state, second=False) == {"n": "500", "d": "12"}
    assert address.side(state, second=True) == {"n": "500", "d": "22"}
