"""Attention to one sequence that lies in shards on the ranks of a process group of `torch.distributed`.

- `near_linear`: near-linear attention; what the ranks exchange does not grow with the length.
- `exact`: exact attention; all key sets but one are gathered, and that one goes around in a ring.
- `shards`: how the key sets of a sequence are laid out and travel.
- `collectives`: what the ranks send each other, counted, and with a time-out.
- `agreement`: before each exchange all ranks agree that they are at the same place and none has failed.
- `standing`: where each rank is, and which one is absent.
"""

from separatrix.attention.sharded.collectives import counted_communication
from separatrix.attention.sharded.exact import sharded_exact_attention
from separatrix.attention.sharded.near_linear import sharded_attention
from separatrix.attention.sharded.standing import AbsentRankError

__all__ = ["AbsentRankError", "counted_communication", "sharded_attention", "sharded_exact_attention"]
