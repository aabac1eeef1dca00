"""The Triton kernels of near-linear attention; importing one of these modules imports Triton.

- `monomials`: the monomials of a few tokens, computed in registers.
- `add_state`: the states, sums of monomials times values over tokens.
- `against_state`: the sums of each query over monomials times a state.
- `coordinate_gradient`: the gradients of coordinates.
- `carry`: exclusive prefix sums over the pieces of a causal stretch, forward or backward.
- `running`: the states up to each token of a piece.
- `scan`: the sums of the queries of a causal piece.
- `scan_back`: its backward pass.
- `append_tokens`, `ask_states`: append a few tokens to the states of a stream, and attend to it with a few queries.
"""
