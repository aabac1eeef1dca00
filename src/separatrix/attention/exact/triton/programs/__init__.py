"""The kernels in Triton; importing one of these modules imports Triton.

- `tiles`: functions shared by the kernels: which keys a block of queries may attend, rows of sets, powers of two.
- `prepare`: sizes and tables of a call, written to the memory of the GPU.
- `copy_sets`: contiguous copies of the tensors of a call, and masks as int32.
- `largest`, `check_range`: the largest magnitudes of the factors, and whether their products are in range.
- `attend`, `merge_splits`: the forward pass, and the sums of programs that split the prefix keys of a query.
- `incoming_rows`: the inputs of a backward pass for each query.
- `query_gradient`: the gradients of queries.
- `inner_gradient`: the gradients of the keys and values that are visited by blocks.
- `prefix_gradient`: the gradients of those that are visited one by one.
- `query_prefix_gradient`, `add_partials`: the gradients of queries and of windowed prefix keys and values, at order 3,
  in one kernel, and the sums of its partial sums.
- `of_sequence`: any of these on one of several packed sequences.
"""
