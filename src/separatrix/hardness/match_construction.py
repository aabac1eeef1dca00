r"""One attention head of order k with explicit weights that solves the task Match_k at every position.

The cosine of a sum of k angles is a k-linear form of k coordinates, and of no fewer:

    cos(a_1 + ... + a_k) = (2^(k-1) / k) sum_{l < k} (-1)^l prod_m cos(a_m + pi l / k)

so with a_m = 2 pi f x_m / M, a head with k coordinates for each frequency f gives a tuple of tokens with sum s the
score beta C(s) (see `match_margin`). A blank token is appended to the others. One more coordinate gives the tuple of
blanks a score slightly below that of a match; a tuple with blanks and tokens has the score 0. Values are 1 for a token
and 0 for the blank, so the output at a position is the weight of the tuples without a blank: above 1/2 if there is a
match, and below 1/2 otherwise. The proofs, with those for floating point, are in docs/derivations/triple-detection.md.

>>> match3_by_attention(torch.tensor([1, 2, 4, 8]), 13).tolist()
[True, False, True, True]
"""

from __future__ import annotations

import torch
from torch import Tensor

from separatrix.attention.operator import tensor_attention
from separatrix.errors import ArgumentError
from separatrix.hardness.match_margin import Sharpness, sharpness
from separatrix.hardness.match_margin import frequencies as chosen_frequencies
from separatrix.hardness.matching import checked
from separatrix.nn import TensorAttention


def match2_by_attention(x: Tensor, modulus: int, *, frequencies: int = 1, dtype: torch.dtype = torch.float64) -> Tensor:
    """For each position i, whether some j has x_i + x_j = 0 modulo M, decided by ordinary attention.

    The arguments are those of `match_by_attention`.

    >>> match2_by_attention(torch.tensor([1, 2, 4, 8]), 10).tolist()
    [False, True, False, True]
    """
    return match_by_attention(x, modulus, 2, frequencies=frequencies, dtype=dtype)


def match3_by_attention(x: Tensor, modulus: int, *, frequencies: int = 1, dtype: torch.dtype = torch.float64) -> Tensor:
    """For each position i, whether some j_1, j_2 have x_i + x_{j_1} + x_{j_2} = 0 modulo M, by order-3 attention.

    The arguments are those of `match_by_attention`.
    """
    return match_by_attention(x, modulus, 3, frequencies=frequencies, dtype=dtype)


def match_by_attention(
    x: Tensor, modulus: int, order: int, *, frequencies: int = 1, dtype: torch.dtype = torch.float64
) -> Tensor:
    """The answers Match_k at every position, by one attention head of order k and width k F + 1.

    Args:
        x: rows of tokens, integers of shape (..., n); they need not be reduced modulo M.
        modulus: M, from 2 to `match_margin.largest_modulus`, which at order 3 with one frequency is 2346 in float32 and
            24 million in float64.
        order: k.
        frequencies: the number F of frequencies.
        dtype: torch.float32 or torch.float64.

    Returns:
        A bool tensor of the shape of x.

    Raises:
        ArgumentError: if the modulus is too large for a proof of the answer; the message gives a sufficient number of
        frequencies.

    Example:
        >>> match_by_attention(torch.tensor([[1, 2, 30], [7, 9, 11]]), 40, order=4).tolist()
        [[False, False, True], [True, True, True]]
    """
    return match_outputs(x, modulus, order, frequencies=frequencies, dtype=dtype) > 0.5


def match_outputs(
    x: Tensor, modulus: int, order: int, *, frequencies: int = 1, dtype: torch.dtype = torch.float64
) -> Tensor:
    """The output of the head at each position: at least 16/21 at a match and at most 1/5 elsewhere, before the rounding
    of sums.

    The arguments are those of `match_by_attention`.
    """
    modulus, order, x = checked(x, modulus, order)
    if dtype == torch.float32 and torch.get_float32_matmul_precision() != "highest":
        expected = "torch.float64, or torch.set_float32_matmul_precision('highest'): the proof is for float32 products"
        raise ArgumentError("dtype", expected=expected, got=str(dtype))
    sharp = sharpness(max(1, x.shape[-1]), modulus, order, frequencies, dtype)
    query, keys, values = match_features(x, modulus, order, frequencies, sharp, dtype=dtype)
    return tensor_attention(query, keys, values, scale=1.0, method="exact")[..., 0]


Features = tuple[Tensor, list[Tensor], list[Tensor]]


def match_features(
    x: Tensor, modulus: int, order: int, count: int, sharp: Sharpness, *, dtype: torch.dtype = torch.float64
) -> Features:
    r"""The query (..., n, k F + 1), keys (..., n + 1, k F + 1) and values (..., n + 1, 1) of the head.

    Coordinate l F + f of a token's query is (-1)^l A cos(2 pi f x / M + pi l / k), and that of its keys is the same
    without the sign, with A^k = 2^(k-1) beta / (k F). The last coordinate of the queries and of the keys of the blank
    is blank^(1/k). All entries are computed in float64 and rounded to `dtype` once.

    Args:
        x: rows of tokens, integers of shape (..., n).
        modulus: M.
        order: k.
        count: the number F of frequencies.
        sharp: beta and the score of the blanks.
        dtype: the type of the tensors.
    """
    modulus, order, x = checked(x, modulus, order)
    k, F, width = order, count, order * count + 1
    A = (2 ** (k - 1) * sharp.inverse_temperature / (k * F)) ** (1 / k)
    phase = torch.arange(k, device=x.device).unsqueeze(-1)
    multiples = x[..., None, None] * x.new_tensor(chosen_frequencies(modulus, F)) % modulus
    # 2 pi f x / M + pi l / k = 2 pi (2 k f x + l M) / (2 k M), whose numerator is an integer.
    cosines = unit_circle((2 * k * multiples + phase * modulus) % (2 * k * modulus), 2 * k * modulus)[0]
    key = cosines.new_zeros(*x.shape[:-1], x.shape[-1] + 1, width)
    query = cosines.new_zeros(*x.shape, width)
    key[..., :-1, :-1] = A * cosines.flatten(-2)
    query[..., :-1] = A * (cosines * (1 - 2 * (phase % 2))).flatten(-2)
    query[..., -1] = key[..., -1, -1] = sharp.blank ** (1 / k)
    value = key.new_ones(*key.shape[:-1], 1, dtype=dtype)
    value[..., -1, :] = 0.0
    return query.to(dtype), [key.to(dtype)] * (k - 1), [value] * (k - 1)


def match_layer(
    order: int, modulus: int, count: int, sharp: Sharpness, *, dtype: torch.dtype = torch.float64
) -> TensorAttention:
    r"""A layer whose weights make it the head of `match_outputs`, for tokens embedded by `embed_tokens`.

    Since cos(a + p) = cos(a) cos(p) - sin(a) sin(p), queries and keys are linear in the cosine and the sine of a token;
    the query's last coordinate is a bias. Coordinate 0 of the layer's output is the output of `match_outputs`.

    Args:
        order: k.
        modulus: M.
        count: the number F of frequencies.
        sharp: beta and the score of the blanks.
        dtype: the type of the weights.

    Example:
        >>> match_layer(3, 10, 1, sharpness(8, 10, 3))
        TensorAttention(
          embed_dim=4, num_heads=1, order=3, scale=1.0, method='exact'
          (q_proj): Linear(in_features=4, out_features=4, bias=True)
          (k_proj): ModuleList(
            (0-1): 2 x Linear(in_features=4, out_features=4, bias=True)
          )
          (v_proj): ModuleList(
            (0-1): 2 x Linear(in_features=4, out_features=4, bias=True)
          )
          (out_proj): Linear(in_features=4, out_features=4, bias=True)
        )
    """
    k, F, width = order, count, order * count + 1
    first = torch.Generator().manual_seed(0)
    layer = TensorAttention(width, 1, order, scale=1.0, method="exact", generator=first, dtype=dtype)
    A = (2 ** (k - 1) * sharp.inverse_temperature / (k * F)) ** (1 / k)
    phase = torch.arange(k)
    cos_phase, sin_phase = unit_circle(phase, 2 * k)
    angles = torch.zeros(width, width, dtype=torch.float64)
    sign = torch.ones(width, 1, dtype=torch.float64)
    for f in range(F):
        rows = phase * F + f
        angles[rows, f], angles[rows, F + f] = A * cos_phase, -A * sin_phase
        sign[rows, 0] = 1.0 - 2.0 * (phase % 2).double()
    blank, ones, flag = torch.zeros(3, width, dtype=torch.float64)
    blank[-1], ones[0], flag[2 * F] = sharp.blank ** (1 / k), 1.0, 1.0
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.zero_()
        layer.q_proj.weight.copy_(sign * angles)
        layer.q_proj.bias.copy_(blank)
        for m in range(k - 1):
            layer.get_parameter(f"k_proj.{m}.weight").copy_(angles + torch.outer(blank, flag))
            layer.get_parameter(f"v_proj.{m}.weight").copy_(-torch.outer(ones, flag))
            layer.get_parameter(f"v_proj.{m}.bias").copy_(ones)
        layer.out_proj.weight.copy_(torch.eye(width))
    return layer


def embed_tokens(x: Tensor, modulus: int, order: int, count: int, *, dtype: torch.dtype = torch.float64) -> Tensor:
    """The embeddings of the tokens, followed by that of the blank: shape (..., n + 1, k F + 1).

    A token's embedding is cos(2 pi f x / M) for each frequency, then the sines, then zeros. The embedding of the blank
    has a 1 after the sines, and is zero elsewhere.

    Args:
        x: rows of tokens, integers of shape (..., n).
        modulus: M.
        order: k.
        count: the number F of frequencies.
        dtype: the type of the embeddings.

    Example:
        >>> embed_tokens(torch.tensor([0, 1, 2]), 4, order=3, count=1)
        tensor([[ 1.,  0.,  0.,  0.],
                [ 0.,  1.,  0.,  0.],
                [-1.,  0.,  0.,  0.],
                [ 0.,  0.,  1.,  0.]], dtype=torch.float64)
    """
    modulus, order, x = checked(x, modulus, order)
    multiples = x.unsqueeze(-1) * x.new_tensor(chosen_frequencies(modulus, count)) % modulus
    tokens = x.new_zeros(*x.shape[:-1], x.shape[-1] + 1, order * count + 1, dtype=torch.float64)
    tokens[..., :-1, :count], tokens[..., :-1, count : 2 * count] = unit_circle(multiples, modulus)
    tokens[..., -1, 2 * count] = 1.0
    return tokens.to(dtype)


def unit_circle(numerator: Tensor, denominator: int) -> tuple[Tensor, Tensor]:
    """The cosine and sine of 2 pi numerator / denominator, in float64, for integers 0 <= numerator < denominator.

    The angle is reduced to [0, pi / 4] in integers, so that both have a relative error of at most 4 units of roundoff.
    """
    # 8 p / q = octant + r / q; in odd octants the angle is measured from the other end.
    octant, r = 8 * numerator // denominator, 8 * numerator % denominator
    r = torch.where(octant % 2 == 1, denominator - r, r)
    angle = r.double() / denominator * (torch.pi / 4)
    c, s = angle.cos(), angle.sin()
    swapped = (octant % 4 == 1) | (octant % 4 == 2)
    c, s = torch.where(swapped, s, c), torch.where(swapped, c, s)
    c = torch.where((octant >= 2) & (octant < 6) & (c != 0), -c, c)
    return c, torch.where((octant >= 4) & (s != 0), -s, s)
