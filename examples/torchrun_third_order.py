"""Third-order attention over a sequence that is sharded over several processes, forward and backward.

    torchrun --nproc-per-node 4 examples/torchrun_third_order.py --tokens 250000

Every rank draws its own shard. The program compares the output and all gradients with those of one process, compares
the output with `certified_attention`, and checks that a rank sends the same number of bytes for a tenth of the tokens.
"""

from __future__ import annotations

import argparse
import resource
import sys
from time import perf_counter

import torch
import torch.distributed as dist
from torch import Tensor

import separatrix as sx
from separatrix.attention.sharded import counted_communication, sharded_attention

WIDTH, BOUND = 8, 1.0


def shard(rank: int, tokens: int) -> list[Tensor]:
    """Query, two key sets, two value sets, and the gradient of the loss with respect to the output; all in [-1, 1].

    Values are large at the positions of large keys, so that the output depends on which pairs are attended.
    """
    generator = torch.Generator().manual_seed(rank)
    query, key1, key2, slope = (2 * torch.rand(tokens, WIDTH, generator=generator) - 1 for _ in range(4))
    return [query, key1, key2, (1 + key1) / 2, (1 + key2) / 2, slope]


def attend(tensors: list[Tensor], tolerance: float, group: dist.ProcessGroup | None = None) -> list[Tensor]:
    """The output and the five gradients."""
    query, key1, key2, value1, value2, slope = tensors
    leaves = [x.requires_grad_() for x in (query, key1, key2, value1, value2)]
    out = sharded_attention(query, [key1, key2], [value1, value2], bound=BOUND, tolerance=tolerance, group=group)
    return [out.detach(), *torch.autograd.grad(out, leaves, slope)]


def largest_difference(tensors: list[Tensor], expected: list[Tensor]) -> list[float]:
    """The largest error of each tensor, relative to the largest magnitude of its expected value."""
    return [float((a - b).abs().max() / b.abs().max()) for a, b in zip(tensors, expected, strict=True)]


def gathered(tensors: list[Tensor], tokens: int) -> list[Tensor] | None:
    """The shards of all ranks, concatenated on rank 0."""
    first = dist.get_rank() == 0
    whole = []
    for x in tensors:
        parts = [torch.empty(tokens, WIDTH) for _ in range(dist.get_world_size())] if first else None
        dist.gather(x.contiguous(), parts)
        whole.append(torch.cat(parts) if parts else x)
    return whole if first else None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=int, default=250_000, help="on each rank")
    parser.add_argument("--tolerance", type=float, default=1e-3)
    options = parser.parse_args()
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    alone = dist.new_group([0])

    counted = {}
    for tokens in (options.tokens // 10, options.tokens):
        tensors = shard(rank, tokens)
        dist.barrier()
        start = perf_counter()
        with counted_communication() as sent:
            results = attend(tensors, options.tolerance)
        seconds = perf_counter() - start
        counted[tokens] = sent
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20

    whole = gathered(results, options.tokens)
    status = 0
    if whole is not None:
        print(f"{ranks} ranks x {options.tokens:,} tokens, order 3, d = {WIDTH}, tolerance {options.tolerance:g}")
        print(f"rank 0: forward and backward {seconds:.1f} s, at most {memory:.2f} GiB in the process")
        for tokens, sent in counted.items():
            kinds = ", ".join(f"{sent.bytes[kind]:,} in {sent.calls[kind]} of {kind}" for kind in sent.bytes)
            print(f"sent by a rank with {tokens:,} tokens: {sent.total:,} bytes ({kinds})")
        inputs = [torch.cat(parts) for parts in zip(*(shard(r, options.tokens) for r in range(ranks)), strict=True)]
        output, *gradients = largest_difference(whole, attend(inputs, options.tolerance, alone))
        query, key1, key2, value1, value2, _ = (x.detach() for x in inputs)
        certified = sx.certified_attention(query, [key1, key2], [value1, value2], tolerance=options.tolerance)
        distance = float((whole[0] - certified.output).abs().max())
        allowed = options.tolerance + certified.certificate.total
        print(f"outputs are {float(whole[0].min()):.3f} to {float(whole[0].max()):.3f}")
        print(f"against one process, relative: output {output:.1e}, gradients {max(gradients):.1e}")
        print(f"against certified attention: {distance:.1e}, and the two tolerances allow {allowed:.1e}")
        same = len({sent.total for sent in counted.values()}) == 1
        status = 0 if same and max(output, *gradients) < 1e-5 and distance <= allowed else 1
        print("all checks passed" if status == 0 else "a check FAILED")
    dist.barrier()
    dist.destroy_process_group()
    return status


if __name__ == "__main__":
    sys.exit(main())
