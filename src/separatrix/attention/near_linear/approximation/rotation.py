r"""The basis in which scores of order 2 are expanded, and the effect of its rounding on the scores.

<B_q q, B_k k> = <q, k> whenever B_q^T B_k = I. Of all such pairs, the pair that makes the second moments of the query
and of the centred keys equal and diagonal,

    B_q C_q B_q^T = B_k C_k B_k^T = diag(lambda_1 >= lambda_2 >= ...),

has the smallest sum of amplitudes sqrt(mean q_l^2) sqrt(mean k_l^2) (sum_l lambda_l is the nuclear norm of C_q^{1/2}
C_k^{1/2}, a lower bound for every basis) and the smallest product of norms in Hoelder's bound; and it sorts the
amplitudes, so that few monomials account for most of exp(s). With C_q = L L^T and L^T C_k L = U diag(lambda^2) U^T,

    B_q = lambda^{1/2} U^T L^{-1},        B_k = lambda^{-1/2} U^T L^T.

The computed coordinates belong to another problem, whose scores differ from the given ones by at most the *drift*

    |s' - s| <= |q_i| max_j |k_j| (|B_q^T B_k - I| + gamma_{3d+16} |B_q| |B_k|),

in Euclidean and Frobenius norms, where the defect is measured on the two computed matrices. The last coordinates are
dropped as long as their amplitudes, which are added to the drift, are negligible. Any invertible matrices give correct
results; good ones lower the rank. The moments are those of query and keys in the coordinates of the plain frame, from
at most `_TOKENS` of each, evenly spaced.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from separatrix.attention.arithmetic.device_reads import number, truth
from separatrix.attention.bounds import pieces
from separatrix.attention.call import Call
from separatrix.attention.near_linear.approximation.coordinates import Basis, Frame, balance

_RIDGE = 1e-6
"""Added to the moments, relative to their mean, to bound the condition of the basis."""
_TOKENS = 1 << 12
"""The number of queries, and of keys, from whose second moments a basis is computed."""
_GAIN = 0.9
"""The fraction of the amplitudes' sum, or of the coordinates that carry it, that a basis must save to be tried."""


def rotated(call: Call, frame: Frame, slack: float | None) -> Frame | None:
    """The frame in the balanced basis; None if it would differ little, or if second moments overflow.

    `slack` bounds the sum of the dropped amplitudes; None drops no coordinate, as gradients require.
    """
    C_q, C_k = (_moments(call, frame, m) for m in range(2))
    if not truth(torch.isfinite(C_q).all() & torch.isfinite(C_k).all()):
        return None
    L, failed = torch.linalg.cholesky_ex(_ridged(C_q))
    both = L.mT @ _ridged(C_k) @ L
    if not truth(torch.isfinite(both).all()):
        return None
    squares, U = torch.linalg.eigh(both)
    squares, U = squares.flip(-1), U.flip(-1)
    if truth(failed.any() | ~(squares > 0).all()) or not _gains(C_q, C_k, squares.sqrt()):
        return None
    roots = squares.sqrt().sqrt().unsqueeze(-1)
    B_q = roots * torch.linalg.solve_triangular(L.mT, U, upper=True).mT
    B_k = (L @ U).mT / roots
    nothing = torch.zeros(len(B_q), dtype=torch.float64, device=B_q.device)
    whole = replace(frame, basis=Basis(B_q, B_k, nothing, nothing, nothing))
    largest = [_largest(call, whole, m) for m in range(2)]
    amplitudes = largest[0] * largest[1]
    upwards = amplitudes.amax(0).argsort()
    left_out = torch.nn.functional.pad(amplitudes[:, upwards].cumsum(1), (1, 0))
    count = 0 if slack is None else min(int(number((left_out.amax(0) <= slack).sum())), len(upwards)) - 1
    kept, left_out = upwards[count:].sort().values, left_out[:, count]
    _, factors, balanced = balance([x[:, kept] for x in largest], True)
    query, keys = (B[:, kept] * factor.unsqueeze(-1) for B, factor in zip((B_q, B_k), factors, strict=True))
    basis = Basis(query, keys, _longest(call, frame), _defect(B_q, B_k), left_out)
    return replace(frame, basis=basis, largest=balanced)


def drift(call: Call, frame: Frame) -> Tensor | None:
    """A bound (H, L_q) on the change of a score by the frame's basis; None if the frame has no basis."""
    if frame.basis is None:
        return None
    basis, norms = frame.basis, _query_norms(call, frame)
    relative = (basis.longest * basis.defect).unsqueeze(-1)
    return 1.01 * (norms * relative + basis.absolute.unsqueeze(-1)) + 2.0**-1000


def derivative_drift(call: Call, frame: Frame) -> list[Tensor]:
    """Bounds (H, L_q) on the changes of the derivatives of scores by an entry of the query and by an entry of a key of
    each set.

    They are 0 without a basis. Coordinates that a basis leaves out would change them as well, but with gradients none
    are left out.
    """
    if frame.basis is None:
        return [torch.zeros_like(frame.largest[0][:, :1])] * (len(frame.largest))
    basis = frame.basis
    assert not truth(basis.absolute.any()), "a basis for gradients leaves out no coordinate"
    by_query = abs(frame.scale) * frame.factors[0].amax(1) * basis.longest * basis.defect
    by_key = (frame.factors[1].amax(1) * basis.defect).unsqueeze(-1) * _query_norms(call, frame)
    return [1.01 * by_query.unsqueeze(-1) + 2.0**-1000, 1.01 * by_key + 2.0**-1000]


def _query_norms(call: Call, frame: Frame) -> Tensor:
    """Euclidean norms (H, L_q) of the queries in the coordinates before the basis."""
    return torch.cat(list(_norms(call, replace(frame, basis=None), 0)), 1)


def _longest(call: Call, frame: Frame) -> Tensor:
    """max_j |k_j|, (H,)."""
    longest = torch.zeros(call.query.shape[0], dtype=torch.float64, device=frame.kept.device)
    for norms in _norms(call, frame, 1):
        longest = torch.maximum(longest, norms.amax(1))
    return longest


def _defect(B_q: Tensor, B_k: Tensor) -> Tensor:
    """|B_q^T B_k - I| + gamma |B_q| |B_k|, (H,); gamma includes the rounding of the defect."""
    d = B_q.shape[2]
    size = torch.linalg.matrix_norm(B_q) * torch.linalg.matrix_norm(B_k)
    defect = torch.linalg.matrix_norm(B_q.mT @ B_k - torch.eye(d, dtype=torch.float64, device=B_q.device))
    bound: Tensor = defect + (3 * d + 16) * 2.0**-53 * size
    return bound


def _parts(call: Call, frame: Frame, m: int) -> Iterator[Tensor]:
    """Coordinates (H, d', c) of the query (m = 0) or of the keys (m = 1), chunk by chunk; masked keys are 0."""
    x = call.keys[0] if m else call.query
    for start, stop in pieces(x.shape[1], 1 << 14):
        mask = call.masks[0][:, start:stop] if m and call.masks else None
        yield frame.coordinates(x[:, start:stop], m, mask)


def _moments(call: Call, frame: Frame, m: int) -> Tensor:
    """The sum of x x^T over evenly spaced tokens, (H, d', d')."""
    tokens = call.keys[0] if m else call.query
    step = -(-tokens.shape[1] // _TOKENS)
    mask = call.masks[0][:, ::step] if m and call.masks else None
    x = frame.coordinates(tokens[:, ::step], m, mask)
    return x @ x.mT


def _norms(call: Call, frame: Frame, m: int) -> Iterator[Tensor]:
    return (torch.linalg.vector_norm(x, dim=1) for x in _parts(call, frame, m))


def _largest(call: Call, frame: Frame, m: int) -> Tensor:
    """max |x_l|, (H, d')."""
    largest = torch.zeros(call.query.shape[0], frame.width, dtype=torch.float64, device=frame.kept.device)
    for x in _parts(call, frame, m):
        largest = torch.maximum(largest, x.abs().amax(2))
    return largest


def _ridged(C: Tensor) -> Tensor:
    mean = C.diagonal(dim1=1, dim2=2).mean(1)
    mean = mean.masked_fill(mean == 0, 1.0)  # for a head of zeros any basis is valid
    return C + _RIDGE * mean.reshape(-1, 1, 1) * torch.eye(C.shape[1], dtype=C.dtype, device=C.device)


def _gains(C_q: Tensor, C_k: Tensor, singular: Tensor) -> bool:
    """Whether the amplitudes, as root mean squares, would have a smaller sum or would be carried by fewer
    coordinates."""
    now = (C_q.diagonal(dim1=1, dim2=2) * C_k.diagonal(dim1=1, dim2=2)).sqrt()
    before, after = ((x.sum(1), x.square().sum(1)) for x in (now, singular))
    less = after[0] < _GAIN * before[0]
    fewer = after[0] ** 2 * before[1] < _GAIN * before[0] ** 2 * after[1]
    return truth((less | fewer).any())
