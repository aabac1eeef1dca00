"""The tab Learn: the dynamics of sparse token selection in closed form, and training runs.

- `tab`: the layout and its callbacks.
- `view`: the closed-form dynamics at the reader's T, q, d and eta.
- `figures`: the dynamics, the losses of a run, and its weights.
- `run_panel`, `run_fields`: the part of the page with training runs, and what a visitor may choose of one.
- `training_runs`: the runs that there are, read for the page.
- `training_start`, `training_state`, `keeper`: a run started from the page, how it stands, and its process.
"""
