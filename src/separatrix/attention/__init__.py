"""Order-k attention: one definition, several algorithms, one planner.

How `certified_attention` works, from the call to the certificate:

1. `call` checks the arguments (their constraints are in `arguments`) and flattens the heads into one dimension.
2. `near_linear.analysis` bounds the scores by the `bounds` on the entries, and `near_linear.planner` searches for the
   cheapest polynomial that satisfies the tolerance by its `near_linear.forecast`, unless exact attention costs less.
3. If the polynomial is cheaper, `near_linear.run` sums monomials of the keys once and multiplies the sums by monomials
   of the queries; otherwise a backend of `exact` visits all tuples.
4. `near_linear.certificate` bounds the error of the computed output, with roundings counted by `arithmetic`; while the
   bound exceeds the tolerance, the degree is raised, until exact attention is cheaper.
5. `certified` returns the output with its certificate and the plan that ran, through the calls of `operator`.

Imports go one way, from the bottom of this list to its top:

- `operator`: the calls `tensor_attention`, `certified_attention` and `plan_attention`.
- `checker`: an independent oracle in ball arithmetic, which shares no code with the rest.
- `sharded`: one sequence on many ranks of `torch.distributed`.
- `packed`: several sequences in one tensor, split at their boundaries.
- `streaming`: a fixed-size state of a token stream, for tokens within a bound.
- `plain_certified`: certified exact attention of plain tensors, without the overhead of the checks.
- `certified`: runs the cheapest plan that satisfies a tolerance, and certifies its output.
- `duration`: the warning before a call of exact attention that will take more than a minute.
- `visible_keys`: windows that look ahead, attention sinks and prefixes, by calls over disjoint sets of tuples.
- `distinct_tuples`: attention to tuples of pairwise different positions.
- `forms`: score forms other than the product, as maps of queries and keys, and a fast algorithm for the pairwise form.
- `weights`: attention weights, as numbers and as a picture.
- `near_linear`: plans, near-linear attention (Algorithm 1 of Alman and Song for any order) and certificates.
- `exact`: attention over all tuples, by backends: kernels in C++ (`separatrix.native`) on the CPU, kernels in Triton
  (`exact.triton`) on GPUs, or plain PyTorch.
- `linear`, `features`: linear attention and its feature maps.
- `bounds`: largest entries, norms of tokens and ranges of values, with errors for entries that cannot be read, NaN and
  infinity.
- `call`, `arguments`: a checked call, with the keys that each query may attend, and the constraints on its arguments.
- `dispatch`: custom operators and their derivatives in PyTorch's dispatcher.
- `arithmetic`: assumptions on floating-point arithmetic, and counts of roundings.
- `reference`: the literal definition, slow and obvious.
"""
