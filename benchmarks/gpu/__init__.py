"""The kernels in Triton: compiled ahead of time for GPUs that need not be there, and timed on one that is.

- `targets`: the GPUs that are compiled for, with their limits and peaks.
- `compiled`: what the compilers make of each configuration that ships, as a table.
- `timed`: correctness and times on the GPU at hand.
"""
