"""Stochastic encodings: the recursion against the enumeration of all valid encodings, its table, both objectives."""

from __future__ import annotations

import dataclasses
import itertools
from functools import cache

import numpy as np
import pytest
import torch
from torch import Tensor

from separatrix.errors import ArgumentError, SeparatrixError
from separatrix.selection.construction import overlaps
from separatrix.selection.dynamics import population_dynamics
from separatrix.selection.encodings import subset_code
from separatrix.selection.moments import exact_gradient
from separatrix.selection.overlap_table import OverlapTable, attention_means, overlap_table
from separatrix.selection.stochastic_dynamics import (
    OBJECTIVES,
    Objective,
    stationary_loss,
    stochastic_dynamics,
    stochastic_loss,
)
from separatrix.selection.task import all_subsets

F64 = torch.float64
T, Q, WIDTH, D = 4, 2, 4, 2


@pytest.fixture(scope="module")
def valid() -> Tensor:
    """Every sign matrix of T = 4 columns of width 4 whose pairs have |<e_i, e_j>| <= 1/2: (26880, 4, 4)."""
    columns = torch.tensor(list(itertools.product([-1.0, 1.0], repeat=WIDTH)), dtype=F64) / WIDTH**0.5
    stack = columns[torch.tensor(list(itertools.product(range(len(columns)), repeat=T)))]
    gram = stack @ stack.mT - torch.eye(T, dtype=F64)
    return stack[gram.abs().amax((1, 2)) <= 0.5]


@pytest.fixture(scope="module")
def exact(valid: Tensor) -> OverlapTable:
    """The table with exact means over all encodings and subsets."""
    C = torch.arange(0, 401, dtype=F64) / 16
    y = all_subsets(T, Q)
    # The 161,280 pairs of an encoding and a subset have a few classes of overlaps, which are counted.
    everything = torch.stack([overlaps_of(valid, subset) for subset in y], 1).sort(2).values
    classes, counts = everything.reshape(-1, T - Q).round(decimals=12).unique(dim=0, return_counts=True)
    means = torch.stack([attention_means(c.unsqueeze(0), C, Q) for c in classes])
    rows = (means * (counts.double() / counts.sum()).view(-1, 1, 1)).sum(0).numpy()
    zero = np.zeros(len(C))
    return OverlapTable(T, Q, WIDTH, 0.5, len(valid), 0.0, C.numpy(), *rows, zero, zero, zero, zero)


def overlaps_of(stack: Tensor, subset: Tensor) -> Tensor:
    """The overlaps of one subset for a stack of encodings, by the formula e_y = E_y (E_y^T E_y)^{-1} 1."""
    E_y = stack[:, subset].mT
    ones = torch.ones(len(stack), len(subset), 1, dtype=F64)
    e_y = E_y @ torch.linalg.solve(E_y.mT @ E_y, ones)
    outside = [i for i in range(stack.shape[1]) if i not in subset.tolist()]
    return (stack[:, outside] @ e_y).squeeze(2)


@cache
def _codes(stack: Tensor) -> list[Tensor]:
    """The codes e_y = E_y (E_y^T E_y)^{-1} 1 of every subset, for a stack of encodings."""
    values = []
    for subset in all_subsets(T, Q):
        E_y = stack[:, subset].mT
        values.append((E_y @ torch.linalg.solve(E_y.mT @ E_y, torch.ones(len(stack), Q, 1, dtype=F64))).squeeze(2))
    return values


def _objective(W: Tensor, alpha: Tensor, stack: Tensor, objective: Objective) -> Tensor:
    """The population loss at V = alpha V* and any position block W, by enumeration of encodings and subsets."""
    losses = []
    for subset, e_y in zip(all_subsets(T, Q), _codes(stack), strict=True):
        S = torch.softmax(torch.einsum("ntw,wv,nv->nt", stack, W, e_y), 1)
        Y = torch.zeros(T, dtype=F64).index_fill(0, subset, 1 / Q)
        missed = Y - alpha * (S if objective == "mean of the loss" else S.mean(0, keepdim=True))
        losses.append(D / 2 * missed.square().sum(1).mean())
    return torch.stack(losses).mean()


def _means(stack: Tensor, C: float) -> tuple[float, float, float, float]:
    y = all_subsets(T, Q)
    values = torch.stack([attention_means(overlaps_of(stack, s), torch.tensor([C], dtype=F64), Q) for s in y])
    w, w_slope, r, r_slope = values.mean(0)[:, 0].tolist()
    return w, w_slope, r, r_slope


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize(("alpha", "C"), [(0.3, 0.0), (1.4, 1.3), (0.9, 4.0)])
def test_lemma_E7_by_enumeration(valid: Tensor, objective: Objective, alpha: float, C: float) -> None:
    """The gradient in W is a multiple of the identity, and the factor is the recursion's, to 1e-12."""
    W = (C * torch.eye(WIDTH, dtype=F64)).requires_grad_()
    a = torch.tensor(alpha, dtype=F64, requires_grad=True)
    loss = _objective(W, a, valid, objective)
    loss.backward()
    w, w_slope, r, r_slope = _means(valid, C)
    if objective == "loss of the mean":
        r, r_slope = w**2 * T / (Q * (T - Q)), 2 * w * w_slope * T / (Q * (T - Q))
    beta = 1 - alpha
    expected = D / 2 * (r + 2 * beta * (w / Q - r) + beta**2 * (r + (1 - 2 * w) / Q))
    assert abs(float(loss.detach()) - expected) < 1e-12
    slope = D / 2 * (r_slope + 2 * beta * (w_slope / Q - r_slope) + beta**2 * (r_slope - 2 * w_slope / Q))
    assert float((W.grad - slope / WIDTH * torch.eye(WIDTH, dtype=F64)).abs().max()) < 1e-12
    in_alpha = -D * (w / Q - r + beta * (r + (1 - 2 * w) / Q))
    assert abs(float(a.grad) - in_alpha) < 1e-12


def test_one_encodings_gradient_averages_to_the_mean_of_the_loss(valid: Tensor) -> None:
    """Exact gradients for one encoding, averaged over its symmetries, are the gradients of the mean loss."""
    alpha, C = 1.2, 2.0
    size = D + WIDTH
    W = torch.zeros(size, size, dtype=F64)
    W[D:, D:] = C * torch.eye(WIDTH, dtype=F64)
    V = alpha * torch.eye(D, size, dtype=F64)
    flips = torch.tensor(list(itertools.product([-1.0, 1.0], repeat=WIDTH)), dtype=F64)
    orders = torch.tensor(list(itertools.permutations(range(WIDTH))))
    E = valid[12345]
    orbit = torch.stack([(E * f)[:, order] for f in flips for order in orders])
    parts = [exact_gradient(W, V, member, Q) for member in orbit]
    dW, dV = torch.stack([p[1] for p in parts]).mean(0), torch.stack([p[2] for p in parts]).mean(0)
    C_grad = float(dW.diagonal()[D:].mean())
    expected = torch.zeros_like(W)
    expected[D:, D:] = C_grad * torch.eye(WIDTH, dtype=F64)
    torch.testing.assert_close(dW, expected, rtol=0, atol=1e-12)
    means = attention_means(overlaps(E, all_subsets(T, Q)), torch.tensor([C], dtype=F64), Q)[:, 0].tolist()
    _, w_slope, _, r_slope = means
    beta = 1 - alpha
    slope = D / 2 * (r_slope + 2 * beta * (w_slope / Q - r_slope) + beta**2 * (r_slope - 2 * w_slope / Q))
    assert abs(C_grad - slope / WIDTH) < 1e-12
    torch.testing.assert_close(dV[:, D:], torch.zeros(D, WIDTH, dtype=F64), rtol=0, atol=1e-12)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_the_recursion_follows_the_enumerated_descent(valid: Tensor, exact: OverlapTable, objective: Objective) -> None:
    """Forty steps of gradient descent on the position block follow the table's recursion to 1e-6."""
    lr, steps = 1.5, 40
    W = torch.zeros(WIDTH, WIDTH, dtype=F64, requires_grad=True)
    alpha = torch.zeros((), dtype=F64, requires_grad=True)
    part = valid[torch.randperm(len(valid), generator=torch.Generator().manual_seed(0))]
    run = stochastic_dynamics(exact, D, lr, steps, objective=objective)
    for t in range(steps):
        loss = _objective(W, alpha, part, objective)
        assert abs(float(loss.detach()) - run.loss[t]) < 1e-6
        assert float((W.detach() - run.C[t] * torch.eye(WIDTH, dtype=F64)).abs().max()) < 1e-6
        dW, dalpha = torch.autograd.grad(loss, (W, alpha))
        with torch.no_grad():
            W -= lr * dW
            alpha -= lr * dalpha / D
    assert run.C[-1] > 0.2


def _orthogonal(T: int, q: int, width: int) -> OverlapTable:
    C = torch.arange(0, 481, dtype=F64) / 16
    rows = attention_means(torch.zeros(1, T - q, dtype=F64), C, q).numpy()
    zero = np.zeros(len(C))
    return OverlapTable(T, q, width, 0.0, 1, 0.0, C.numpy(), *rows, zero, zero, zero, zero)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_orthogonal_encodings_give_the_one_hot_dynamics(objective: Objective) -> None:
    """If all overlaps are zero, both objectives are equation (6) with width in place of T - 1."""
    table = _orthogonal(20, 2, 19)
    run = stochastic_dynamics(table, 3, 0.02, 60_000, objective=objective)
    expected = population_dynamics(20, 2, 3, 0.02, 60_000)
    np.testing.assert_allclose(run.C, expected.C, rtol=0, atol=1e-6)
    np.testing.assert_allclose(run.loss, expected.loss, rtol=1e-6)


def test_the_two_objectives_differ_and_jensen_orders_them(exact: OverlapTable) -> None:
    C = np.linspace(0.0, 20.0, 50)
    mean, of_mean = (stochastic_loss(exact, np.full(50, 1.1), C, D, objective=name) for name in OBJECTIVES)
    assert bool((mean >= of_mean - 1e-15).all())
    assert bool((mean[10:] > 1.05 * of_mean[10:]).any())


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_the_inverse_loss_grows_at_the_stationary_rate(objective: Objective) -> None:
    """d(1/L)/d(eta t) = 4 mu^2/width once alpha has converged."""
    table = overlap_table(12, 2, 64, threshold=0.6, encodings=20, subsets=10, generator=1, largest_C=30.0)
    run = stochastic_dynamics(table, 2, 0.5, 60_000, objective=objective)
    late = slice(50_000, None)
    _, mu = stationary_loss(table, run.C[late], 2, objective=objective)
    slope = np.diff(1 / run.loss[late]) / 0.5
    np.testing.assert_allclose(slope, 4 * mu[:-1] ** 2 / 64, rtol=0.05)


def test_the_table_is_within_its_error_bars(exact: OverlapTable) -> None:
    """The means over 1000 sampled encodings are within 7 standard errors of the enumeration.

    At this size rejecting columns is equivalent to rejecting matrices: every kept set of columns has as many
    extensions.
    """
    table = overlap_table(
        T, Q, WIDTH, threshold=0.5, encodings=1000, subsets=6, generator=3, largest_C=12.0, spacing=0.5
    )
    at = np.round(table.C * 16).astype(int)
    for name in ("w", "r", "w_slope", "r_slope"):
        error = np.abs(getattr(table, name) - getattr(exact, name)[at])
        assert bool((error <= 7 * getattr(table, f"{name}_se") + 1e-12).all()), name


def test_slopes_are_derivatives() -> None:
    c = torch.tensor([[0.3, -0.2, 0.1]], dtype=F64)
    C, h = torch.tensor([1.7], dtype=F64), 1e-6
    w, w_slope, r, r_slope = attention_means(c, C, 2)[:, 0].tolist()
    up, down = attention_means(c, C + h, 2)[:, 0], attention_means(c, C - h, 2)[:, 0]
    assert float(up[0] - down[0]) / (2 * h) == pytest.approx(w_slope, rel=1e-8)
    assert float(up[2] - down[2]) / (2 * h) == pytest.approx(r_slope, rel=1e-8)
    assert w > 0
    assert r > 0


def test_leaving_the_table_is_refused(exact: OverlapTable) -> None:
    short = dataclasses.replace(
        exact,
        **{
            field.name: getattr(exact, field.name)[:3]
            for field in dataclasses.fields(exact)
            if isinstance(getattr(exact, field.name), np.ndarray)
        },
    )
    with pytest.raises(SeparatrixError, match="left the table"):
        stochastic_dynamics(short, D, 1.0, 500)
    with pytest.raises(ArgumentError, match="C: expected numbers from 0"):
        stochastic_loss(short, np.ones(1), np.array([9.0]), D, objective="loss of the mean")
    with pytest.raises(ArgumentError, match="objective: expected 'mean of the loss' or 'loss of the mean'"):
        stochastic_dynamics(exact, D, 1.0, 1, objective="loss")  # type: ignore[arg-type]


def test_the_code_used_here_is_the_librarys(valid: Tensor) -> None:
    for E in valid[:50]:
        for subset in all_subsets(T, Q):
            outside = [i for i in range(T) if i not in subset.tolist()]
            torch.testing.assert_close(overlaps_of(E.unsqueeze(0), subset)[0], E[outside] @ subset_code(E, subset))
