"""Floating-point arithmetic: the assumptions of the certificates, whether this machine satisfies them, and rounding
errors.

- `assumptions`: each assumption as a number and a sentence.
- `measured`: measures whether this machine satisfies the assumptions; `separatrix doctor` shows it.
- `precision`: detects PyTorch settings and processor modes that change arithmetic, at each certified call.
- `rounding`: the number of roundings of a term of a sum.
- `device_reads`: the only module that reads tensor entries from a device.
- `incoming`: scales incoming gradients to about 1 by a power of two.
"""
