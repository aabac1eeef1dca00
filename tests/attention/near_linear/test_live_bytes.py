"""The peak number of bytes that a computation holds."""

from __future__ import annotations

import torch

from separatrix.attention.near_linear.live_bytes import LiveBytes


def test_live_bytes_are_those_of_a_computation_done_by_hand() -> None:
    x = torch.ones(50, 20, dtype=torch.float64)
    with LiveBytes([x]) as counted:
        y = x @ x.T  # 20,000 bytes
        z = y + y  # 20,000 bytes more: the peak
        del y
        z.mul_(2)  # in place, or a view: no new bytes
        row = z[0]
        total = z.sum(1)  # 400
        del z, row
        kept = total * 2  # 400
        del total
    assert (counted.peak, counted.now) == (40_000, kept.nbytes)
