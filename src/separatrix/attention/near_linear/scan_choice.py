"""Which calls of causal near-linear attention are scanned by the kernels in C++."""

from __future__ import annotations

from separatrix.native import MOST_SETS, native


def scans_natively(device_type: str, sets: int) -> bool:
    """Whether causal attention of so many key sets runs in C++: on the CPU, wherever the kernels are installed."""
    return device_type == "cpu" and sets <= MOST_SETS and native().library is not None
