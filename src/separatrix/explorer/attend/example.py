"""The example of the tab: each token has a number, and attends to pairs that complete a sum.

Token i has a number x_i below 31, and query i gives the pair (j_1, j_2) the score

    200 cos(2 pi (x_i + x_j1 + x_j2) / 31),

the largest where the three numbers add up to a multiple of 31. The cosine of a sum of three angles is a sum of four
products of cosines and sines, one factor for each token: a score of order 3 with d = 4. No attention of order 2 finds
such triples (Sanford, Hsu and Telgarsky, "Representational Strengths and Limitations of Transformers": Match3).
"""

from __future__ import annotations

import math

import torch

from separatrix.explorer.attend.call_file import CallFile

MODULUS, TOKENS, SHARPNESS = 31, 32, 200.0
NAME = "the example"


def numbers() -> list[int]:
    """The numbers of the tokens."""
    drawn: list[int] = torch.randint(0, MODULUS, (TOKENS,), generator=torch.Generator().manual_seed(3)).tolist()
    return drawn


def example() -> CallFile:
    """The example as a call in float64 with one head."""
    angles = 2 * math.pi * torch.tensor(numbers(), dtype=torch.float64) / MODULUS
    c, s = angles.cos(), angles.sin()
    query = SHARPNESS * torch.stack([c, -c, -s, -s], -1)
    keys = [torch.stack([c, s, c, s], -1), torch.stack([c, s, s, c], -1)]
    return CallFile(query, keys, {"scale": 1.0}, saved=False)


def sum_of(query: int, first: int, second: int) -> str:
    """The sum of the numbers of a query and of a pair as text."""
    all_numbers = numbers()
    three = [all_numbers[at] for at in (query, first, second)]
    return f"{' + '.join(map(str, three))} = {sum(three)}"
