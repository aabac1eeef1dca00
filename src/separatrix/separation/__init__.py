"""Softmax against linear attention: the paper's data sets and networks, simulated, and their exact probabilities."""

from separatrix.separation.boundary import Boundary, boundary
from separatrix.separation.cross_attention import CrossAttention
from separatrix.separation.decimals import log_width
from separatrix.separation.hypotheses import HYPOTHESES, Hypothesis
from separatrix.separation.results import Bracket, Estimate, Probabilities, Simulation, wilson
from separatrix.separation.self_attention import SelfAttention
from separatrix.separation.setting import Setting
from separatrix.separation.softmax_regression import SoftmaxRegression
from separatrix.separation.sweeps import PANELS, Panel, panel_settings

__all__ = [
    "HYPOTHESES",
    "PANELS",
    "Boundary",
    "Bracket",
    "CrossAttention",
    "Estimate",
    "Hypothesis",
    "Panel",
    "Probabilities",
    "SelfAttention",
    "Setting",
    "Simulation",
    "SoftmaxRegression",
    "boundary",
    "log_width",
    "panel_settings",
    "wilson",
]
