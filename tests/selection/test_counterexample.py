"""Theorem C.2 as a program: counterexamples for nets of every kind, bad input, and the constant."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from separatrix.errors import ArgumentError, SeparatrixError
from separatrix.selection.counterexample import fcn_counterexample
from separatrix.selection.fcn import FCN
from separatrix.selection.task import subset_average


def _errors(net: nn.Module, x: Tensor, T: int, q: int, d: int) -> tuple[Tensor, float]:
    """The net's output on one flattened input and the norm of its error, computed from the input alone."""
    X, y = x[: T * d].reshape(T, d), x[T * d :].round().long()
    assert len(set(y.tolist())) == q
    with torch.no_grad():
        output = net(x.unsqueeze(0))[0]
    return output, float((output - subset_average(X, y)).norm())


@settings(max_examples=30)
@given(st.integers(2, 7), st.integers(1, 3), st.integers(0, 100), st.data())
def test_every_narrow_net_is_caught(T: int, d: int, seed: int, data: st.DataObject) -> None:
    q = data.draw(st.integers(1, T).filter(lambda q: (T - q + 1) * d > 1))
    k = data.draw(st.integers(1, (T - q + 1) * d - 1))
    net = FCN(T, q, d, [k, 16], activation=nn.Tanh, generator=seed, dtype=torch.float64)
    counterexample = fcn_counterexample(net, T, q, d)
    first_error, first = _errors(net, counterexample.first, T, q, d)
    two, second = _errors(net, counterexample.second, T, q, d)
    torch.testing.assert_close(first_error, two, rtol=0, atol=1e-9)
    assert counterexample.errors == pytest.approx((first, second), abs=1e-9)
    assert counterexample.loss == pytest.approx(1.0, abs=1e-9)
    assert max(first, second) >= counterexample.loss
    assert max(first, second) ** 2 >= 1 / (2 * q)


@pytest.mark.parametrize("q", [1, 2, 4])
def test_the_constant_is_the_norms_at_the_proofs_scale(q: int) -> None:
    """The zero net at |u_j| = 1/2: the norm of its error is 1/(2q) on both inputs, so its square is below 1/(2q)."""
    T, d = 6, 2
    net = nn.Sequential(nn.Linear(T * d + q, 3, dtype=torch.float64), nn.Linear(3, d, dtype=torch.float64))
    with torch.no_grad():
        net[1].weight.zero_()
        net[1].bias.zero_()
    counterexample = fcn_counterexample(net, T, q, d, token_norm=0.5)
    assert counterexample.errors == pytest.approx((1 / (2 * q),) * 2, abs=1e-12)
    assert counterexample.loss == pytest.approx(1 / (2 * q), abs=1e-12)
    assert counterexample.loss**2 < 1 / (2 * q)
    assert float(counterexample.first[: T * d].reshape(T, d).norm(dim=1).max()) == pytest.approx(0.5, abs=1e-12)


class _Own(nn.Module):
    """A net with normalisation, dropout and a branch, all after its first layer; float32."""

    def __init__(self, inputs: int, k: int, d: int) -> None:
        super().__init__()
        self.first = nn.Linear(inputs, k)
        self.norm = nn.BatchNorm1d(k)
        self.drop = nn.Dropout(0.5)
        self.out = nn.Linear(2 * k, d)

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(self.first(x))
        return self.out(torch.cat([self.drop(h).relu(), h.sin()], 1))  # type: ignore[no-any-return]


def test_any_module_will_do_and_keeps_its_mode() -> None:
    T, q, d = 9, 3, 2
    net = _Own(T * d + q, 13, d).train()
    net.norm.eval()
    counterexample = fcn_counterexample(net, T, q, d)
    assert counterexample.first.dtype == torch.float32
    assert counterexample.loss == pytest.approx(1.0, abs=1e-4)
    assert max(counterexample.errors) >= counterexample.loss
    assert net.training
    assert not net.norm.training


def test_at_the_papers_size() -> None:
    T, q, d = 60, 3, 5
    net = FCN(T, q, d, [(T - q + 1) * d - 1, 32], generator=0, dtype=torch.float64)
    assert fcn_counterexample(net, T, q, d).loss == pytest.approx(1.0, abs=1e-6)


class _Peeks(nn.Module):
    """A net that reads its input after the first layer."""

    def __init__(self, inputs: int, d: int) -> None:
        super().__init__()
        self.first = nn.Linear(inputs, 2)
        self.d = d

    def forward(self, x: Tensor) -> Tensor:
        return self.first(x)[:, :1] + x[:, 4 : 4 + self.d]  # type: ignore[no-any-return]


def test_mismatched_inputs_are_refused() -> None:
    T, q, d = 5, 2, 2
    with pytest.raises(ArgumentError, match=r"at most \(T - q \+ 1\) d - 1 = 7 neurons, got one of 8") as refusal:
        fcn_counterexample(FCN(T, q, d, [8]), T, q, d)
    assert refusal.value.hypothesis == "the width of Theorem C.2"
    with pytest.raises(ArgumentError, match="a first layer of T d \\+ q = 12 inputs"):
        fcn_counterexample(FCN(T, 3, d, [4]), T, q, d)
    with pytest.raises(ArgumentError, match=r"whose first layer is nn\.Linear"):
        fcn_counterexample(nn.Sequential(nn.ReLU()), T, q, d)
    with pytest.raises(ArgumentError, match="given the input itself"):
        fcn_counterexample(nn.Sequential(nn.Tanh(), nn.Linear(12, 2)), T, q, d)
    with pytest.raises(ArgumentError, match=r"outputs of shape \(2, 2\)"):
        fcn_counterexample(nn.Sequential(nn.Linear(12, 3)), T, q, d)
    with pytest.raises(SeparatrixError, match="also uses its input after that layer"):
        fcn_counterexample(_Peeks(12, d), T, q, d)
    with pytest.raises(ArgumentError, match="token_norm"):
        fcn_counterexample(FCN(T, q, d, [4]), T, q, d, token_norm=-1.0)
