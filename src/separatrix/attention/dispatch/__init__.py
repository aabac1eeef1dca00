"""Custom operators in PyTorch's dispatcher, with rules for compilers, `vmap`, and reverse and forward mode.

- `registration`: registers an operator, its output shapes for compilers, and its `vmap` rule.
- `derivatives`: registers derivatives of an operator, in reverse and in forward mode.
- `second_derivatives`: the errors for derivatives that near-linear attention does not have.
- `gpu`: on which devices the kernels in Triton run.
"""
