"""The kernels in Triton: importing one of these files imports Triton.

- `tiles`: what they share: which keys a block of queries may attend, rows of sets, powers of two.
- `attend`: the forward pass.
- `query_gradient`: the gradients of queries.
- `inner_gradient`: the gradients of the keys and values that are visited by blocks.
- `prefix_gradient`: the gradients of those that are visited one by one.
"""
