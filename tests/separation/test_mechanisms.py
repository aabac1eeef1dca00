"""Mechanisms on the paper's data: exact enumeration against the library's attention on all n tokens."""

from __future__ import annotations

import dataclasses
import itertools
from fractions import Fraction
from typing import Any, Literal

import numpy as np
import pytest
import torch

from separatrix.errors import ArgumentError
from separatrix.separation import CrossAttention, SelfAttention, SoftmaxRegression, wilson
from separatrix.separation.mechanisms import MECHANISMS, Mechanism, linear, order3, random_features, softmax
from separatrix.separation.outcomes import Outcome, outcome, simulate_outcome
from separatrix.separation.sign_vectors import fired_by_class, projected_by_class, sign_vectors

EVERY = [*(mechanism for mechanism in MECHANISMS if mechanism.symmetric), random_features(16, seed=3)]
NAMES = [mechanism.name for mechanism in EVERY]
SELF = {"a0": "0.05", "a1": "1.2", "b": "0.2", "c": "0.8"}
Setting = SelfAttention | CrossAttention

# No sum is equal to tau; n = 7 has classes of two sizes, n = 4 a class with j3 as its only row.
SETTINGS: list[Setting] = [
    SelfAttention(9, 5, 3, **SELF, weights="identity", tau="1.1373"),
    SelfAttention(7, 5, 4, **SELF, weights="ones", tau="1.2371", strict=False),
    SelfAttention(4, 6, 2, **SELF, weights="identity", tau="0.9171"),
    CrossAttention(8, 5, 3, a0="0.05", a1=3, tau="0.7313"),
    CrossAttention(7, 4, 3, a0="0.05", a1=2, tau="0.6131", strict=False),
    # Here random features fire on D1, and only `lin` on D0 prevents success.
    CrossAttention(8, 5, 3, a0="0.97", a1="0.02", tau="0.6719", strict=False),
]


def element(setting: Setting, which: Literal[0, 1], j3: int) -> Any:
    return setting.element(which, j3) if isinstance(setting, SelfAttention) else setting.element(which, j3, 1)


def literal(setting: Setting, mechanism: Mechanism, which: Literal[0, 1], j3: int) -> np.ndarray[Any, Any]:
    """The largest <c_{j0}, y> over all n rows, for every y, by the library's attention on all tokens."""
    data = element(setting, which, j3)
    c = mechanism.attend(data.A1 @ setting.weight_matrix(), data.A2, data.A3)
    return np.asarray((c.numpy() @ sign_vectors(setting.d)).max(0))


@pytest.mark.parametrize("mechanism", EVERY, ids=NAMES)
@pytest.mark.parametrize("setting", SETTINGS)
def test_projections_are_the_librarys(setting: Setting, mechanism: Mechanism) -> None:
    g = setting.d - (2 if isinstance(setting, SelfAttention) else 1)
    for which in (0, 1):
        projections = projected_by_class(setting, mechanism, which)
        for j3 in range(setting.n):
            np.testing.assert_allclose(
                projections[j3 % g], literal(setting, mechanism, which, j3), rtol=1e-9, atol=1e-9
            )


def brute_force(setting: Setting, mechanism: Mechanism) -> Outcome:
    """Enumerate all pairs of special indices and all sign vectors."""
    n, m, tau = setting.n, setting.m, setting.threshold
    used = {"it": mechanism, "lin": linear("identity")}
    fired = {
        (name, which, j): literal(setting, mechanisms, which, j) > tau
        for name, mechanisms in used.items()
        for which in (0, 1)
        for j in range(n)
    }
    for name, mechanisms in used.items():
        nearest = min(abs(literal(setting, mechanisms, which, 0) - tau).min() for which in (0, 1))
        assert nearest > 1e-9, f"{name} ties with tau"

    def silent(mask: Any) -> float:
        return float((1 - mask.mean()) ** m)

    fires = np.mean([1 - silent(fired["it", 1, j]) for j in range(n)])
    quiet = np.mean([silent(fired["it", 0, j]) for j in range(n)])
    separates, success = [], []
    for j1, j0 in itertools.product(range(n), repeat=2):
        good, bad = fired["it", 1, j1], fired["it", 0, j0]
        separates.append(silent(bad) - silent(good | bad))
        bad = bad | fired["lin", 1, j1] | fired["lin", 0, j0]
        success.append(silent(bad) - silent(good | bad))
    return Outcome(float(fires), float(quiet), float(np.mean(separates)), float(np.mean(success)))


@pytest.mark.parametrize("mechanism", EVERY, ids=NAMES)
@pytest.mark.parametrize("setting", SETTINGS)
def test_outcomes_are_those_of_brute_force(setting: Setting, mechanism: Mechanism) -> None:
    probabilities, expected = (
        dataclasses.astuple(result) for result in (outcome(setting, mechanism), brute_force(setting, mechanism))
    )
    assert probabilities == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    "setting",
    [
        SelfAttention(200, 12, 15, a0="0.01", a1="1.2", b="0.2", c="0.8", weights="identity"),
        SelfAttention(200, 12, 15, a0="0.01", a1="1.2", b="0.2", c="0.8", weights="ones"),
        SelfAttention(64, 10, 9, a0="0.3", a1="0.9", b="0.5", c="0.5", tau="1.5", strict=False),
        SelfAttention(10**100, 7, 15, a0="0.01", a1="1.2", b="0.2", c="0.8", weights="identity"),
        CrossAttention(200, 12, 9, a0="0.01", a1=3, strict=False),
        CrossAttention(10**30, 6, 9, a0="0.01", a1=3),
    ],
)
def test_softmax_is_the_papers_own_network(setting: Setting) -> None:
    """Compare with counts of signs, an independent method; sums are equal to tau in both."""
    probabilities, expected = outcome(setting, softmax()), setting.success_probability()
    assert probabilities.success == pytest.approx(expected.success, abs=1e-13)
    assert probabilities.fires_on_d1 == pytest.approx(expected.exp_fires_on_d1, abs=1e-13)
    assert probabilities.silent_on_d0 == pytest.approx(expected.exp_silent_on_d0, abs=1e-13)


@pytest.mark.parametrize(
    "mechanism", [*(softmax(beta) for beta in (1, "0.25", 4)), *map(linear, ("identity", "taylor2"))]
)
def test_equality_with_tau_does_not_fire(mechanism: Mechanism) -> None:
    """At a0 = 0 all scores are equal, and with c = (1/n, 1/5, ..., 1/5) the sum at y = (-1, 1, ..., 1) is 1 - 1/20."""
    y = 1  # the sign vector in which only the first sign is -1
    for tau, fires in ((Fraction(19, 20), False), (Fraction(19, 20) - Fraction(1, 10**40), True)):
        setting = CrossAttention(20, 6, 1, a0=0, a1=2, tau=tau, strict=False)
        assert [mask[y] for mask in fired_by_class(setting, mechanism, 0).values()] == [fires] * 5


@pytest.mark.parametrize("setting", [*SETTINGS, SelfAttention(200, 12, 15, **SELF)])
def test_relu_is_the_identity_and_the_identity_never_succeeds(setting: Setting) -> None:
    probabilities = outcome(setting, linear("identity"))
    assert outcome(setting, linear("relu")) == probabilities
    assert probabilities.success == 0


@pytest.mark.parametrize("mechanism", [mechanism for mechanism in EVERY if mechanism.symmetric], ids=[*NAMES[:-1]])
def test_classes_can_be_exchanged(mechanism: Mechanism) -> None:
    one_by_one = dataclasses.replace(mechanism, symmetric=False)
    for setting in SETTINGS[1], SETTINGS[3]:
        for which in (0, 1):
            quick, slow = (fired_by_class(setting, used, which) for used in (mechanism, one_by_one))
            assert quick.keys() == slow.keys()
            assert all((quick[k] == slow[k]).all() for k in quick)


@pytest.mark.parametrize("mechanism", EVERY, ids=NAMES)
def test_simulation_agrees_with_the_exact_probabilities(mechanism: Mechanism) -> None:
    """Each of the four estimates deviates by more than five standard deviations with probability below 6e-7."""
    setting = SelfAttention(20, 7, 6, a0="0.05", a1="1.2", b="0.2", c="0.8", tau="1.3717")
    exact, simulated = outcome(setting, mechanism), simulate_outcome(setting, mechanism, trials=400, seed=5)
    for field in dataclasses.fields(Outcome):
        estimate = getattr(simulated, field.name)
        interval = wilson(estimate.hits, estimate.trials, z=5.0)
        assert interval.low <= getattr(exact, field.name) <= interval.high, field.name


def test_softmax_regression_is_simulated_as_before() -> None:
    """The estimates of F_exp are consistent with the certified bounds, five standard deviations wide."""
    setting = SoftmaxRegression(200, 5)
    simulated, bounds = simulate_outcome(setting, softmax(), 600, seed=2), setting.success_probability()
    interval = wilson(simulated.success.hits, 600, z=5.0)
    assert interval.low <= bounds.high.success
    assert interval.high >= bounds.low.success
    # A sum of 1000 signs over 1000 is above 1/4 with probability below 1e-14.
    assert simulate_outcome(SoftmaxRegression(1000, 6), linear("elu"), 100, seed=2).fires_on_d1.hits == 0


def test_simulation_depends_on_its_seed_and_not_on_the_global_generator() -> None:
    setting, state = SETTINGS[0], torch.get_rng_state()
    first, again, other = (simulate_outcome(setting, softmax(), 50, seed) for seed in (1, 1, 2))
    assert first == again != other
    assert torch.equal(state, torch.get_rng_state())


@pytest.mark.parametrize(
    ("call", "names"),
    [
        (lambda: softmax(0), "beta"),
        (lambda: softmax("x"), "beta"),
        (lambda: linear("exp"), "feature_map"),
        (lambda: order3("thrice"), "values"),
        (lambda: random_features(0, 1), "num_features"),
        (lambda: random_features(4, -1), "seed"),
        (lambda: outcome(SelfAttention(30, 17, 1, **SELF), softmax()), "d"),
        (lambda: outcome(SelfAttention(4, 4, 1, **SELF, weights=torch.eye(4)), softmax()), "setting"),
        (lambda: outcome(SelfAttention(4, 4, 1, a0=0, a1=1, b=-1, c=2, strict=False), softmax()), "setting"),
        (lambda: simulate_outcome(SETTINGS[0], softmax(), 0, 1), "trials"),
        (lambda: simulate_outcome(SETTINGS[0], softmax(), 1, -1), "seed"),
    ],
)
def test_errors_name_the_argument(call: Any, names: str) -> None:
    with pytest.raises(ArgumentError) as error:
        call()
    assert error.value.argument == names
