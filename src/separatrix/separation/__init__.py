"""Softmax against linear attention: the paper's data sets and networks, simulated, and their exact probabilities."""

from separatrix.separation.boundary import Boundary, boundary
from separatrix.separation.cross_attention import CrossAttention
from separatrix.separation.decimals import log_width
from separatrix.separation.hypotheses import HYPOTHESES, Hypothesis
from separatrix.separation.learned import ByHand, Learned, by_hand, learn
from separatrix.separation.mechanisms import MECHANISMS, Mechanism, linear, order3, random_features, softmax
from separatrix.separation.outcomes import Outcome, OutcomeEstimate, outcome, simulate_outcome
from separatrix.separation.phase import Phase, phase
from separatrix.separation.results import Bracket, Estimate, Probabilities, Simulation, wilson
from separatrix.separation.self_attention import SelfAttention
from separatrix.separation.setting import Setting
from separatrix.separation.softmax_regression import SoftmaxRegression
from separatrix.separation.sweeps import PANELS, Panel, panel_settings
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
