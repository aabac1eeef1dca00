"""Near-linear attention by Triton kernels, which compute monomials in registers: the backend for GPUs.

- `backend`: the functions of `near_linear.backend`: products with monomials, the causal scan, a few tokens of a stream.
- `tables`: an index set in the form that the kernels read.
- `launch`: the blocks for which the kernels are compiled, and their launches.
- `programs`: the kernels, which are compiled when they are first launched.

All of them are tested in Triton's interpreter and compiled for the architectures of `dispatch.gpu.ARCHITECTURES`; they
are not yet timed on hardware.
"""
