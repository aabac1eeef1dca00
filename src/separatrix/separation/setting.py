"""The protocol that all three kinds of settings follow."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol

from separatrix.separation.hypotheses import Hypothesis
from separatrix.separation.results import Bracket, Probabilities, Simulation

if TYPE_CHECKING:
    import torch


class Setting(Protocol):
    """One choice of all parameters of a separation: `SoftmaxRegression`, `SelfAttention` or `CrossAttention`."""

    @property
    def n(self) -> int:
        """The number of tokens."""

    @property
    def m(self) -> int:
        """The number of sign vectors."""

    @property
    def kind(self) -> str:
        """The key of this setting in `hypotheses.HYPOTHESES`."""

    @property
    def threshold(self) -> float:
        """The threshold tau as a float."""

    def values(self) -> Mapping[str, Fraction]:
        """The exact value of each parameter, by its name."""

    def broken_hypotheses(self) -> tuple[Hypothesis, ...]:
        """The hypotheses of the definition and of the theorems that this setting does not satisfy."""

    def sample(self, seed: int | torch.Generator) -> tuple[Any, Any]:
        """Draw one element of D0 and one of D1."""

    def simulate(self, trials: int, seed: int, *, shared_signs: bool = True) -> Simulation:
        """Estimate the probabilities by the paper's Monte Carlo.

        Args:
            trials: the number of independent trials.
            seed: the seed of the generator that draws the data and the signs.
            shared_signs: whether the four networks of a trial use the same y; False draws one for each.
        """

    def success_probability(self, *, shared_signs: bool = True) -> Probabilities | Bracket:
        """The exact probabilities, or certified bounds on them."""
