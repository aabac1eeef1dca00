"""Which settings are accepted, the messages of refused ones, the data sets, the sweeps and the boundary."""

from __future__ import annotations

import dataclasses
import math
from decimal import Decimal, localcontext
from fractions import Fraction

import pytest
import torch

from separatrix import separation
from separatrix.errors import ArgumentError
from separatrix.separation import (
    HYPOTHESES,
    PANELS,
    CrossAttention,
    Probabilities,
    SelfAttention,
    SoftmaxRegression,
    boundary,
    log_width,
    panel_settings,
)
from separatrix.separation.boundary import _candidates
from separatrix.separation.decimals import exact
from separatrix.separation.hypotheses import Hypothesis, ParameterRange, broken

PAPER = {"a0": 0.01, "a1": 1.2, "b": 0.2, "c": 0.8}
GOOD = {
    "softmax regression": (SoftmaxRegression, {"n": 100, "m": 4, "tau": 0.25}),
    "self-attention, ones": (SelfAttention, {"n": 200, "d": 12, "m": 15, **PAPER, "weights": "ones"}),
    "self-attention, identity": (SelfAttention, {"n": 200, "d": 12, "m": 15, **PAPER, "weights": "identity"}),
    "self-attention, other": (SelfAttention, {"n": 200, "d": 12, "m": 15, **PAPER, "weights": torch.eye(12) / 2}),
    "cross-attention": (CrossAttention, {"n": 200, "d": 11, "m": 9, "a0": 0.01, "a1": 3}),
}


def just_outside(interval: ParameterRange) -> list[Fraction]:
    bit = Fraction(1, 1000)
    ends = []
    if interval.low is not None:
        ends.append(Fraction(interval.low) - (0 if interval.low_open else bit))
    if interval.high is not None:
        ends.append(Fraction(interval.high) + (0 if interval.high_open else bit))
    return ends


RANGES = [(kind, h) for kind in GOOD for h in HYPOTHESES[kind] if h.level == "definition" and h.interval]


@pytest.mark.parametrize(("kind", "hypothesis"), RANGES, ids=lambda x: str(x))
def test_values_outside_a_range_name_it(kind: str, hypothesis: Hypothesis) -> None:
    """The bad values are derived from the hypotheses."""
    model, good = GOOD[kind]
    (parameter,) = hypothesis.parameters
    assert hypothesis.interval is not None
    for value in just_outside(hypothesis.interval):
        with pytest.raises(ArgumentError) as error:
            model(**{**good, parameter: value})
        assert error.value.argument == parameter
        assert error.value.hypothesis == str(hypothesis)
        assert hypothesis in model(**{**good, parameter: value, "strict": False}).broken_hypotheses()


@pytest.mark.parametrize("kind", GOOD)
def test_good_values_keep_the_definition(kind: str) -> None:
    model, good = GOOD[kind]
    setting = model(**good)
    assert setting.kind == kind
    assert [h for h in setting.broken_hypotheses() if h.level == "definition"] == []


@pytest.mark.parametrize(
    ("model", "changed", "words"),
    [
        (SelfAttention, {"n": 201}, r"n, d: expected n = \(d - 2\) t, got n = 201, d = 12. This breaks Definition D.1"),
        (SelfAttention, {"c": 0.7}, r"b, c: expected b \+ c = 1, got b = 0.2, c = 0.7. This breaks Definition D.1"),
        (CrossAttention, {"d": 12}, r"n, d: expected n = \(d - 1\) t, got n = 200, d = 12. This breaks Definition F.1"),
    ],
)
def test_broken_relations_are_named(model: type, changed: dict[str, object], words: str) -> None:
    good = next(good for kind, (cls, good) in GOOD.items() if cls is model)
    with pytest.raises(ArgumentError, match=words):
        model(**{**good, **changed})
    assert model(**{**good, **changed, "strict": False}).success_probability()


def test_the_papers_identity_experiments_leave_its_theorem() -> None:
    """b = 0.2, c = 0.8 satisfy Definition D.1, but Theorem E.4 requires b^2 + c^2 = 1 and b < 0.2."""
    model, good = GOOD["self-attention, identity"]
    statements = [h.statement for h in model(**good).broken_hypotheses()]
    assert statements == ["b in (0, 0.2)", "b^2 + c^2 = 1"]


def test_no_parameters_satisfy_both_definition_and_theorem() -> None:
    """b + c = 1 and b^2 + c^2 = 1 imply b c = 0, but both are at least 0.1."""
    for k in range(10, 91):
        b = Fraction(k, 100)
        values = dict(
            zip(("n", "d", "a0", "a1", "b", "c"), map(Fraction, (200, 12, "0.01", "1.2", b, 1 - b)), strict=True)
        )
        assert "b^2 + c^2 = 1" in [h.statement for h in broken("self-attention, identity", values)]


@pytest.mark.parametrize(
    ("kind", "changed", "words"),
    [
        ("cross-attention", {"n": 1}, "n: expected an integer >= 2, got 1"),
        ("cross-attention", {"n": 200.0}, r"n: expected an integer >= 2, got 200\.0"),
        ("cross-attention", {"d": 1}, "d: expected an integer >= 2, got 1"),
        ("cross-attention", {"a1": -0.5}, "a1: expected at least 0, got -0.5"),
        ("self-attention, ones", {"d": 2}, "d: expected an integer >= 3, got 2"),
        ("self-attention, ones", {"m": 0}, "m: expected an integer >= 1, got 0"),
        ("self-attention, ones", {"m": True}, "m: expected an integer >= 1, got True"),
        ("softmax regression", {"m": 0}, "m: expected an integer >= 1, got 0"),
        ("softmax regression", {"tau": "a quarter"}, "tau: expected a finite int, float, str, Decimal or Fraction"),
        ("self-attention, ones", {"a1": math.inf}, "a1: expected a finite int, float"),
        ("self-attention, ones", {"b": None}, "b: expected a finite int, float"),
        ("self-attention, ones", {"weights": "one"}, 'weights: expected "identity", "ones" or a d x d matrix'),
        (
            "self-attention, ones",
            {"weights": torch.eye(11)},
            r"weights: expected .* a 12 x 12 matrix, got 11 rows of \[11\]",
        ),
        ("self-attention, ones", {"weights": 3}, "weights: expected .* a 12 x 12 matrix, got 3"),
    ],
)
def test_values_that_are_never_accepted(kind: str, changed: dict[str, object], words: str) -> None:
    model, good = GOOD[kind]
    for strict in (True, False):
        with pytest.raises(ArgumentError, match=words):
            model(**{**good, **changed, "strict": strict})


def test_numbers_are_the_decimals_they_print() -> None:
    assert exact(0.1 + 0.2, "x") == Fraction("0.30000000000000004") != exact(0.3, "x")
    same = [SelfAttention(200, 12, 15, a0, 1.2, b, 0.8) for a0, b in ((0.01, 0.2), ("0.01", Decimal("0.2")))]
    assert same[0].success_probability() == same[1].success_probability()


@pytest.mark.parametrize(("n", "delta", "least", "m"), [
    (100, None, 1, 4), (1000, None, 1, 6), (200, "0.01", 1, 9), (200, "0.01", 15, 15), (1000, "0.01", 1, 11),
    (2, None, 1, 1),
])  # fmt: skip
def test_widths_are_rounded_down(n: int, delta: str | None, least: int, m: int) -> None:
    assert log_width(n, delta, least) == m
    assert m == max(math.floor(math.log(n / float(delta or 1))), least)


@pytest.mark.parametrize("constant", ["1.01", "1.5", "3.48", "7/3", 2])
@pytest.mark.parametrize("n", [2, 200, 10**40])
def test_a_width_has_the_constant_of_definition_3_7(n: int, constant: str | int) -> None:
    """Widths agree with logarithms of 60 digits, at n and at the least n whose width is larger by one."""
    with localcontext(prec=60):
        C = Decimal(Fraction(constant).numerator) / Fraction(constant).denominator
        m = math.floor(C * Decimal(n).ln())
        assert log_width(n, constant=constant) == max(m, 1)
        edge = math.ceil(((m + 1) / C).exp())
    assert [log_width(at, constant=constant) for at in (edge - 1, edge)] == [max(m, 1), m + 1]


@pytest.mark.parametrize("constant", [0, -1, "x"])
def test_a_width_needs_a_positive_constant(constant: object) -> None:
    with pytest.raises(ArgumentError, match="constant: expected"):
        log_width(200, constant=constant)  # type: ignore[arg-type]


def test_a_width_needs_a_sensible_delta() -> None:
    for delta in (0, -1, 300):
        with pytest.raises(ArgumentError, match="delta: expected 0 < delta <= n"):
            log_width(200, delta)


class TestDataSets:
    def test_self_attention_by_hand(self) -> None:
        setting = SelfAttention(8, 4, 1, a0=0.05, a1=1, b=0.25, c=0.75)
        L = math.sqrt(math.log(8))
        for which, a in ((0, 0.05), (1, 1.0)):
            data = setting.element(which, 5)
            rows = [[a * (j == 5), 0.25 * (j % 2 == 0), 0.25 * (j % 2 == 1), 0.75] for j in range(8)]
            torch.testing.assert_close(data.A1, L * torch.tensor(rows, dtype=torch.float64), rtol=1e-15, atol=0)
            assert data.A1 is data.A2 is data.A3
            assert data.special == data.special_query == 5

    def test_cross_attention_by_hand(self) -> None:
        data = CrossAttention(6, 4, 1, a0=0.05, a1=2).element(1, special=4, special_query=2)
        log = math.log(6)
        torch.testing.assert_close(data.A1, log * torch.tensor([[2.0 * (j == 2), 1, 1, 1] for j in range(6)]).double())
        rows = [[j == 4, j % 3 == 0, j % 3 == 1, j % 3 == 2] for j in range(6)]
        assert torch.equal(data.A2, torch.tensor(rows).double())
        assert data.A2 is data.A3

    def test_regression_keeps_its_ranges(self) -> None:
        d0, d1 = SoftmaxRegression(500, 1).sample(seed=3)
        Ax0, Ax1 = (data.A @ data.x / math.log(500) for data in (d0, d1))
        assert ((Ax0 >= 1) & (Ax0 <= 1.4)).all()
        assert Ax0.max() - Ax0.min() > 0.35
        assert Ax1[d1.special].item() == pytest.approx(4)
        other_rows = torch.cat([Ax1[: d1.special], Ax1[d1.special + 1 :]])
        assert ((other_rows >= 1) & (other_rows <= 1.4)).all()

    @pytest.mark.parametrize("kind", GOOD)
    def test_seeds_decide(self, kind: str) -> None:
        model, good = GOOD[kind]
        setting = model(**good)
        first, again, other = (setting.sample(seed)[1] for seed in (1, 1, 2))
        assert first.special == again.special != other.special

    def test_special_indices_are_independent(self) -> None:
        generator = torch.Generator().manual_seed(0)
        setting = CrossAttention(6, 3, 1, a0=0.05, a1=2)
        drawn = [setting.sample(generator) for _ in range(60)]
        assert len({(d0.special, d1.special, d0.special_query, d1.special_query) for d0, d1 in drawn}) > 50


class TestSweeps:
    def test_sizes_of_the_panels(self) -> None:
        sizes = {name: len(panel_settings(name)) for name in PANELS}
        self_attention = {"a": 81, "b": 6, "c": 80, "d": 81, "e": 80, "f": 81}
        assert sizes == {
            "3a": 191,
            "3b": 100,
            **{f"{figure}{panel}": size for figure in (4, 5) for panel, size in self_attention.items()},
            **{"7a": 81, "7b": 10, "7c": 80, "7d": 81, "7e": 90},
        }

    def test_axes(self) -> None:
        a1 = [setting.a1 for setting in panel_settings("4d")]
        assert a1[:3] + a1[-1:] == [Decimal("0.1"), Decimal("0.136"), Decimal("0.172"), Decimal("2.98")]
        c = [setting.c for setting in panel_settings("5f")]
        assert (c[0], c[-1], c[60]) == (Decimal("0.5"), Decimal("0.9"), Decimal("0.8"))
        assert [setting.m for setting in panel_settings("7c")] == list(range(1, 81))
        assert {setting.m for setting in panel_settings("7b")} == {9}
        assert {setting.m for setting in panel_settings("4a")} == {15}
        assert [setting.m for setting in panel_settings("3a")][:2] == [4, 4]

    def test_both_readings_of_the_cross_attention_width(self) -> None:
        printed, other = (panel_settings("7e", reading=reading) for reading in ("as printed", "d = 11"))
        assert {s.d for s in printed} == {12}
        assert {s.d for s in other} == {11}
        assert [h.statement for h in printed[0].broken_hypotheses()] == ["n = (d - 1) t"]
        assert other[0].broken_hypotheses() == ()

    def test_errors(self) -> None:
        with pytest.raises(ArgumentError, match="name: expected '3a', '3b', '4a'"):
            panel_settings("6a")
        with pytest.raises(ArgumentError, match="reading: expected"):
            panel_settings("7d", reading="d = 13")  # type: ignore[arg-type]


class TestBoundary:
    SETTING = SelfAttention(n=200, d=22, m=15, **PAPER)

    def test_the_smallest_width_by_scanning(self) -> None:
        for level in (0.3, 0.7, 0.76):
            edge = boundary(self.SETTING, "m", level)
            every = [dataclasses.replace(self.SETTING, m=m).success_probability().success for m in range(1, 60)]
            assert edge.value == next(m for m, p in enumerate(every, 1) if p >= level)
            assert edge.success >= level > edge.success_before
            assert edge.before == edge.value - 1

    def test_the_smallest_d_by_scanning(self) -> None:
        setting = SelfAttention(n=5040, d=12, m=15, **PAPER)
        edge = boundary(setting, "d", 0.9)
        widths = _candidates(setting, "d")
        assert all((5040 % (d - 2)) == 0 for d in widths)
        assert edge.value == next(
            d for d in widths if dataclasses.replace(setting, d=d).success_probability().success >= 0.9
        )

    def test_a1(self) -> None:
        edge = boundary(self.SETTING, "a1", 0.5)
        assert edge.value - edge.before == Decimal("0.001")
        assert edge.looked_at < 150

    def test_never(self) -> None:
        edge = boundary(self.SETTING, "m", 0.99)
        assert edge.value is edge.before is None
        assert edge.success == pytest.approx(0.78, abs=0.02)
        assert 5 < edge.best < 30

    def test_already(self) -> None:
        edge = boundary(self.SETTING, "m", 0.5, candidates=[15, 20])
        assert (edge.value, edge.before, edge.success_before) == (15, None, None)

    def test_regression_uses_the_certified_end(self) -> None:
        setting = SoftmaxRegression(1000, 1)
        assert boundary(setting, "m", 0.9).value == 4

    @pytest.mark.parametrize(
        ("setting", "parameter", "level", "candidates", "words"),
        [
            (SETTING, "m", 1.0, None, "level: expected strictly between 0 and 1, got 1.0"),
            (SETTING, "n", 0.5, None, 'parameter: expected "d", "m" or "a1"'),
            (SoftmaxRegression(100, 4), "a1", 0.5, None, 'parameter: expected "d", "m" or "a1"'),
            (SETTING, "m", 0.5, [], "candidates: expected increasing values, at least one"),
            (SETTING, "m", 0.5, [3, 3], "candidates: expected increasing values, at least one"),
        ],
    )
    def test_errors(self, setting, parameter, level, candidates, words) -> None:
        with pytest.raises(ArgumentError, match=words):
            boundary(setting, parameter, level, candidates=candidates)


def test_public_names() -> None:
    assert separation.__all__ == sorted(
        separation.__all__, key=lambda name: (not name.isupper(), name[0].islower(), name)
    )
    assert all(hasattr(separation, name) for name in separation.__all__)
    assert tuple(field.name for field in dataclasses.fields(Probabilities)) == separation.results.PARTS
