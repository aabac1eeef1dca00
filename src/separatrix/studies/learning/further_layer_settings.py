"""Value normalisation, and heads of orders 2 and 3 in one layer, compared with a layer of order 3 without norms.

The runs on joins, the learning rates and the seeds are those of `layer_settings`, and so is the layer `PLAIN` with
which both settings are compared. `ValueNormAttention` divides each value vector by its root mean square, with learned
gains. Half of the heads of `MixedAttention` have order 2; its networks have more hidden units, so that the number of
parameters is the same.

The following was expected, and written down with the rules before any of these runs, after the results of the other
settings had been seen (no norm was significantly better than none): the value norm is not significantly better or
worse; mixed orders are better on text, where order 2 is better than order 3, and worse on triples.

The rules of the claims and of the learning rates are those of `layer_settings`. The rule of the recommendation in the
guide: a setting is recommended if its claim on triples, recall and text holds and its claim on joins does not fail.

The claims on triples, recall and text, with the runs of `layer_settings_tasks`, are withdrawn: when the time was over,
the runs with seed 0 and those on text were complete, but not those on triples and recall. With seed 0 and the better
rate, mixed orders had the accuracies 0.83 on triples and 1.00 on recall, where the plain layer had 0.91 and 0.69, and
the value norm 0.92 and 0.75. So neither setting is recommended.
"""

from __future__ import annotations

from separatrix.studies.learning.layer_settings import PLAIN, RATES, rates_on_joins, setting_on_joins
from separatrix.studies.learning.mechanisms import FURTHER_LAYERS

VALUES, MIXED = FURTHER_LAYERS
FURTHER_RATES = {PLAIN: RATES[PLAIN], VALUES: 0.005, MIXED: 0.005}
"""The learning rate of each layer on joins, as chosen by the runs with seed 0."""

further_rates = rates_on_joins("learning rates, value norm and mixed orders", FURTHER_RATES)
layer_values = setting_on_joins(
    "value norm",
    "that normalises the values of its heads becomes better than one without norms",
    VALUES,
    PLAIN,
    FURTHER_RATES,
)
layer_mixed = setting_on_joins(
    "mixed orders",
    "half of whose heads have order 2 becomes better than one with all heads of order 3",
    MIXED,
    PLAIN,
    FURTHER_RATES,
)
