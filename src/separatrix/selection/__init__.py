"""Sparse token selection: the task, its encodings, the transformer that learns it, and the nets that cannot.

After Zixuan Wang, Stanley Wei, Daniel Hsu and Jason D. Lee, "Transformers Provably Learn Sparse Token Selection While
Fully-Connected Nets Cannot".

task                    the task and its inputs
encodings, thresholds   positional encodings, and how orthogonal random ones can be
isometry                how orthogonal an encoding is (Definition A.1)
transformer             the one-layer transformer
construction            the transformer that solves the task without training (Theorem C.3)
worst_overlap           how far a valid encoding can be from separating a subset from other positions

dynamics, flow          training on the population loss with one-hot encodings, as a recursion and as an equation
laws                    how long that training takes
moments                 training on the population loss of the whole matrices, with exact expectations
overlap_table, stochastic_dynamics   training with stochastic encodings
fixed_evaluation        a trained transformer with one fixed encoding
length_curves, trained_lengths       a trained transformer at other lengths

settings, training, stream, gradient, optimisers, validation, checkpoint   training runs of the paper's kind
learners, position_codes, learner_training   layers with other attentions and other encodings
fcn, fcn_training       fully-connected nets
fcn_bound               how well a fully-connected net can do at best (Theorem 3.5)
counterexample          two inputs that a given net cannot distinguish (Theorem C.2)

>>> from separatrix.selection import SparseTokenSelection, fcn_lower_bound, population_dynamics
>>> X, y, target = SparseTokenSelection(T=200, q=3, d=5).batch(8, generator=0)
>>> run = population_dynamics(T=200, q=3, d=5, lr=0.002, steps=1000)
>>> bool(run.loss[-1] < run.loss[0]), fcn_lower_bound(T=200, q=3) < 0.002
(True, True)
"""

from separatrix.selection.construction import Construction, construct, overlaps
from separatrix.selection.counterexample import Counterexample, fcn_counterexample
from separatrix.selection.dynamics import Dynamics, population_dynamics, population_loss, time_to_loss
from separatrix.selection.encodings import (
    NearOrthogonal,
    near_orthogonal_encoding,
    near_orthogonal_stack,
    one_hot_encoding,
    subset_code,
    subset_weights,
)
from separatrix.selection.fcn import FCN, parameter_count
from separatrix.selection.fcn_bound import NearOptimalNet, fcn_infimum, fcn_lower_bound
from separatrix.selection.fcn_training import FCNRecord, FCNSettings, train_fcn
from separatrix.selection.fixed_evaluation import EncodingLosses, encoding_loss, encoding_losses
from separatrix.selection.flow import population_flow
from separatrix.selection.isometry import IsometryConstant, coherence, restricted_isometry
from separatrix.selection.laws import (
    SlowCurve,
    fitted_exponents,
    plateau_time,
    slow_curve_after,
    tail_constant,
    time_law,
)
from separatrix.selection.learner_training import LearnerRecord, LearnerSettings, train_learner
from separatrix.selection.learners import SelectionLearner
from separatrix.selection.length_curves import (
    LengthCurve,
    SampledLengths,
    length_curve,
    limit_ratio,
    sampled_lengths,
    stochastic_state,
)
from separatrix.selection.moments import exact_descent, exact_gradient
from separatrix.selection.overlap_table import OverlapTable, overlap_table
from separatrix.selection.position_codes import RotaryLearner, sinusoidal_encoding
from separatrix.selection.settings import TrainingSettings, heat_map_settings, paper_settings
from separatrix.selection.stochastic_dynamics import stationary_loss, stochastic_dynamics, stochastic_loss
from separatrix.selection.task import Batch, SparseTokenSelection, all_subsets, flatten_input, subset_average
from separatrix.selection.trained_lengths import TrainedLengths, trained_lengths
from separatrix.selection.training import Record, train
from separatrix.selection.transformer import (
    SelectionTransformer,
    StochasticSelectionTransformer,
    cosine,
    ground_truth,
    selection_loss,
)
from separatrix.selection.worst_overlap import dual_overlap, worst_overlap, worst_overlap_encoding

__all__ = [
    "FCN",
    "Batch",
    "Construction",
    "Counterexample",
    "Dynamics",
    "EncodingLosses",
    "FCNRecord",
    "FCNSettings",
    "IsometryConstant",
    "LearnerRecord",
    "LearnerSettings",
    "LengthCurve",
    "NearOptimalNet",
    "NearOrthogonal",
    "OverlapTable",
    "Record",
    "RotaryLearner",
    "SampledLengths",
    "SelectionLearner",
    "SelectionTransformer",
    "SlowCurve",
    "SparseTokenSelection",
    "StochasticSelectionTransformer",
    "TrainedLengths",
    "TrainingSettings",
    "all_subsets",
    "coherence",
    "construct",
    "cosine",
    "dual_overlap",
    "encoding_loss",
    "encoding_losses",
    "exact_descent",
    "exact_gradient",
    "fcn_counterexample",
    "fcn_infimum",
    "fcn_lower_bound",
    "fitted_exponents",
    "flatten_input",
    "ground_truth",
    "heat_map_settings",
    "length_curve",
    "limit_ratio",
    "near_orthogonal_encoding",
    "near_orthogonal_stack",
    "one_hot_encoding",
    "overlap_table",
    "overlaps",
    "paper_settings",
    "parameter_count",
    "plateau_time",
    "population_dynamics",
    "population_flow",
    "population_loss",
    "restricted_isometry",
    "sampled_lengths",
    "selection_loss",
    "sinusoidal_encoding",
    "slow_curve_after",
    "stationary_loss",
    "stochastic_dynamics",
    "stochastic_loss",
    "stochastic_state",
    "subset_average",
    "subset_code",
    "subset_weights",
    "tail_constant",
    "time_law",
    "time_to_loss",
    "train",
    "train_fcn",
    "train_learner",
    "trained_lengths",
    "worst_overlap",
    "worst_overlap_encoding",
]
