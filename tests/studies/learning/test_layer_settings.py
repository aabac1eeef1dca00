"""The claims on layer settings: fair cells, and verdicts that depend on the lead."""

from __future__ import annotations

from separatrix.claims.ledger import CellResult, Verdict
from separatrix.studies.learning import layer_settings as settings
from separatrix.studies.learning.mechanisms import LAYERS

HOLDS, FAILS, OPEN = Verdict.HOLDS, Verdict.FAILS_AS_PRINTED, Verdict.UNDECIDED


def runs(lead: float, spread: float = 0.01) -> list[CellResult]:
    """Results of three seeds of all layers: the layer with `qk_norm` has this lead, the others differ by noise."""
    return [
        CellResult(
            {"attention": name, "steps": 8, "compute_steps": 8},
            seed,
            {
                "step": [8],
                "accuracy": [0.5 + lead * (name == settings.QK) + spread * (seed * (place + 2) % 3)],
                "parameters": 100,
                "step_flops": 1.0,
            },
        )
        for place, name in enumerate(LAYERS)
        for seed in (1, 2, 3)
    ]


def test_the_lead_decides() -> None:
    check = settings.layer_qk.check
    assert check(runs(0.3)).verdict is HOLDS
    assert check(runs(0.0)).verdict is OPEN
    assert check(runs(-0.3)).verdict is FAILS
    assert check(runs(0.3), turned=True).verdict is FAILS
    assert check(runs(0.3), by=0.5).verdict is FAILS
    assert check(runs(0.3, spread=0.3)).verdict is OPEN


def test_layers_have_the_same_settings() -> None:
    cells = list(settings.layer_qk.cells())
    assert {cell.seed for cell in cells} == {1, 2, 3}
    settings_of: dict[str, set[str]] = {}
    for cell in cells:
        options = dict(cell.arguments)
        rate = options.pop("lr", None)
        assert rate in (None, settings.RATES[options["attention"]])
        options.pop("compute_steps")
        settings_of.setdefault(options.pop("attention"), set()).add(repr((cell.seed, sorted(options.items(), key=str))))
    assert set(settings_of) == set(LAYERS)
    assert len({frozenset(some) for some in settings_of.values()}) == 1
    assert set(settings.RATES.values()) <= set(settings.TRIED)


def test_the_other_rate_is_not_that_of_the_rule() -> None:
    cells = [
        CellResult({"attention": name, "lr": rate}, 0, {"step": [0], "accuracy": [float(rate == best)]})
        for name, best in settings.RATES.items()
        for rate in settings.TRIED
    ]
    assert settings.layer_rates.check(cells).verdict is HOLDS
    assert settings.layer_rates.check(cells, other=True).verdict is FAILS
