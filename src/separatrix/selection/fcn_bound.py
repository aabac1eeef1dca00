r"""The smallest error that any fully-connected net can have if its first layer has k neurons, exactly.

A net is a function of h = A x + B y, with x in R^{Td} Gaussian and k rows. Given h and y as well, the best estimate of
STS_q = M_y x is its conditional mean, whose error is tr((I - P) Sigma), P the projection on the rows of A and

    Sigma = E_y M_y^T M_y,    with eigenvalues 1/T (d of them) and lambda = (T - q) / (T q (T - 1)) ((T - 1) d of them).

So no net has an error below the sum of the Td - k smallest eigenvalues. The rest of a net need not be given y
separately: with large B, y determines the leading digits of one coordinate of h, and A x the others. Hence, over all
k-neuron first layers and all functions of them,

    inf E |M - STS_q|^2 = (d - k)/T + d (T - q)/(T q)       k <= d       (reached: B = 0, mean tokens)
                        = (T d - k) (T - q)/(T q (T - 1))    d <= k <= T d (approached, reached only at k > Td)

At k = Td - 1 this is Theorem 3.5 of Wang, Wei, Hsu and Lee: their bound is the infimum for that width, and one neuron
fewer adds another lambda. The proof is in docs/derivations/fcn-lower-bound.md.

**These are squared errors**; `selection_loss` is half the squared error.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from separatrix.checks import positive, whole
from separatrix.selection.arguments import sizes
from separatrix.selection.task import all_subsets


def fcn_lower_bound(T: int, q: int) -> float:
    """The lower bound (T - q) / (T q (T - 1)) of Theorem 3.5 on E |M - STS_q|^2.

    It holds for every net M whose first layer has at most Td - 1 neurons.

    Args:
        T: the number of tokens, at least 2.
        q: the number of tokens to average.

    Example:
        >>> fcn_lower_bound(4, 2)
        0.08333333333333333
    """
    T, q, _ = sizes(whole("T", T, low=2), q)
    return (T - q) / (T * q * (T - 1))


def fcn_infimum(k: int, T: int, q: int, d: int) -> float:
    """The infimum of E |M - STS_q|^2 over nets whose first layer has k neurons, by the formula of this module.

    Args:
        k: the number of neurons of the first layer.
        T: the number of tokens.
        q: the number of tokens to average.
        d: the dimension of a token.

    Example:
        >>> fcn_infimum(0, 6, 2, 3), 3 / 2  # no neuron: the variance of the target, d/q
        (1.5, 1.5)
        >>> fcn_infimum(6 * 3 - 1, 6, 2, 3) == fcn_lower_bound(6, 2)
        True
    """
    T, q, d = sizes(T, q, d)
    k = whole("k", k, low=0)
    if k >= T * d:
        return 0.0
    if k <= d:
        return (d - k) / T + d * (T - q) / (T * q)
    return (T * d - k) * fcn_lower_bound(T, q)


def selection_directions(T: int, d: int, *, dtype: torch.dtype = torch.float64) -> Tensor:
    """An orthonormal basis of eigenvectors of Sigma, as the rows of a (T d, T d) matrix, largest eigenvalue first.

    The first d are the coordinates of the mean token; the others are Helmert's contrasts (1, ..., 1, -j, 0, ..., 0).

    >>> selection_directions(2, 1).mul(2**0.5).round().tolist()
    [[1.0, 1.0], [1.0, -1.0]]
    """
    ramp = torch.arange(1, T, dtype=dtype)
    helmert = torch.cat([torch.ones(1, T, dtype=dtype), torch.ones(T - 1, T, dtype=dtype).tril()])
    helmert[1:, 1:].diagonal().copy_(-ramp)
    helmert = helmert / torch.linalg.vector_norm(helmert, dim=1, keepdim=True)
    return torch.kron(helmert, torch.eye(d, dtype=dtype))


class NearOptimalNet(nn.Module):
    """A net with a first layer of k neurons whose squared error tends to the infimum as `gap` grows.

    The first layer is linear: the k directions of largest eigenvalue, and, when k > d, the number sum_j y_j T^j times
    `gap` added to the first. The rest of the net finds y as the subset whose number is nearest to this coordinate,
    subtracts the number, and returns the conditional mean M_y A^T h. The component of x in a direction is standard
    normal, so y is decoded incorrectly with probability at most erfc(gap / sqrt 8), below 1.3e-15 at the default.

    Args:
        k: the number of neurons of the first layer, from 1 to T d.
        T: the number of tokens.
        q: the number of tokens to average.
        d: the dimension of a token.
        gap: the factor of the number that encodes y.

    Example:
        >>> net = NearOptimalNet(4, T=3, q=2, d=2)
        >>> net(torch.zeros(5, 8, dtype=torch.float64)).shape
        torch.Size([5, 2])
    """

    codes: Tensor
    subsets: Tensor

    def __init__(self, k: int, T: int, q: int, d: int, *, gap: float = 16.0) -> None:
        super().__init__()
        self.T, self.q, self.d = sizes(T, q, d)
        k = whole("k", k, low=1, high=T * d)
        self.gap = positive("gap", gap) if k > d else 0.0
        self.first = nn.utils.skip_init(nn.Linear, T * d + q, k, bias=False, dtype=torch.float64)
        place = torch.tensor([float(T) ** j for j in range(q)], dtype=torch.float64)
        with torch.no_grad():
            self.first.weight.zero_()
            self.first.weight[:, : T * d] = selection_directions(T, d)[:k]
            self.first.weight[0, T * d :] = self.gap * place
        subsets = all_subsets(T, q)
        codes, order = (subsets.double() @ place).sort()
        self.register_buffer("codes", codes)
        self.register_buffer("subsets", subsets[order])

    def forward(self, x: Tensor) -> Tensor:
        """The outputs, (n, d), for flattened inputs x of shape (n, T d + q), in float64."""
        h = self.first(x)
        A = self.first.weight[:, : self.T * self.d]
        if not self.gap:  # the mean token gives the same estimate for every subset
            y = self.subsets[:1].expand(len(x), -1)
        else:
            between = self.gap * (self.codes[1:] + self.codes[:-1]) / 2
            read = torch.searchsorted(between, h[:, 0].contiguous())
            y = self.subsets[read]
            h = torch.cat([h[:, :1] - self.gap * self.codes[read].unsqueeze(1), h[:, 1:]], 1)
        tokens = (h @ A).unflatten(1, (self.T, self.d))
        average: Tensor = tokens.gather(1, y.unsqueeze(2).expand(-1, -1, self.d)).mean(1)
        return average

    @property
    def misread(self) -> float:
        """An upper bound on the probability that y is decoded incorrectly."""
        return math.erfc(self.gap / math.sqrt(8)) if self.gap else 0.0
