"""The result of a check, and its text."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Verification:
    """Whether a certificate held at the queries that were recomputed.

    `margin` is the largest ratio of an error to its certificate, rounded up: at most 1 if it held. `worst` is the index
    of the query that has it, first in the batch and then by position, and `what` names the result, "output" or "lse".
    `error` and `certificate` are those of this query. `queries` is the number of recomputed queries. `fault` is a
    sentence about a result that is wrong under any error bound, such as NaN; otherwise it is empty. `reproducer` is
    empty if the certificate held; otherwise it is a program in Python's decimal arithmetic that shows the violation, or
    a text that says how to show it.
    """

    held: bool
    margin: float
    worst: tuple[int, ...]
    what: str
    error: float
    certificate: float
    queries: int
    fault: str = ""
    reproducer: str = ""

    def __str__(self) -> str:
        """A sentence, followed by the reproducer if the certificate is broken."""
        if self.held and not self.worst:
            return "nothing was recomputed: there are no queries"
        names = {"output": "the output at query", "lse": "the log-sum-exp at query"}
        of = f"{names.get(self.what, f'the gradient of {self.what} at entry')} {', '.join(map(str, self.worst))}"
        if self.held:
            checked = "query was" if self.queries == 1 else "queries were"
            return f"held, with margin {self.margin:.3g} ({of}): {self.queries} {checked} recomputed"
        error = f"its error {self.error:.6g} exceeds its certificate {self.certificate:.6g}"
        return f"broken, {of}: {self.fault or error}.\n\n{self.reproducer}".rstrip()
