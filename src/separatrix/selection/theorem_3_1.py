"""Theorem 3.1 of Wang, Wei, Hsu and Lee: what it asks of T, q, d, eta and epsilon, and the time and loss it allows.

Gradient descent on the population loss from zero reaches the loss epsilon within T^2 d / (eta epsilon) steps, up to
logarithms, if 2 <= q < T/4, epsilon < d T / (100 (T - q) q) and eta <= 1/(20 d^2).

>>> broken_hypotheses(T=20, q=2, d=2, lr=0.0125)
{}
>>> broken_hypotheses(T=20, q=5, d=2, lr=0.0125)
{'q': '2 <= q < T/4 = 5'}
"""

from __future__ import annotations

__all__ = ["broken_hypotheses", "loss_allowed", "steps_allowed"]


def broken_hypotheses(T: int, q: int, d: int, lr: float, epsilon: float | None = None) -> dict[str, str]:
    """Give the hypotheses that do not hold, by the name of the argument that breaks each.

    Args:
        T: the tokens of a sequence.
        q: the tokens of a subset, at least 1 and less than T.
        d: the coordinates of a token.
        lr: the learning rate eta.
        epsilon: the loss to be reached; its hypothesis is left out where there is none.
    """
    said = {}
    if not 2 <= q < T / 4:
        said["q"] = f"2 <= q < T/4 = {T / 4:g}"
    if lr > 1 / (20 * d**2):
        said["lr"] = f"eta <= 1/(20 d^2) = {1 / (20 * d**2):.3g}"
    if epsilon is not None and not epsilon < (most := d * T / (100 * (T - q) * q)):
        said["epsilon"] = f"epsilon < d T/(100 (T - q) q) = {most:.3g}"
    return said


def steps_allowed(T: int, d: int, lr: float, epsilon: float) -> float:
    """Give the steps that the theorem allows to a loss epsilon, T^2 d / (eta epsilon), logarithms left out.

    >>> steps_allowed(T=10, d=2, lr=0.5, epsilon=0.1)
    4000.0
    """
    return T**2 * d / (lr * epsilon)


def loss_allowed(T: int, d: int, lr: float, steps: float) -> float:
    """Give the loss that the theorem allows after so many steps, T^2 d / (eta t), logarithms left out.

    >>> loss_allowed(T=10, d=2, lr=0.5, steps=4000)
    0.1
    """
    return T**2 * d / (lr * steps)
