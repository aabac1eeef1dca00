"""The proof of Theorem E.6 of Wang, Wei, Hsu and Lee: its slips, each measured; none of them invalidates the theorem.

s is the weight of a position in y and w = 1 - q s; c is the largest overlap, and a = 2 c / (1 - c).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from separatrix.claims.ledger import CellResult, Erratum, Finding, Rank, claim, typographical
from separatrix.claims.misprint_pairs import as_printed, compared, missed
from separatrix.claims.selection import proof_chain
from separatrix.claims.selection.proof_chain import Chain, chain_holds, sharper
from separatrix.lab.cell import Cell
from separatrix.lab.registry import experiment

FACTORS = {
    "induction above": 37.0,
    "(S2)": 24.0,
    "induction below": 2.1,
    "lower end": 60.0,
    "least step of C": 1.01,
    "first stage": 4.1,
    "second stage": 1.05,
    "loss at the end": 1.7,
    "total of steps": 1500.0,
}
"""For each step of the chain, a factor just above its slack in these cells."""

PROOF = (
    Erratum(
        rank=Rank.PROOF,
        at="Theorem E.6, proof: a power of q/T",
        shown_by="power of q/T",
        printed=r"$w \ge \frac{q^a}{(T - q)^a + q^a} \ge (q / T)^a$.",
        right=r"$w \ge (q / T)^a / 2$, with $a = 2 c / (1 - c)$ for overlaps of at most $c$.",
        why="For $a < 1$, $(T - q)^a + q^a$ is at least $T^a$, and at most twice that. Only constants change.",
    ),
    typographical(
        at="Theorem E.6, proof: the end of stage one",
        shown_by="weights at the end of stage one",
        printed=r"At the time $t_1$ all $s_+ \le 1 / (2 q)$.",
        right=r"$s_+ \ge 1 / (2 q)$.",
        why="$C(t_1)$ is chosen so that the lower bound of Lemma E.15 is $1 / (2 q)$.",
    ),
    Erratum(
        rank=Rank.PROOF,
        at="Theorem E.6, proof: stage two",
        shown_by="constant of stage two",
        printed=r"$\frac{7 \eta (T - q) \frac{1}{2 q} \cdot \frac{1}{2 q}}{64 T (T / q - 1)^2} \ge \frac{7 "
        r"\eta}{128 T (T - q)}$.",
        right=r"The right side is $\frac{7 \eta}{256 T (T - q)}$.",
        why=r"$\left( \frac{1}{2 q} \right)^2$ is $1 / (4 q^2)$, and 4 times 64 is 256.",
    ),
    Erratum(
        rank=Rank.PROOF,
        at="Theorem E.6, proof: stage one",
        shown_by="middle of stage one",
        printed=r"$\frac{T - q}{T (T q - 2 q / s + 1 / s^2)(T / q - 1)} \ge \frac{1}{T (T - q)}$.",
        right=r"$s^2 / D^2 = 1 / (T q s - 2 q + 1 / s)^2 \ge 1 / (T - q)^2$, which gives the printed end directly.",
        why=r"Near $s = 1 / T$ the printed middle is $\frac{q}{T^2 (T - q)}$.",
    ),
    typographical(
        at="Theorem E.6, proof, after (***)",
        shown_by="power of d_e in the rate",
        printed=r"$\eta \le d_e / (40 d^2 T)$.",
        right=r"$\eta \le d_e^2 / (40 d^2 T)$, as in the theorem.",
        why=r"The two terms sum to at most $\frac{(1 + c)^2}{q} \left( \frac{10}{3} + \frac{15}{16} \right) \eta d / "
        "d_e$, and the left side is $d_e / (8 d T)$: this step of the proof allows learning rates that grow as "
        "$d_e^2$, and the learning rates of the theorem would not satisfy the printed condition.",
    ),
    typographical(
        at="Theorem E.6, proof, before (***)",
        shown_by="denominator before (***)",
        printed=r"$1 + \frac{(4 d T - d_e) w}{4 d q s (T s - 1)}$.",
        right="$4 d T q s (T s - 1)$ in the denominator, as in (S4).",
        why=r"$\frac{8 d T - d_e}{8 d T} - \frac{d_e}{8 d T} = \frac{4 d T - d_e}{4 d T}$.",
    ),
    Erratum(
        rank=Rank.STATEMENT,
        at="Theorem 3.3, the number of steps",
        shown_by="power of T on the plateau",
        printed=r"Training takes $T^{2 - 2 \delta} / \eta$ steps.",
        right=r"It takes $T^{(2 + 2 c) / (1 - c)} / \eta$ steps with $c = \delta \sqrt{q} / (1 - \delta) < 1$, the "
        r"bound of Lemma A.3, corrected. Theorem E.6 and Corollaries E.8, E.9 and E.16 print $T^{(2 - 2 \delta) / (1 - "
        r"3 \delta)} / \eta$, which is the same with the false bound $\delta / (1 - 2 \delta)$ in place of $c$.",
        why=r"The proof counts $T^{2 + 4 c / (1 - c)}$ steps, with $c$ the bound on the overlaps.",
    ),
    Erratum(
        rank=Rank.PROOF,
        at="Theorem E.6, proof: Phase II",
        slip="step across 1 / sqrt(T q)",
        shown_by="alpha* before 1 / sqrt(T q)",
        printed=r"While $s_+(t) < 1 / \sqrt{T q}$, $\alpha^\ast(t + 1) > \alpha^\ast(t)$, so that $\alpha(t + 1) < "
        r"\alpha^\ast(t + 1)$.",
        right=r"This holds while $s_+(t + 1) \le 1 / \sqrt{T q}$ too. In the step that crosses, $\alpha(t + 1) < "
        r"\alpha^\ast(t) \le \alpha^\ast$ at $1 / \sqrt{T q}$, which is below the upper end of (IH2) at $s_+(t + 1)$.",
        why=r"$\alpha^\ast$ is largest at $1 / \sqrt{T q}$, and falls in that step if $T q s_+(t) s_+(t + 1) > 1$: "
        "at $T = 30$, $q = 2$, $d = 1$, $d_e = 29$ it does.",
    ),
    Erratum(
        rank=Rank.PROOF,
        at="Theorem E.6, proof: (S4)",
        shown_by="(S4) below alpha*",
        printed=r"(S4) holds whenever $\alpha(t)$ is in the lower part of the interval.",
        right=r"It holds from $\alpha^\ast$ on. Below $\alpha^\ast$ the hypothesis is kept for another reason: with "
        r"$\alpha = \alpha^\ast - y$ the upper end falls by at most $\frac{\kappa}{8} (r \alpha^\ast + y)$, $\kappa = "
        r"\frac{d_e}{T d}$, and $\alpha(t + 1)$ is further below it.",
        why=r"The bound on the step of $C$ has $1 - \gamma^2$, which is for $\gamma \ge 0$. Below $\alpha^\ast$, "
        r"$\gamma$ is negative, the step is larger, and at $T = 10^6$, $q = 2$, $d_e = 6000$ the upper end falls below "
        "the middle of the interval.",
    ),
)


@experiment(version=6, name="selection.theorem_e6_proof")
def proof_steps(T: int, q: int, d: int, width: int, delta: float, epsilon: float, seed: int) -> dict[str, object]:
    """For each slip the pair [printed, right] of the amounts by which it is violated.

    `chain` has every corrected step of the proof, at the smaller of the theorem's rate and q / 2, and with the slowest
    and the fastest change of C that Lemma E.7 allows.
    """
    c = math.sqrt(q) * delta / (1 - delta)  # Lemma A.3, corrected
    a = 2 * c / (1 - c)
    spill, power = q**a / ((T - q) ** a + q**a), (q / T) ** a
    C = math.log((T - q) / q) / (1 - c)
    low, high = (1 / (q + (T - q) * math.exp(-C * (1 + e * c))) for e in (-1, 1))
    second = 7 * (T - q) / (4 * q**2) / (64 * T * (T / q - 1) ** 2)
    middle = []
    for s in np.linspace(1 / T, 1 / q, 101).tolist():
        left = (T - q) / (T * (T * q - 2 * q / s + 1 / s**2) * (T / q - 1))
        middle.append((1 - left * T * (T - q), (T * q * s - 2 * q + 1 / s) / (T - q) - 1))
    terms = (1 + c) ** 2 * (10 / 3 + 15 / 16) / q * d / width
    rate, largest = width**2 / (40 * d**2 * T), width / (8 * d * T) / terms
    needed = (8 * d * T - width) / (8 * d * T) - width / (8 * d * T)
    counted = 2 + 4 * c / (1 - c)
    slow, fast = ((1 + e * c) * d / width for e in (-1, 1))
    chain = Chain(T, q, d, epsilon, min(rate, q / 2), slow, fast, width / (T * d))
    return {
        "chain": proof_chain.steps(chain),
        "power of q/T": [power - spill, power / 2 - spill],
        "weights at the end of stage one": [high - 1 / (2 * q), 1 / (2 * q) - low],
        "constant of stage two": [1 - second * 128 * T * (T - q) / 7, abs(1 - second * 256 * T * (T - q) / 7)],
        "middle of stage one": missed(middle),
        # The theorem's own rate does not satisfy the printed condition, but satisfies the condition that the step
        # needs.
        "power of d_e in the rate": [rate / (width / (40 * d**2 * T)) - 1, rate / largest - 1],
        "denominator before (***)": [
            abs(needed - (4 * d * T - width) / (4 * d)),
            abs(needed - (4 * d * T - width) / (4 * d * T)),
        ],
        "power of T on the plateau": [abs(counted - (2 - 2 * delta)), abs(counted - (2 + 2 * c) / (1 - c))],
    }


@experiment(version=1, name="selection.theorem_e6_below")
def below_alpha_star(T: int, q: int, d: int, width: int, seed: int) -> dict[str, object]:
    """Return the pairs [printed, right] of the last two errata: of (S4), and, for T < 100, of a run that ends when s
    exceeds 1 / sqrt(T q).
    """
    speed, eta = d / width, min(width**2 / (40 * d**2 * T), q / 2)
    chain = Chain(T, q, d, 1e-3, eta, speed, speed, width / (T * d))
    pairs: dict[str, object] = {"(S4) below alpha*": list(proof_chain.below_the_interval(chain))}
    if T < 100:
        pairs["alpha* before 1 / sqrt(T q)"] = list(proof_chain.crossing(chain, speed))
    return pairs


def _cells() -> Iterator[Cell]:
    for T, q, d, width, delta in ((200, 3, 5, 170, 0.09), (80, 3, 5, 400, 0.05), (400, 2, 2, 3000, 0.08)):
        for epsilon in (5e-3, 1e-3, 1e-5):
            yield proof_steps.cell(seed=0, T=T, q=q, d=d, width=width, delta=delta, epsilon=epsilon)
    for T, width in ((30, 29), (24, 100), (10**6, 6000)):
        yield below_alpha_star.cell(seed=0, T=T, q=2, d=1, width=width)


@claim(
    where="Theorem E.6",
    part="proof",
    says="The proof repeats that of Theorem D.4 with mean weights over encodings, and constants that depend on "
    r"$\delta$.",
    cells=_cells,
    errata=PROOF,
    neighbours=(*as_printed(PROOF), *sharper(FACTORS)),
    history=(
        r"Until 2026-11-17 the quotients of the induction were those of $\alpha$, which are near 1 for every $\kappa$ "
        r"and $\eta$, and only three steps had a wrong neighbour; $c$ was $\delta / (1 - 2 \delta)$, and $\epsilon$ "
        "was $10^{-3}$. Now each quotient divides the change of a quantity by its largest allowed change, every step "
        r"has a neighbour, $c$ is the correct bound, there are three values of $\epsilon$, and the total number of "
        "steps is checked. The verdict did not change.",
        r"Until 2026-11-18 the step across $1 / \sqrt{T q}$ was cut off at that weight, and (S4) was judged below "
        r"$\alpha^\ast$ too, at sizes up to $T = 400$, at which it happens to hold. Both are errata now. The verdict "
        "did not change.",
        "On 2026-11-18 the factors in the wrong neighbours of the steps were chosen again after the quotients had "
        "been seen.",
    ),
)
def theorem_e_6_proof(cells: Sequence[CellResult], misprint: str = "", step: str = "", factor: float = 1.0) -> Finding:
    """Check the misprints and the whole corrected chain.

    In the chain all encodings have the same weight s. The claims `selection/theorem-e.6/mean-weights` and
    `selection/theorem-e.6/induction` are about weights that differ between encodings.
    """
    held, numbers = chain_holds(cells, step, factor)
    return compared(cells, PROOF, numbers, held=held, misprint=misprint)
