"""An independent check of certificates: recomputes chosen queries in ball arithmetic, without using the operators'
code.

- `verification`: the calls `verify` and `check`, and what they return; packed calls sequence by sequence.
- `problem`: the tokens that the queries of a call attend, the call's results, and the queries to recompute.
- `deciding`: the precision and degree for each query, and the comparison of its results with the exact answer.
- `balls`: numbers with a bound on their error. `tuples`: the definition in balls.
- `expansion` and `moments`: attention over more tuples than can be summed, by an expansion with its remainder.
- `saved`: a call and its results in a file.
"""

from separatrix.attention.checker.verification import Verification, check, verify

__all__ = ["Verification", "check", "verify"]
