"""Softmax against linear attention: the paper's data sets and networks, simulated, and their exact probabilities.

The paper is Yichuan Deng, Zhao Song, Kaijun Yuan and Tianyi Zhou, "Why Softmax Attention Outperforms Linear Attention".

setting              the protocol that every setting follows
softmax_regression   Definition 3.8
self_attention       Definition D.1
cross_attention      Definition F.1
hypotheses           the hypotheses of the definitions and theorems, as data
sweeps               the settings of the paper's figures
datasets, networks   the data sets and the networks, exactly as the paper defines them

simulation           the paper's Monte Carlo; `regression_simulation` is that of softmax regression
results              the classes in which a setting returns probabilities and estimates
rows, firing         the different rows of an attention matrix, and the sign vectors on which they fire
mixture, exact       the probabilities of the paper's events, from the sign vectors on which the networks fire
binomial             tails of the binomial distribution
enumeration          self-attention with any matrix Q K^T, one sign vector at a time
regression_bounds    certified bounds for softmax regression
decimals, extended   decimal numbers as written, and numbers of 256 bits
radicals, forms      the exact signs of sums
boundary, phase      where success reaches a given probability, along one parameter and along two

mechanisms           other mechanisms in place of softmax attention
tokens, sign_vectors the different tokens, and whether a mechanism fires on each of the 2^d sign vectors
outcomes             the probabilities of the paper's events for any mechanism
tuned                the probability of separation at the best threshold
examples, learned    networks whose weights are trained

Exact probabilities do not need torch, whose import takes a second. Names from modules that need torch are imported at
first use.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING

from separatrix.separation.boundary import Boundary, boundary
from separatrix.separation.cross_attention import CrossAttention
from separatrix.separation.decimals import log_width
from separatrix.separation.hypotheses import HYPOTHESES, Hypothesis
from separatrix.separation.phase import Phase, phase
from separatrix.separation.results import Bracket, Estimate, Probabilities, Simulation, wilson
from separatrix.separation.self_attention import SelfAttention
from separatrix.separation.setting import Setting
from separatrix.separation.softmax_regression import SoftmaxRegression
from separatrix.separation.sweeps import PANELS, Panel, panel_settings

if _TYPE_CHECKING:
    from separatrix.separation.learned import ByHand, Learned, by_hand, learn
    from separatrix.separation.mechanisms import MECHANISMS, Mechanism, linear, order3, random_features, softmax
    from separatrix.separation.outcomes import Outcome, OutcomeEstimate, outcome, simulate_outcome
    from separatrix.separation.tuned import Tuned, tuned_separation

__all__ = [
    "HYPOTHESES",
    "MECHANISMS",
    "PANELS",
    "Boundary",
    "Bracket",
    "ByHand",
    "CrossAttention",
    "Estimate",
    "Hypothesis",
    "Learned",
    "Mechanism",
    "Outcome",
    "OutcomeEstimate",
    "Panel",
    "Phase",
    "Probabilities",
    "SelfAttention",
    "Setting",
    "Simulation",
    "SoftmaxRegression",
    "Tuned",
    "boundary",
    "by_hand",
    "learn",
    "linear",
    "log_width",
    "order3",
    "outcome",
    "panel_settings",
    "phase",
    "random_features",
    "simulate_outcome",
    "softmax",
    "tuned_separation",
    "wilson",
]

_HOMES = {
    "ByHand": "learned",
    "Learned": "learned",
    "MECHANISMS": "mechanisms",
    "Mechanism": "mechanisms",
    "Outcome": "outcomes",
    "OutcomeEstimate": "outcomes",
    "Tuned": "tuned",
    "by_hand": "learned",
    "learn": "learned",
    "linear": "mechanisms",
    "order3": "mechanisms",
    "outcome": "outcomes",
    "random_features": "mechanisms",
    "simulate_outcome": "outcomes",
    "softmax": "mechanisms",
    "tuned_separation": "tuned",
}


def __getattr__(name: str) -> object:
    """Load a name that needs torch when it is first used (PEP 562)."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value = getattr(_import_module(f"{__name__}.{_HOMES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return __all__
