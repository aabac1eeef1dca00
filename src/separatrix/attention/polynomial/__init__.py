"""Near-linear attention: exp of a score is replaced by a polynomial, a sum of products of monomials of query and keys.

- `remainder`: polynomials near exp, each with a bound on its error.
- `minimax`: polynomials of least relative error, with a proof of it, for scores up to a bound.
- `monomials`: sets of multi-indices, and their monomials built level by level.
- `greedy`: index sets shaped by the amplitudes of the coordinates.
- `frame`: the coordinates in which scores are expanded.
- `rotation`: at order 2, the basis in which fewer monomials suffice.
- `sums`: the states of the key sets, and queries against them, with gradients.
- `causal`: queries that attend a prefix of the keys each, with gradients.
- `run`: what was computed, as a differentiable function of the call's tensors.
- `scan`, `scan_choice`: causal attention over a stretch of tokens by the kernels in C++, and for which calls.
- `products`: products of a chunk's monomials with values, and their derivatives.
- `native_products`: products and derivatives by the kernels in C++, where these compute.
- `gpu`: products and causal attention by the kernels in Triton, on GPUs.
- `native_pass`: states and queries in one pass over tokens as they lie, by the kernels in C++.
- `expanded`: how many monomials there are, and what a product with them costs.
- `chunks`: how many tokens are taken at a time.
"""
