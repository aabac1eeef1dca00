"""The probabilities of a setting, and the hypotheses of the theorems that it violates.

Settings that violate a hypothesis are computed, too, and the page names the hypothesis.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from separatrix.errors import ArgumentError
from separatrix.explorer.separate.fields import ENUMERATED_D, LARGEST_D, MECHANISMS, mechanism_named
from separatrix.separation.cross_attention import CrossAttention
from separatrix.separation.hypotheses import Hypothesis
from separatrix.separation.results import PARTS, Probabilities
from separatrix.separation.self_attention import SelfAttention
from separatrix.separation.tokens import AttentionSetting

LABELS = {
    "exp_fires_on_d1": "{} fires on $D_1$",
    "lin_silent_on_d1": "linear is silent on $D_1$",
    "exp_silent_on_d0": "{} is silent on $D_0$",
    "lin_silent_on_d0": "linear is silent on $D_0$",
    "success": "all four at once: success",
}
"""The four events that make up success, and success; `{}` stands for the name of the mechanism."""


@dataclass(frozen=True)
class View:
    """A setting, its five probabilities by the names of `PARTS`, and log10(1 - p) of each where it is known."""

    setting: AttentionSetting
    mechanism: str
    probabilities: Probabilities
    log10_failures: Probabilities | None
    broken: tuple[Hypothesis, ...]

    @property
    def called(self) -> str:
        """The name of the mechanism as it is written in a sentence."""
        return called(self.mechanism)

    def parts(self) -> list[tuple[str, float, str]]:
        """The event, its probability as a number and its probability as text, for the four parts and for success."""
        parts = []
        for name in PARTS:
            p = getattr(self.probabilities, name)
            failure = None if self.log10_failures is None else getattr(self.log10_failures, name)
            parts.append((LABELS[name].format(self.called), p, spelled(p, failure)))
        return parts


def called(mechanism: str) -> str:
    """The name of a mechanism as it is written in a sentence.

    >>> called("softmax"), called("softmax-0.5"), called("elu")
    ('softmax', 'softmax at β = 1/2', 'elu + 1')
    """
    label = MECHANISMS[mechanism][0]
    return f"softmax at {label}" if mechanism.startswith("softmax-") else label


def make(values: Mapping[str, Any]) -> AttentionSetting:
    """The setting with these values; it is not strict, because violated hypotheses are listed instead of raising an
    error.

    >>> make({"weights": "cross", "n": 200, "d": 11, "m": 9, "a0": "0.01", "a1": "3"}).kind
    'cross-attention'
    """
    if values["weights"] == "cross":
        return CrossAttention(**{name: values[name] for name in ("n", "d", "m", "a0", "a1")}, strict=False)
    names = ("n", "d", "m", "a0", "a1", "b", "c", "weights")
    return SelfAttention(**{name: values[name] for name in names}, strict=False)


def look(values: Mapping[str, Any]) -> View:
    """The exact probabilities of a setting for a mechanism; an `ArgumentError` if d is too large to compute them."""
    setting, mechanism = make(values), values["mechanism"]
    affordable(setting, mechanism)
    softmax = setting.success_probability()
    broken = setting.broken_hypotheses()
    if mechanism == "softmax":
        return View(setting, mechanism, softmax, setting.log10_failure(), broken)
    from separatrix.separation.outcomes import outcome  # imports torch, which softmax does not need

    replaced = outcome(setting, mechanism_named(mechanism))
    both = replace(
        softmax, exp_fires_on_d1=replaced.fires_on_d1, exp_silent_on_d0=replaced.silent_on_d0, success=replaced.success
    )
    return View(setting, mechanism, both, None, broken)


def affordable(setting: AttentionSetting, mechanism: str) -> None:
    """Raise an `ArgumentError` if d is too large to be enumerated while a reader waits."""
    most = LARGEST_D.get(mechanism, ENUMERATED_D)
    if setting.d > most:
        wanted = f"at most {most} for {called(mechanism)}, which is enumerated over all 2^d sign vectors"
        raise ArgumentError("d", expected=wanted, got=setting.d)


def notes(view: View) -> dict[str, list[str]]:
    """The hypotheses that the setting violates, by the names of the parameters in them.

    >>> found = notes(look({"weights": "cross", "mechanism": "softmax", "n": 200, "d": 12, "m": 9, "a0": "0.2",
    ...                     "a1": "3"}))
    >>> found["a0"], found["n"]
    (['Definition F.1 requires a0 in (0, 0.1).'], ['Definition F.1 requires n = (d - 1) t. n = 198 satisfies this.'])
    """
    sentences: dict[str, list[str]] = defaultdict(list)
    for hypothesis in view.broken:
        for name in hypothesis.parameters:
            hint = _nearest(view.setting) if name == "n" and "t" in hypothesis.statement.split() else ""
            sentences[name].append(f"{hypothesis.source} requires {hypothesis.statement}.{hint}")
    return dict(sentences)


def unused(view: View) -> tuple[str, ...]:
    """The names of the parameters that this kind of setting does not have."""
    return ("b", "c") if isinstance(view.setting, CrossAttention) else ()


def outside(view: View) -> str:
    """The violated hypotheses, grouped by the definition or theorem; an empty text if all hold.

    >>> outside(look({"weights": "cross", "mechanism": "softmax", "n": 200, "d": 12, "m": 9, "a0": "0.2", "a1": "3"}))
    'Definition F.1 (n = (d - 1) t; a0 in (0, 0.1))'
    """
    sources: dict[str, list[str]] = defaultdict(list)
    for hypothesis in view.broken:
        sources[hypothesis.source].append(hypothesis.statement)
    return " and ".join(f"{source} ({'; '.join(statements)})" for source, statements in sources.items())


def unchecked(view: View) -> str:
    r"""The asymptotic hypotheses of the theorems, which no single size can violate, with the values at this size.

    >>> setting = {"weights": "cross", "mechanism": "softmax", "n": 10**6, "d": 11, "m": 1000, "a0": "0.01", "a1": "3"}
    >>> unchecked(look(setting))
    '$m$ of order $\\log(n / \\delta)$, here 72 times $\\ln n$, and $d$ growing faster than $n^{0.02}$, here 1.3'
    """
    setting = view.setting
    b = float(getattr(setting, "b", 0)) if getattr(setting, "weights", "") == "identity" else 0.0
    power = 2 * b**2 + 0.02
    logarithm = math.log(setting.n)
    faster = "$n^{2 b^2 + 0.02}$" if b else "$n^{0.02}$"
    return (
        rf"$m$ of order $\log(n / \delta)$, here {setting.m / logarithm:.2g} times $\ln n$, and $d$ growing faster "
        f"than {faster}, here {math.exp(power * logarithm):.2g}"
    )


def _nearest(setting: AttentionSetting) -> str:
    g = setting.d - (1 if isinstance(setting, CrossAttention) else 2)
    near = max(1, round(Fraction(setting.n, g))) * g
    return f" n = {near} satisfies this." if near < 10**15 else f" Any multiple of {g} satisfies this."


def spelled(p: float, log10_failure: float | None = None) -> str:
    """A probability as text: 1 minus the difference if it is close to 1.

    >>> spelled(0.46912), spelled(0.0), spelled(3e-9), spelled(1.0, -57.3), spelled(1.0, float("-inf")), spelled(1.0)
    ('0.4691', '0', '3.0e-09', '1 - 5.0e-58', '1', '1')
    """
    if log10_failure is not None and log10_failure < -4:
        if log10_failure == float("-inf"):
            return "1"
        power = int(log10_failure // 1)
        return f"1 - {10 ** (log10_failure - power):.1f}e{power:03d}"
    if 0 < p < 1e-4:
        return f"{p:.1e}"
    return f"{p:.4f}" if 0 < p < 1 else f"{p:g}"
