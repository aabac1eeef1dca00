"""The tab Compute: the algorithm that is planned for order-k attention of given sizes, and its cost.

- `tab`: the layout and its callbacks.
- `fields`: the inputs n, d, B, k and tolerance.
- `plan_table`: the plan and its table.
- `machine_speed`: the speed of this machine relative to the cost model.
- `phase_diagram`: the phase diagram with the reader's settings marked.
- `sample_certificate`: the certificate of an example with random tokens, and its true error.
- `upload`, `upload_panel`, `plan_process`: a plan for an uploaded file, computed in a separate process.
"""
