"""Attention to one sequence that is sharded over the ranks of a process group of `torch.distributed`.

- `near_linear`: near-linear attention; the size of the messages does not depend on the length.
- `exact`: exact attention; all key sets but one are gathered, and the blocks of the last are passed around a ring.
- `shards`: the layout of the key sets of a sequence, and how they are sent.
- `collectives`: collective operations between ranks, which are counted and have a timeout, and which ranks are absent.
- `agreement`: before each exchange the ranks check that all are at the same point and none has failed.
"""

from separatrix.attention.sharded.collectives import AbsentRankError, counted_communication
from separatrix.attention.sharded.exact import sharded_exact_attention
from separatrix.attention.sharded.near_linear import sharded_attention

__all__ = ["AbsentRankError", "counted_communication", "sharded_attention", "sharded_exact_attention"]
