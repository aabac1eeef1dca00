"""An independent check of certificates: chosen queries recomputed in ball arithmetic, with no code of the operators.

- `verification`: the calls `verify` and `check`. `verdict`: what they return.
- `problem`: what the queries of a call attend. `results`: what the call gave, and which queries are recomputed.
- `deciding`: how much effort a query takes. `judging`: its results against the exact answer.
- `balls`: numbers with a bound on their error. `tuples`: the definition in balls.
- `expansion` and `moments`: attention over more tuples than can be summed, by an expansion with its remainder.
- `gradients`: the exact gradients of a small call in balls.
- `packed_sequences`: packed calls, sequence by sequence.
- `reproducer`: a program that shows a broken certificate. `saved`: a call and its results in a file.
"""

from separatrix.attention.checker.verdict import Verification
from separatrix.attention.checker.verification import check, verify

__all__ = ["Verification", "check", "verify"]
