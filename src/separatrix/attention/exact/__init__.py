"""Exact attention: computed over all tuples, with an error for outputs that would be wrong.

- `operators`: exact attention as PyTorch operators, with their derivatives of any order, their decomposition into
  standard operators for exporters, and their flop counts. Callers begin here.
- `plain_tuples`: calls of order 3 and above that need no dispatcher: plain tensors that are not broadcast.
- `sequences`: packed sequences, by one launch of each kernel in Triton.
- `backend`: what a backend provides, and the rule that chooses one.
- `native`: the backend in C++, for the CPU.
- `triton`: the backend in Triton, for GPUs.
- `torch`: the backend in plain PyTorch, for every device, and the formulas of second derivatives.
- `fused`: order 2 by PyTorch's own fused kernel, where ours are not faster, and the check of its output.
- `guarded`: the guards around every backend, against numbers out of range and against NaN and infinity.
- `balance`: powers of two that keep factors in range, or an error that names them.
- `error_bound`: a bound on the rounding error, known before attention is computed.
"""
