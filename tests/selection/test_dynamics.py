"""The closed-form dynamics: the paper's own recursion, its ODE, the laws of time, the loss, length generalisation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from separatrix.errors import ArgumentError, SeparatrixError
from separatrix.selection.dynamics import population_dynamics, population_loss, time_to_loss
from separatrix.selection.flow import population_flow
from separatrix.selection.laws import (
    fitted_exponents,
    plateau_time,
    slow_curve_loss,
    slow_curve_time,
    tail_constant,
    time_law,
)

SIZES = st.tuples(st.integers(3, 60), st.integers(1, 5), st.integers(1, 6)).filter(lambda s: s[1] < s[0])


def _equation_6(T: int, q: int, d: int, lr: float, steps: int) -> tuple[list[float], list[float]]:
    """The update rules in the proof of Theorem D.4, in alpha and s_+."""
    alpha = C = 0.0
    alphas, Cs = [0.0], [0.0]
    for _ in range(steps):
        s = 1 / (q + (T - q) * math.exp(-C))
        new = alpha + lr * s * (1 - alpha * (T * q * s**2 - 2 * q * s + 1) / ((T - q) * s))
        C += lr * alpha * d / (T - 1) * s * (1 - q * s) * (1 + q * alpha / (T - q) * (1 - T * s))
        alpha = new
        alphas.append(alpha)
        Cs.append(C)
    return alphas, Cs


@settings(max_examples=30)
@given(SIZES, st.floats(0.01, 1.0))
def test_the_recursion_is_equation_6(sizes: tuple[int, int, int], relative: float) -> None:
    T, q, d = sizes
    lr = relative / (20 * d**2)
    run = population_dynamics(T, q, d, lr, 400)
    alphas, Cs = _equation_6(T, q, d, lr, 400)
    np.testing.assert_allclose(run.alpha, alphas, rtol=0, atol=1e-12)
    np.testing.assert_allclose(run.C, Cs, rtol=0, atol=1e-12)


@settings(max_examples=30)
@given(SIZES, st.floats(-1, 3), st.floats(-2, 8))
def test_the_loss_is_lemma_D2(sizes: tuple[int, int, int], alpha: float, C: float) -> None:
    T, q, d = sizes
    s = 1 / (q + (T - q) * math.exp(-C))
    expected = d / 2 * (q * (1 / q - alpha * s) ** 2 + (T - q) * (alpha * (1 - q * s) / (T - q)) ** 2)
    assert float(population_loss(alpha, C, T, q, d)) == pytest.approx(expected, rel=1e-11, abs=1e-14)


def test_the_loss_keeps_its_digits_where_the_plain_formula_has_none() -> None:
    """At alpha = 1 the loss is d T w^2/(2 q (T - q)) with w = 1 - q s, about 1e-36 at C = 45."""
    T, q, d = 50, 3, 5
    w = (T - q) / q * math.exp(-45)
    expected = d * T * w**2 / (2 * q * (T - q))
    assert float(population_loss(1.0, 45.0, T, q, d)) == pytest.approx(expected, rel=1e-12)


@settings(max_examples=15)
@given(SIZES, st.floats(0.05, 1.0))
def test_the_loss_falls_at_the_theorems_rates(sizes: tuple[int, int, int], relative: float) -> None:
    T, q, d = sizes
    run = population_dynamics(T, q, d, relative / (20 * d**2), 3000)
    assert bool((np.diff(run.loss) <= 0).all())
    assert bool((np.diff(run.C) >= 0).all())


def test_a_run_goes_on_from_where_it_stood() -> None:
    uninterrupted = population_dynamics(30, 3, 2, 0.01, 900)
    first = population_dynamics(30, 3, 2, 0.01, 400)
    rest = population_dynamics(30, 3, 2, 0.01, 500, start=(first.alpha[-1], first.C[-1]))
    np.testing.assert_allclose(rest.alpha, uninterrupted.alpha[400:], rtol=0, atol=1e-12)
    np.testing.assert_allclose(rest.loss, uninterrupted.loss[400:], rtol=0, atol=1e-12)


def test_the_flow_is_the_limit_of_small_steps() -> None:
    """Halving the learning rate halves the distance to the ODE."""
    T, q, d = 20, 2, 3
    times = np.linspace(0, 400, 9)
    flow = population_flow(T, q, d, times)
    distances = []
    for lr in (0.02, 0.01):
        run = population_dynamics(T, q, d, lr, round(400 / lr))
        at = np.round(times / lr).astype(int)
        distances.append(float(np.abs(run.C[at] - flow.C).max() + np.abs(run.alpha[at] - flow.alpha).max()))
    assert distances[1] < 2e-3
    assert distances[0] / distances[1] == pytest.approx(2, rel=0.1)


@pytest.mark.parametrize(("T", "q", "d"), [(40, 2, 1), (300, 3, 5), (1000, 5, 2), (12, 2, 2)])
def test_the_tail_of_the_loss_is_T_minus_1_over_4_eta_t(T: int, q: int, d: int) -> None:
    """The loss of the ODE is compared at tau = 1e4 times the plateau time; the constant depends on neither q nor d."""
    tau = 1e4 * plateau_time(T, q, d)
    loss = float(population_flow(T, q, d, [tau]).loss[0])
    assert loss * tau == pytest.approx(tail_constant(T, 1.0), rel=0.01)


@pytest.mark.parametrize(("T", "q", "d"), [(200, 3, 2), (500, 2, 1), (64, 4, 1)])
@pytest.mark.parametrize("relative", [0.5, 0.1, 0.01, 0.001])
def test_the_law_of_time_is_the_flows(T: int, q: int, d: int, relative: float) -> None:
    """The flow reaches the loss epsilon later than the slow curve, by at most the rise time of alpha, of order T."""
    epsilon = relative * d / (2 * q)
    law = time_law(T, q, d, 1.0, epsilon)
    flow = population_flow(T, q, d, [law, law + 12 * T])
    assert float(flow.loss[1]) < epsilon < float(flow.loss[0]) * 1.001


def test_the_law_of_time_inverts_its_loss() -> None:
    T, q, d = 120, 3, 4
    for x in (0.1, 0.4, 0.9, 0.999):
        law = time_law(T, q, d, 0.5, slow_curve_loss(x, T, q, d))
        assert law == pytest.approx(slow_curve_time(x, T, q, d) / 0.5, rel=1e-9)


def test_the_slow_curve_solves_its_equation() -> None:
    """d tau/dx, computed by differences, is (T - 1) q D^2/(d N x^3 w^3)."""
    T, q, d = 90, 3, 2
    n, N = T / q, T / q - 1
    for x in (0.05, 0.2, 0.6, 0.97):
        h = 1e-6
        slope = (slow_curve_time(x + h, T, q, d) - slow_curve_time(x - h, T, q, d)) / (2 * h)
        D = n * x**2 - 2 * x + 1
        assert slope == pytest.approx((T - 1) * q * D**2 / (d * N * x**3 * (1 - x) ** 3), rel=1e-5)


def test_exponents_are_those_of_the_law_and_below_the_bound() -> None:
    base = {"T": 32, "q": 2, "d": 1, "lr": 0.05, "epsilon": 5e-4}
    sweeps = {"T": [24, 32, 48], "d": [1, 2], "epsilon": [1e-3, 5e-4], "lr": [0.05, 0.025]}
    for fit in fitted_exponents(base, sweeps):
        assert fit.measured == pytest.approx(fit.law, abs=0.05)
    by_name = {fit.variable: fit for fit in fitted_exponents(base, sweeps)}
    assert by_name["T"].measured < 1.3 < by_name["T"].bound
    assert abs(by_name["d"].measured) < 0.2
    assert by_name["epsilon"].measured == pytest.approx(-1, abs=0.1)
    assert by_name["lr"].measured == pytest.approx(-1, abs=1e-3)


def test_the_corollary_on_length_fails_as_worded() -> None:
    """After training to convergence the loss grows with the length by more than Corollary 3.6 states.

    The corollary bounds the loss at T_2 by O(T_2^2/T_1^2) times the training loss, a factor of 4 at T_1 = 1000, T_2 =
    2000, q = 3. Here alpha has converged above 1 to compensate at T_1, and the factor is 334.
    """
    T_1, T_2, q, d = 1000, 2000, 3, 5
    state = population_flow(T_1, q, d, [1e4 * plateau_time(T_1, q, d)])
    alpha, C = float(state.alpha[0]), float(state.C[0])
    ratio = float(population_loss(alpha, C, T_2, q, d) / population_loss(alpha, C, T_1, q, d))
    x = (T_2 - q) / (T_1 - q)
    predicted = ((x - 1) ** 2 + q / (T_2 - q) * x**2) / (q / (T_1 - q))
    assert ratio > 80 * 4
    assert ratio == pytest.approx(predicted, rel=0.05)


def test_bad_input_is_refused() -> None:
    with pytest.raises(ArgumentError, match="q: expected less than T"):
        population_dynamics(5, 5, 1, 0.1, 1)
    with pytest.raises(ArgumentError, match="lr: expected a positive finite number"):
        population_dynamics(5, 2, 1, -0.1, 1)
    for sizes in ({"T": 4, "q": 3, "d": 1, "lr": 10.0}, {"T": 200, "q": 3, "d": 50, "lr": 1e4}):
        with pytest.raises(SeparatrixError, match=r"population_dynamics: lr = .* diverges"):
            population_dynamics(**sizes, steps=1000)
        with pytest.raises(SeparatrixError, match=r"time_to_loss: lr = .* diverges"):
            time_to_loss(**sizes, epsilon=1e-12)
    with pytest.raises(SeparatrixError, match="diverges"):
        population_dynamics(5, 2, 1, 1e4, 400)
    with pytest.raises(SeparatrixError, match="still above"):
        time_to_loss(50, 2, 1, 0.01, 1e-6, max_steps=10)
    with pytest.raises(ArgumentError, match="the loss on the plateau"):
        time_law(50, 2, 1, 0.01, 10.0)
    with pytest.raises(ArgumentError, match="times: expected ascending"):
        population_flow(50, 2, 1, [2.0, 1.0])
    with pytest.raises(ArgumentError, match="sweeps: expected variables"):
        fitted_exponents({}, {"q": [1, 2]})
