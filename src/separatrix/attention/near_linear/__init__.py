"""Near-linear attention: exp of a score is replaced by a polynomial, a sum of products of monomials of query and keys.

A certified call takes four steps, each a function of the previous step:

1. `analysis`: bounds on the entries and scores of a call, the coordinates in which scores are expanded, and how far
   values are from a centre.
2. `planner`: the `plan` with the lowest cost that keeps the tolerance. `cost` limits the rank, the `forecast` says by a
   sample of the scores which errors polynomials have, and the cheapest that keeps the tolerance is chosen.
3. `run`: the polynomial of the plan, computed and differentiable.
4. `certificate`: a bound on the error of the computed output, with `gradient_certificate` for gradients.

What the steps use:

- `approximation`: polynomials near exp, their monomials, and coordinates.
- `sums`: the polynomial as a sum of monomials, the states of the key sets, and queries against them, with gradients:
  Algorithm 1 of Alman and Song.
- `causal`: causal attention, where each query attends to the states of a prefix of the keys.
- `backend`: the interface of a backend, and the rule that chooses one. `native`: kernels in C++. `triton`: kernels
  for GPUs. `torch`: plain PyTorch, for everything else.
- `cost`: flops, memory and time of each algorithm, and how many tokens are taken at a time.
- `worst_case`: the plan for all entries up to a bound, from shapes alone; an error that says which bound or tolerance
  would be possible; and the rank, the order and the threshold that Alman and Song's theorems name.
- `exact_rounding`: the dtype in which exact attention keeps a tolerance, for outputs and gradients.
- `live_bytes`: measures the peak memory of a computation, for comparison with a plan.

Plans from a bound alone, for layers and streams:

- `bounded_plan`: the plan for scores that cannot exceed a bound, and the normalisation that enforces the bound.
- `bounded_attention`: attention by a bounded plan as PyTorch operators, near-linear, or exact where that is cheaper.
"""
