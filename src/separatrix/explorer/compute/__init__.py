"""The tab Compute: which algorithm order-k attention takes at the reader's sizes, and at what cost.

- `tab`: the layout and its callbacks.
- `fields`: what a visitor may choose: n, d, B, k and a tolerance.
- `plan_table`: the plan and its table.
- `machine_speed`: how fast this machine is beside the cost model's.
- `phase_here`: the phase diagram with the reader's numbers in it.
- `sample_certificate`: a certificate on random tokens, beside the true error.
- `upload`, `upload_panel`, `plan_child`: a plan for an uploaded file, made by a process of its own.
"""
