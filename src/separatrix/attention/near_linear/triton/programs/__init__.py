"""The kernels in Triton of near-linear attention: importing one of these files imports Triton.

- `monomials`: the monomials of a few tokens, made in registers.
- `add_state`: the states, sums over tokens.
- `against_state`: the sums of the queries, over monomials.
- `coordinate_gradient`: the gradients of coordinates.
- `carry`: sums over the pieces of a causal stretch, from the first to the last or back.
- `running`: the states up to each token of a piece.
- `scan`: the sums of the queries of a causal piece.
- `scan_back`: its backward pass.
- `append_tokens`, `ask_states`: a few tokens added to the states of a stream, or asked of them.
"""
