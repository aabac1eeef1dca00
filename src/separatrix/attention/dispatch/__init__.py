"""Custom operators in PyTorch's dispatcher, with rules for compilers, `vmap`, and reverse and forward mode.

- `registration`: registers an operator, its output shapes for compilers, its `vmap` rule, and its derivatives, in
  reverse and in forward mode; or the errors for derivatives that it does not have.
- `gpu`: on which devices the kernels in Triton run.
"""
