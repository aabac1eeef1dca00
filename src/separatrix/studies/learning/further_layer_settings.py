"""Value normalisation, and heads of orders 2 and 3 in one layer, compared with a layer of order 3 without norms.

The tasks, runs, learning rates and seeds are those of `layer_settings` (joins) and `layer_settings_tasks` (triples,
recall and text), and so is the layer `PLAIN` with which both settings are compared. `ValueNormAttention` divides each
value vector by its root mean square, with learned gains. Half of the heads of `MixedAttention` have order 2; its
networks have more hidden units, so that the number of parameters is the same.

The following was expected, and written down with the rules before any of these runs, after the results of the other
settings had been seen, of which no norm was significantly better than none: the value norm is not significantly better
or worse; mixed orders are better on text, where order 2 is better than order 3, and worse on triples, so that their
claim on these tasks fails.

The rules of the claims, of the learning rates and of the recommendation in the guide are those of the two modules: a
setting is recommended if its claim on triples, recall and text holds and its claim on joins does not fail.
"""

from __future__ import annotations

from separatrix.studies.learning.layer_settings import PLAIN, RATES, rates_on_joins, setting_on_joins
from separatrix.studies.learning.layer_settings_tasks import RATES as RATES_ON_TASKS
from separatrix.studies.learning.layer_settings_tasks import SettingTask, rates_on_tasks, setting_on_tasks
from separatrix.studies.learning.mechanisms import FURTHER_LAYERS

VALUES, MIXED = FURTHER_LAYERS
JOIN_RATES = {PLAIN: RATES[PLAIN], VALUES: 0.005, MIXED: 0.005}
"""The learning rate of each layer on joins, which the runs with seed 0 have chosen."""
TASK_RATES: dict[SettingTask, dict[str, float]] = {
    "match": {PLAIN: RATES_ON_TASKS["match"][PLAIN], VALUES: 0.005, MIXED: 0.005},
    "recall": {PLAIN: RATES_ON_TASKS["recall"][PLAIN], VALUES: 0.005, MIXED: 0.01},
    "text": {PLAIN: RATES_ON_TASKS["text"][PLAIN], VALUES: 0.01, MIXED: 0.01},
}
"""The learning rate of each layer on each task, which the runs with seed 0 have chosen."""

_VALUES = "that normalises the values of its heads becomes better than one without norms"
_MIXED = "whose heads are half of order 2 becomes better than one with all heads of order 3"
further_rates = rates_on_joins("learning rates, value norm and mixed orders", JOIN_RATES)
further_task_rates = rates_on_tasks("learning rates, value norm and mixed orders, other tasks", TASK_RATES)
layer_values = setting_on_joins("value norm", _VALUES, VALUES, PLAIN, JOIN_RATES)
task_values = setting_on_tasks("value norm", _VALUES, VALUES, PLAIN, TASK_RATES)
layer_mixed = setting_on_joins("mixed orders", _MIXED, MIXED, PLAIN, JOIN_RATES)
task_mixed = setting_on_tasks("mixed orders", _MIXED, MIXED, PLAIN, TASK_RATES)
