"""Floating-point arithmetic: what certificates assume of it, whether a machine keeps that, and how roundings add up.

- `assumptions`: a number and a sentence for everything that is assumed.
- `measured`: how well the machine at hand keeps the assumptions; `separatrix doctor` shows it.
- `precision`: settings of PyTorch and modes of the processor that change arithmetic, noticed at each certified call.
- `rounding`: how often a number is rounded on its way into a sum.
- `device_reads`: the one place where numbers of tensors are read from their device.
- `incoming`: incoming gradients brought near 1 by a power of two.
"""
