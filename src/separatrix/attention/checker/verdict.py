"""What a check found, and the words in which it says so."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Verification:
    """Whether a certificate held at the queries that were recomputed.

    `margin` is the largest error over its certificate, rounded up: at most 1 if it held. `worst` is the index of the
    query that has it, first in the batch and then by position, and `what` says of which of its results, "output" or
    "lse". `error` and `certificate` are that query's. `queries` counts those that were recomputed. `fault` is a
    sentence on a result that no error bound could excuse, such as NaN, or empty. `reproducer` is empty if the
    certificate held; if it is broken, it is a program in Python's own decimals that shows it, or how to show it.
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
        spoken = {"output": "the output at query", "lse": "the log-sum-exp at query"}
        of = f"{spoken.get(self.what, f'the gradient of {self.what} at entry')} {', '.join(map(str, self.worst))}"
        if self.held:
            found = "query was" if self.queries == 1 else "queries were"
            return f"held, with margin {self.margin:.3g} ({of}): {self.queries} {found} recomputed"
        error = f"it is off by {self.error:.6g}, and its certificate is {self.certificate:.6g}"
        return f"broken, {of}: {self.fault or error}.\n\n{self.reproducer}".rstrip()
