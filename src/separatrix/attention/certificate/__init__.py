"""Certificates: bounds on the error of what was computed that hold for the very input.

- `output`: the bound for every entry of an output and of its log-sum-exp.
- `gradient`: the bound for the vector-Jacobian products of a backward pass.
"""
