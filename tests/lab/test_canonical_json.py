from __future__ import annotations

import json
import math
import subprocess
import sys
from hashlib import sha256
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from separatrix.errors import ArgumentError
from separatrix.lab import Cell, canonical_json, experiment, registry
from tests.lab.experiments import walk

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
names = st.text(max_size=5).filter(lambda name: not name.startswith("$"))
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3))


def exactly(value: Any) -> Any:
    """A form in which values are equal only if their types and all bits are equal."""
    match value:
        case float():
            return "float", value.hex()
        case list():
            return "list", [exactly(item) for item in value]
        case dict():
            return "dict", sorted((name, exactly(item)) for name, item in value.items())
    return type(value).__name__, value


@given(values)
def test_canonical_reads_back_the_same(value: Any) -> None:
    assert exactly(canonical_json.read(canonical_json.canonical(value))) == exactly(value)


@given(values, values)
def test_canonical_is_equal_only_for_the_same_values(one: Any, other: Any) -> None:
    assert (canonical_json.canonical(one) == canonical_json.canonical(other)) == (exactly(one) == exactly(other))


@given(st.dictionaries(names, scalars, max_size=6), st.randoms())
def test_canonical_does_not_know_the_order_of_keys(table: dict[str, Any], random: Any) -> None:
    shuffled = list(table.items())
    random.shuffle(shuffled)
    assert canonical_json.canonical(dict(shuffled)) == canonical_json.canonical(table)


@given(values)
def test_canonical_is_strict_json_in_ascii(value: Any) -> None:
    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    text = canonical_json.canonical(value)
    json.loads(text, parse_constant=refuse)
    assert text.isascii()


@pytest.mark.parametrize("value", [object(), {1: 2}, {"$float": "inf"}, b"bytes", {1, 2}, 1j, {"a": [0, {"b": len}]}])
def test_values_that_are_not_plain_are_refused(value: object) -> None:
    with pytest.raises(ArgumentError, match="value"):
        canonical_json.canonical(value)


def test_refusal_names_the_place() -> None:
    with pytest.raises(ArgumentError, match=r"parameters\.a\[1\]\.b: expected"):
        canonical_json.canonical({"a": [0, {"b": 1j}]}, "parameters")


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        (True, int),
        (1, bool),
        (1.0, int),
        ("1", int),
        (True, float),
        (math.nan, float),
        (2**53 + 1, float),
        (None, int),
        ("c", Literal["a", "b"]),
        (True, Literal[1, 2]),
        ([1, "2"], list[int]),
        (3, list[int]),
        ({"a": "b"}, dict[str, int]),
        ("x", int | None),
    ],
)
def test_a_value_of_another_type_is_refused(value: object, hint: Any) -> None:
    with pytest.raises(ArgumentError, match=r"^n"):
        canonical_json.fitted(value, hint, "n")


@pytest.mark.parametrize(
    ("value", "hint", "fit"),
    [
        (2, float, 2.0),
        (2, int | float, 2),
        (2, float | int, 2),
        (2.5, int | float, 2.5),
        (math.inf, float, math.inf),
        ("a", Literal["a", "b"], "a"),
        ((1, 2), list[float], [1.0, 2.0]),
        ({"a": [1]}, dict[str, list[int]], {"a": [1]}),
        (None, list[int] | None, None),
    ],
)
def test_a_value_that_fits(value: object, hint: Any, fit: object) -> None:
    assert exactly(canonical_json.fitted(value, hint, "n")) == exactly(fit)


def test_key_is_the_hash_of_the_canonical_form() -> None:
    by_hand = sha256(b'["tests.walk",1,5]{"drift":0.5,"pause":0.0,"steps":3}').hexdigest()
    assert walk.cell(seed=5, drift=0.5, steps=3).key == by_hand


def test_key_changes_with_each_of_the_four() -> None:
    cells = [Cell("a", 1, "{}", 0), Cell("b", 1, "{}", 0), Cell("a", 2, "{}", 0), Cell("a", 1, "[]", 0)]
    assert len({cell.key for cell in [*cells, Cell("a", 1, "{}", 1)]}) == 5


def test_key_is_the_same_in_another_process(run) -> None:
    code = "from separatrix.lab import Cell; print(Cell('tests.walk', 1, '{}', 3).key)"
    assert run(code).stdout.strip() == Cell("tests.walk", 1, "{}", 3).key


def test_defaults_are_part_of_the_cell() -> None:
    assert walk.cell(seed=0, steps=3) == walk.cell(seed=0, steps=3, drift=0)
    assert walk.cell(seed=0, steps=3).arguments == {"steps": 3, "drift": 0.0, "pause": 0.0}


@pytest.mark.parametrize("seed", [-1, 2**63, 1.0, True, None])
def test_bad_seed(seed: Any) -> None:
    with pytest.raises(ArgumentError, match="seed: expected an integer from 0"):
        walk.cell(seed=seed, steps=3)


def test_missing_unknown_and_wrong_parameters_are_named() -> None:
    with pytest.raises(ArgumentError, match="none for steps"):
        walk.cell(seed=0)
    with pytest.raises(ArgumentError, match="steps, drift, pause and no other, got 'stride'"):
        walk.cell(seed=0, steps=1, stride=2)
    with pytest.raises(ArgumentError, match="steps: expected an integer, got 'many'"):
        walk.cell(seed=0, steps="many")


def no_seed(n: int) -> dict[str, int]:
    return {"n": n}


def nameless(*n: int, seed: int) -> dict[str, int]:
    return {"n": len(n), "seed": seed}


def no_hint(n, seed: int) -> dict[str, int]:
    return {"n": n, "seed": seed}


def not_plain(n: complex, seed: int) -> dict[str, float]:
    return {"n": n.real, "seed": seed}


@pytest.mark.parametrize("function", [no_seed, nameless, no_hint, not_plain])
def test_a_bad_experiment_cannot_be_registered(function: Any) -> None:
    with pytest.raises(TypeError):
        experiment(version=1, name="tests.bad")(function)
    with pytest.raises(ArgumentError):
        registry.named("tests.bad")


@pytest.mark.parametrize("version", [0, "1", 1.0, True])
def test_a_version_is_a_positive_integer(version: Any) -> None:
    with pytest.raises(TypeError, match="version"):
        experiment(version=version, name="tests.bad")(walk.function)


def test_two_functions_cannot_share_a_name() -> None:
    def impostor(n: int, seed: int) -> dict[str, int]:
        return {"n": n, "seed": seed}

    with pytest.raises(TypeError, match=r"two experiments are called tests\.walk"):
        experiment(version=1, name="tests.walk")(impostor)


def test_unknown_experiment_names_its_neighbours() -> None:
    with pytest.raises(ArgumentError, match=r"nearest: tests\.walk"):
        registry.named("tests.wolk")


def test_the_commands_import_neither_torch_nor_numpy() -> None:
    code = "import sys, tests.lab.app; print({'torch', 'numpy', 'dask', 'rich.progress'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
