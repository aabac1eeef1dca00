"""Operators of our own in PyTorch's dispatcher: for compilers, for transforms, and for derivatives in both modes.

- `registration`: an operator, its shapes for compilers, and what `vmap` does with it.
- `derivatives`: its derivatives, in reverse and in forward mode.
- `second_derivatives`: the error for near-linear attention, which has only first ones.
- `readable`: the error for calls whose numbers cannot be looked at.
- `backend`: the rule that chooses a backend.
- `gpu`: where the kernels in Triton run.
"""
