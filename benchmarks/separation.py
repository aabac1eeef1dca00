"""Exact probabilities against the simulation they replace, and our simulator against a straightforward loop.

The literal simulation builds both inputs of a trial and evaluates four networks, each with its n x n attention matrix
written out as in the paper's definition. One trial of every setting of Figures 4, 5 and 7 is timed, and its time is
multiplied by 100, the number of repetitions in the paper.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from benchmarks import Row
from benchmarks.timing import alternate
from separatrix.separation import CrossAttention, SelfAttention, SoftmaxRegression, panel_settings
from separatrix.separation import cross_attention as cross_attention_module
from separatrix.separation import self_attention as self_attention_module
from separatrix.separation.datasets import AttentionInput
from separatrix.separation.radicals import power
from separatrix.separation.sweeps import PANELS

TRIALS = 100
LIMIT_SECONDS = 2.0
OF_LITERAL_EXACT, OF_LITERAL_BATCHED = 1 / 1000, 1 / 20

Attention = SelfAttention | CrossAttention


def rows() -> Iterator[Row]:
    """All settings of Figures 4, 5, 7: exact and simulated by both programs; then a setting of Figure 3."""
    settings = [s for name in PANELS if name[0] in "457" for s in panel_settings(name) if isinstance(s, Attention)]
    generator = torch.Generator().manual_seed(0)
    prepared = [(setting, setting.weight_matrix(), setting.threshold) for setting in settings]
    best = alternate(
        {
            "exact": lambda: _exactly(settings),
            "batched": lambda: [setting.simulate(TRIALS, seed=0) for setting in settings],
            "literal": lambda: [_literal_trial(setting, W, tau, generator) for setting, W, tau in prepared],
        },
        seconds=0,
    )
    exact, batched, literal = best["exact"], best["batched"], best["literal"] * TRIALS
    what = f"Figures 4, 5, 7 ({len(settings)} settings)"
    scaled = f"the literal simulation is one trial of each setting, times {TRIALS}"
    yield Row(f"{what}, exactly", exact, "two seconds", LIMIT_SECONDS, at_most=1.0)
    yield Row(f"{what}, exactly", exact, "literal simulation", literal, at_most=OF_LITERAL_EXACT, note=scaled)
    yield Row(f"{what}, simulated", batched, "literal simulation", literal, at_most=OF_LITERAL_BATCHED, note=scaled)
    for n, m in ((100, 4), (1000, 6), (2000, 7)):
        regression = SoftmaxRegression(n, m)
        best = alternate(
            {
                "ours": lambda: regression.simulate(1000, seed=0),  # noqa: B023
                "literal": lambda: _literal_regression(regression, 1000),  # noqa: B023
            },
            seconds=0,
        )
        yield Row(f"Figure 3, n = {n}, 1000 trials, simulated", best["ours"], "literal simulation", best["literal"])


def _exactly(settings: list[Attention]) -> None:
    """Caches are empty at first; settings that differ only in m then share their single-vector probabilities."""
    for module in (self_attention_module, cross_attention_module):
        module._mixture.cache_clear()
        module._tables.cache_clear()
    power.cache_clear()
    for setting in settings:
        setting.success_probability()


def _literal_trial(setting: Attention, weights: Tensor, tau: float, generator: torch.Generator) -> bool:
    d0, d1 = setting.sample(generator)
    y = torch.randint(0, 2, (setting.d, setting.m), generator=generator).double() * 2 - 1
    return _success([_literal_network(data, weights, y, tau, f) for data in (d1, d0) for f in (torch.exp, _identity)])


def _literal_network(
    data: AttentionInput, weights: Tensor, y: Tensor, tau: float, f: Callable[[Tensor], Tensor]
) -> Tensor:
    u = f(data.A1 @ weights @ data.A2.T)
    c = (u / u.sum(1, keepdim=True)) @ data.A3
    return torch.relu(torch.relu(c @ y - tau).sum())


def _identity(x: Tensor) -> Tensor:
    return x


def _success(values: list[Tensor]) -> bool:
    return bool(values[0] > 0 and values[1] == values[2] == values[3] == 0)


def _literal_regression(setting: SoftmaxRegression, trials: int) -> int:
    generator = torch.Generator().manual_seed(0)
    hits = 0
    for _ in range(trials):
        d0, d1 = setting.sample(generator)
        y = torch.randint(0, 2, (setting.n, setting.m), generator=generator).double() * 2 - 1
        values = []
        for data in (d1, d0):
            for f in (torch.exp, _identity):
                u = f(data.A @ data.x)
                values.append(torch.relu(torch.relu(u / u.sum() @ y - setting.threshold).sum()))
        hits += _success(values)
    return hits
