"""Near-linear attention by kernels in Triton: states and the sums of the queries, on NVIDIA's GPUs, in float32.

- `products`: the products with monomials that the kernels compute, and which tensors they take.
- `programs`: the kernels, which are compiled when they are first launched.

They are tested in Triton's interpreter and compiled for sm_80 and sm_90; they are not yet timed on hardware.
"""
