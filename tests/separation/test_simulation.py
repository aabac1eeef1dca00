"""The batched simulator against the paper's, trial by trial; and both against the exact probabilities."""

from __future__ import annotations

import dataclasses
import math

import pytest
import scipy.stats
import torch

from separatrix.errors import ArgumentError
from separatrix.separation import CrossAttention, SelfAttention, SoftmaxRegression, panel_settings, wilson
from separatrix.separation.datasets import RegressionInput
from separatrix.separation.networks import linear_network, linear_regression, softmax_network, softmax_regression
from separatrix.separation.regression_simulation import regression_draws
from separatrix.separation.results import PARTS, Simulation
from separatrix.separation.simulation import attention_draws, random_signs, tally
from tests.separation.literal import attention, element, network, regression

PAPER = {"a0": 0.01, "a1": 1.2, "b": 0.2, "c": 0.8}
UNLIKELY = 1e-9
"""The probability that a correct program fails a statistical test here, per test."""

NO_PATTERN = [[2, 1, 1, -1, 1.5], [-2, -1, -0.5, -1.5, -2], [0.5, 1.5, 1.5, 0.5, 1.5], [0.5, -0.5, -1, -1.5, 0],
              [1, -0.5, 0.5, 2, 1.5]]  # fmt: skip

ATTENTION = [
    SelfAttention(20, 12, 6, **PAPER),
    SelfAttention(20, 12, 6, **PAPER, weights="ones"),
    SelfAttention(23, 7, 4, **PAPER, strict=False),
    SelfAttention(4, 9, 4, **PAPER, weights="ones", strict=False),
    SelfAttention(3, 5, 1, a0=0.2, a1=1.2, b=0.5, c=0.5, weights=NO_PATTERN, strict=False),
    SelfAttention(30, 5, 3, **PAPER, weights=[[((i * j) % 5) / 4 for i in range(5)] for j in range(5)]),
    SelfAttention(30, 5, 3, **PAPER, tau=0.9),
    CrossAttention(20, 11, 5, a0=0.01, a1=3),
    CrossAttention(20, 12, 5, a0=0.4, a1=1.1, strict=False),
    CrossAttention(6, 2, 2, a0=0.01, a1=3),
]


def literal_attention(
    setting: SelfAttention | CrossAttention, trials: int, seed: int, shared_signs: bool
) -> Simulation:
    """The paper's loop: each trial builds both inputs, computes n x n attention, and evaluates four networks."""
    classes = setting.d - (2 if isinstance(setting, SelfAttention) else 1)
    generator = torch.Generator().manual_seed(seed)
    fired = []
    batches = attention_draws(
        setting.n, setting.d, setting.m, trials, generator, shared_signs=shared_signs, rows=classes + 1
    )
    for batch in batches:
        for j3, j2, y in zip(batch.special.tolist(), batch.special_query.tolist(), batch.y.double(), strict=True):
            values = []
            for which in (1, 0):
                data = element(setting, which, j3[which], j2[which])
                for mechanism in ("exp", "lin"):
                    c = attention(data, setting.weight_matrix(), mechanism)
                    values.append(network(c @ y[0 if shared_signs else len(values)], setting.threshold))
            fired.append([value > 0 for value in values])
    return tally(torch.tensor(fired))


def literal_regression(setting: SoftmaxRegression, trials: int, seed: int, shared_signs: bool) -> Simulation:
    fired = []
    generator = torch.Generator().manual_seed(seed)
    for batch in regression_draws(setting.n, setting.m, trials, generator, shared_signs=shared_signs):
        for Ax1, Ax0, y in zip(batch.on_d1, batch.on_d0, batch.y.double(), strict=True):
            values = []
            for Ax in (Ax1, Ax0):
                data = RegressionInput(Ax[:, None], torch.ones(1).double(), None)
                for mechanism in ("exp", "lin"):
                    projections = regression(data, mechanism) @ y[0 if shared_signs else len(values)]
                    values.append(network(projections, setting.threshold))
            fired.append([value > 0 for value in values])
    return tally(torch.tensor(fired))


@pytest.mark.parametrize("shared_signs", [True, False])
@pytest.mark.parametrize("setting", ATTENTION, ids=str)
def test_attention_is_the_literal_simulation(setting: SelfAttention | CrossAttention, shared_signs: bool) -> None:
    estimates = setting.simulate(150, seed=3, shared_signs=shared_signs)
    assert estimates == literal_attention(setting, 150, 3, shared_signs)
    # The test would prove nothing if all estimates were 0 or 1.
    assert sum(0 < getattr(estimates, part).hits < 150 for part in PARTS) >= 2


@pytest.mark.parametrize("shared_signs", [True, False])
@pytest.mark.parametrize(("n", "m", "tau"), [(30, 3, 0.25), (100, 4, 0.1), (9, 2, 0.4)])
def test_regression_is_the_literal_simulation(n: int, m: int, tau: float, shared_signs: bool) -> None:
    setting = SoftmaxRegression(n, m, tau)
    estimates = setting.simulate(150, seed=3, shared_signs=shared_signs)
    assert estimates == literal_regression(setting, 150, 3, shared_signs)
    assert 0 < estimates.success.hits < 150


@pytest.mark.parametrize("setting", ATTENTION[:2] + ATTENTION[7:9], ids=str)
def test_networks_are_the_literal_ones(setting: SelfAttention | CrossAttention) -> None:
    generator = torch.Generator().manual_seed(0)
    d0, d1 = setting.sample(generator)
    y = random_signs((setting.d, setting.m), generator).double()
    W, tau = setting.weight_matrix(), setting.threshold / 4
    for data in (d0, d1):
        for F, mechanism in ((softmax_network, "exp"), (linear_network, "lin")):
            expected = network(attention(data, W, mechanism) @ y, tau)
            assert expected > 0
            torch.testing.assert_close(F(data, W, y, tau).item(), expected, rtol=1e-12, atol=0)


def test_regression_networks_are_the_literal_ones() -> None:
    generator = torch.Generator().manual_seed(0)
    for data in SoftmaxRegression(20, 5).sample(generator):
        y = random_signs((20, 5), generator).double()
        for F, mechanism in ((softmax_regression, "exp"), (linear_regression, "lin")):
            expected = network(regression(data, mechanism) @ y, 0.01)
            assert expected > 0
            torch.testing.assert_close(F(data, y, 0.01).item(), expected, rtol=1e-12, atol=0)


def plausible(simulation: Simulation, low: object, high: object) -> None:
    """Assert that no estimate is so far outside [low, high] that its probability is below UNLIKELY."""
    for part in PARTS:
        estimate, least, most = getattr(simulation, part), getattr(low, part), getattr(high, part)
        assert scipy.stats.binom.sf(estimate.hits - 1, estimate.trials, min(most, 1.0)) > UNLIKELY, part
        assert scipy.stats.binom.cdf(estimate.hits, estimate.trials, max(least, 0.0)) > UNLIKELY, part


@pytest.mark.parametrize("shared_signs", [True, False])
@pytest.mark.parametrize("name", ["4b", "5b", "7b"])
def test_the_papers_widths(name: str, shared_signs: bool) -> None:
    for setting in panel_settings(name):
        exact = setting.success_probability(shared_signs=shared_signs)
        plausible(setting.simulate(4000, seed=11, shared_signs=shared_signs), exact, exact)


@pytest.mark.parametrize("name", ["4e", "5f", "7d", "7e"])
def test_every_tenth_setting_of_other_panels(name: str) -> None:
    for setting in panel_settings(name)[::10]:
        exact = setting.success_probability()
        plausible(setting.simulate(4000, seed=12), exact, exact)


@pytest.mark.parametrize("shared_signs", [True, False])
@pytest.mark.parametrize(
    ("n", "m", "tau"), [(20, 2, 0.25), (100, 4, 0.25), (150, 5, 0.1), (4, 3, 0.5), (5000, 8, 0.05)]
)
def test_regression_lies_in_its_bracket(n: int, m: int, tau: float, shared_signs: bool) -> None:
    setting = SoftmaxRegression(n, m, tau)
    probability = setting.success_probability(shared_signs=shared_signs)
    plausible(
        setting.simulate(20_000 if n < 1000 else 500, seed=5, shared_signs=shared_signs),
        probability.low,
        probability.high,
    )


def test_the_same_seed_gives_the_same_trials() -> None:
    setting = SelfAttention(20, 12, 6, **PAPER)
    state = torch.random.get_rng_state()
    assert setting.simulate(50, seed=1) == setting.simulate(50, seed=1) != setting.simulate(50, seed=2)
    assert torch.equal(torch.random.get_rng_state(), state)


def test_signs_are_fair_and_independent() -> None:
    """The sums of 200 000 signs and of products of neighbours are within 6.1 standard deviations (1e-9) of 0."""
    signs = random_signs((200_000,), torch.Generator().manual_seed(9)).double()
    for sample in (signs, signs[1:] * signs[:-1], signs[8:] * signs[:-8]):
        assert abs(sample.sum().item()) < 6.1 * math.sqrt(len(sample))


@pytest.mark.parametrize(("hits", "trials"), [(0, 1), (1, 1), (3, 10), (50, 100), (999, 1000)])
def test_wilson_solves_its_equation(hits: int, trials: int) -> None:
    """The ends are where |p - hits/trials| is z standard deviations of p."""
    z = 1.959963984540054
    interval = wilson(hits, trials)
    assert interval.low <= interval.value == float(interval) <= interval.high
    for end in (interval.low, interval.high):
        if 0 < end < 1:
            assert abs(end - interval.value) == pytest.approx(z * math.sqrt(end * (1 - end) / trials), rel=1e-9)


def test_settings_that_cannot_be_simulated() -> None:
    with pytest.raises(ArgumentError, match="trials: expected an integer >= 1, got 0"):
        SelfAttention(20, 12, 6, **PAPER).simulate(0, seed=0)
    with pytest.raises(ArgumentError, match="seed: expected an integer >= 0, got -1"):
        CrossAttention(20, 11, 6, 0.01, 3).simulate(1, seed=-1)
    with pytest.raises(ArgumentError, match="n: expected at most 1000000000 for a simulation"):
        SelfAttention(10**10, 12, 6, **PAPER).simulate(1, seed=0)
    with pytest.raises(ArgumentError, match="n: expected at most 1000000000 for a simulation"):
        SoftmaxRegression(10**10, 6).simulate(1, seed=0)
    with pytest.raises(ArgumentError, match="hits: expected an integer from 0 to 3, got 4"):
        wilson(4, 3)


def test_estimates_carry_the_names_of_the_probabilities() -> None:
    simulation = CrossAttention(20, 11, 3, 0.01, 3).simulate(10, seed=0)
    assert tuple(field.name for field in dataclasses.fields(simulation)) == PARTS
