"""The tab Learn: the dynamics of sparse token selection in closed form, and training runs.

- `tab`: the layout and its callbacks.
- `dynamics`: the closed-form dynamics at the reader's T, q, d and eta.
- `figures`: the dynamics, the losses of a run, and its weights.
- `run_panel`, `run_fields`: the part of the page with training runs, and what a visitor may choose of one.
- `training_runs`: the runs that there are, read for the page.
- `asked_run`: what a visitor asks for when a run is started.
- `training_start`, `training_state`: a run started from the page, and its status.
- `keeper`, `kept_run`: the process that watches a run, and the process of the run itself.
"""
