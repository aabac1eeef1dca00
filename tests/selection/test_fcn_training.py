"""Training fully-connected nets: the records are correct, and no net goes below its infimum."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from separatrix.errors import ArgumentError
from separatrix.selection.fcn_bound import fcn_infimum
from separatrix.selection.fcn_training import FCNSettings, train_fcn

SMALL = FCNSettings(T=4, q=2, d=2, widths=(6, 64), steps=400, lr=3e-3, evaluate_every=200, evaluation_points=4000)


@pytest.mark.parametrize("activation", ["relu", "tanh", "gelu"])
@pytest.mark.parametrize("widths", [(3,), (5, 32), (7, 64, 32)])
def test_a_net_learns_but_not_below_its_infimum(activation: str, widths: tuple[int, ...]) -> None:
    """6 standard errors below the infimum would have probability 1e-9."""
    records = list(train_fcn(dataclasses.replace(SMALL, activation=activation, widths=widths)))
    assert [record.step for record in records] == [0, 200, 400]
    assert records[-1].squared_error < records[0].squared_error
    for record in records:
        assert record.infimum == fcn_infimum(widths[0], 4, 2, 2)
        assert record.squared_error > record.infimum - 6 * record.standard_error


def test_the_first_error_is_the_nets_own() -> None:
    record = next(train_fcn(SMALL))
    assert record.parameters == 6 * 11 + 64 * 7 + 2 * 65
    assert 0.5 < record.squared_error < 10


def test_a_seed_is_a_run_and_the_global_generator_stays() -> None:
    before = torch.get_rng_state()
    first, two, other = (list(train_fcn(dataclasses.replace(SMALL, seed=seed)))[-1] for seed in (1, 1, 2))
    assert first == two
    assert first != other
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("change", [{"widths": ()}, {"activation": "sine"}, {"lr": 0.0}, {"q": 9}, {"steps": -1}])
def test_bad_settings_are_refused(change: dict[str, object]) -> None:
    with pytest.raises(ArgumentError):
        next(train_fcn(dataclasses.replace(SMALL, **change)))
