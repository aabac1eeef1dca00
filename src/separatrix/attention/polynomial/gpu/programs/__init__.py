"""The kernels in Triton of near-linear attention: importing one of these files imports Triton.

- `monomials`: the monomials of a few tokens, made in registers.
- `add_state`: the states, sums over tokens.
- `against_state`: the sums of the queries, over monomials.
"""
