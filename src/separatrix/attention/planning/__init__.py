"""Planning: what is known of an input before it is attended, what each algorithm would cost, and which one is chosen.

- `plan`: what a plan says.
- `moments_in_reach`: which polynomials of a degree could keep a tolerance, without making them.
- `choice`: how the plan of a call is chosen.
- `worst_case`: what is in reach whatever the entries, and the plan from shapes alone.
- `call_plan`: the plan of a checked call, from its own entries.
- `forecast`: bounds on the entries and a sample of the scores, and from them the error to expect.
- `cost`: flops, memory and time of each algorithm.
- `exact_type`: the type in which exact attention keeps a tolerance.
- `exact_gradient`: a bound on the rounding of exact attention's gradients.
- `live_bytes`: how many bytes a computation holds at once, measured, to compare a plan with.
- `paper_rules`: the rank, the order and the threshold that Alman and Song's theorems name.
"""
