"""The tab Learn: the dynamics of sparse token selection in closed form, and training runs.

- `tab`: the layout and its callbacks.
- `dynamics`: the closed-form dynamics for given T, q, d and eta.
- `figures`: the dynamics, the losses of a run, and its weights.
- `run_panel`, `run_fields`: the part of the page with training runs, and the fields of a run.
- `training_runs`: the training runs of the store.
- `run_choices`: the settings of a run that is to be started.
- `training_start`, `training_state`: a run started from the page, and its status.
- `supervisor`, `supervised_run`: the process that watches a run, and the process of the run itself.
"""
