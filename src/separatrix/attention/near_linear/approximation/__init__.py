"""Polynomials near the exponential function, and the coordinates and monomials in which scores are expanded.

- `remainder`: polynomials near exp, each with a bound on its error.
- `minimax`: polynomials of least relative error from exp.
- `monomials`: sets of multi-indices, and their monomials built level by level.
- `greedy`: index sets shaped by the amplitudes of the coordinates.
- `coordinates`: the coordinates in which scores are expanded; at order 2, the basis in which fewer monomials suffice.
"""
