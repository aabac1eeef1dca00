"""Displays in the proofs of Theorems D.4 and E.6 of Wang, Wei, Hsu and Lee in which a factor is missing.

s is the (mean) weight of a position in y, w = 1 - q s, D = T q s^2 - 2 q s + 1, alpha* = (T - q) s / D, and x^2 = q (T
- q) epsilon / (d T). A pair holds the largest relative violations of a line, as printed and as corrected, over a grid
of s. None of the slips invalidates a theorem.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from separatrix.claims.ledger import CellResult, Erratum, Finding, Rank, claim, typographical
from separatrix.claims.misprint_pairs import as_printed, compared, missed
from separatrix.lab.cell import Cell
from separatrix.lab.registry import experiment
from separatrix.selection.dynamics import population_dynamics

_AT_THE_END = "loss at the upper end"


def _upper(shown_by: str) -> Erratum:
    return Erratum(
        rank=Rank.PROOF,
        slip=_AT_THE_END,
        shown_by=shown_by,
        printed=r"In the loss at $\alpha_2 = \alpha^\ast + \Delta \alpha$ the terms in $(1 - q s)^2$ are $\frac{4 "
        r"x}{T} (\alpha^\ast)^2 (1 - q s)^2 + \frac{4 q (T - q) \epsilon}{d T^3} (\alpha^\ast)^2 (1 - q s)^2$.",
        right=r"The two coefficients are $\frac{4x}{T s}$ and $\frac{4 q (T - q) \epsilon}{d T^3 s^2}$.",
        why=r"The bound is on $\Delta \alpha \cdot s \le \frac{2 x}{T} \alpha^\ast$, so that $\Delta "
        r"\alpha$ itself has $1/s$. The terms of first order then cancel, as $\alpha^\ast$ is a minimum, and the "
        r"loss is still at most $\epsilon$.",
    )


D_4 = (_upper("factor 1/s at the upper end, D.4"),)
E_6 = (
    _upper("factor 1/s at the upper end, E.6"),
    typographical(
        shown_by="factor T in the decrement",
        printed=r"$\ldots - \frac{\Delta s}{q s^2 (T s - 1)} - \frac{\Delta s}{q s (T s - 1)^2}$.",
        right=r"$\frac{T \Delta s}{q s (T s - 1)^2}$ in the last term.",
        why=r"It is $\frac{1}{qT} \cdot \frac{1}{s} \cdot \frac{\Delta s}{(s - 1/T)^2}$, and the next line, with $2 "
        "T s - 1$, is the sum with it. (This erratum rests on a single character of the text that we read.)",
    ),
    typographical(
        shown_by="rate in the first term after (***)",
        printed=r"$\frac{405 d T (T - q) s^4 (1 - q s)^3}{128 (T s - 1) d_e D^2}$ as a bound on $\frac{45 T "
        r"q s^2 (1 - q s) \Delta C}{16 q (T s - 1)}$.",
        right=r"The bound has the factor $\eta$.",
        why="(UP1), which is inserted here, has this factor, and so has the next line. (This erratum rests on a "
        "single character of the text that we read.)",
    ),
    typographical(
        shown_by="second term after (***)",
        printed=r"$\frac{135 (1 - q s) \Delta C}{32 q (T s - 1)} \cdot \frac{9 \eta d}{32 q}$.",
        right=r"$\frac{135 (1 - q s)}{32 q (T s - 1)} \cdot \frac{9 \eta d}{32 q d_e}$.",
        why=r"(UP2) is inserted for $\Delta C$; but the printed product still contains $\Delta C$, and has lost the "
        "$d_e$ of (UP2).",
    ),
    typographical(
        shown_by="power of s in (##)",
        printed=r"$\frac{405 \eta q (T - q)^2 s^5 (1 - q s)^3}{256 D^4} \le \frac{405 \eta}{256} (T - q)^2 \frac{1 - q "
        r"s}{q (T s - 1)} \cdot \frac{q s^5 (1 - q s)^2}{D^3}$.",
        right="The right side has $s^4$.",
        why=r"Using $D \ge q s (T s - 1)$ removes a power of $s$; with $s^5$ the inequality is false, and the next "
        "line has $s^4$. (This erratum rests on a single character of the text that we read.)",
    ),
    typographical(
        shown_by="factor (T - q)^2 / T in (##)",
        printed=r"$\frac{1215 \eta (T - q)^2 s^2 (1 - q s)^3}{512 q T (T s - 1) D^3} \le \frac{1215 \eta}{512} \cdot "
        r"\frac{1 - q s}{q (T s - 1)} \cdot \frac{(1 - q s)^2}{D^2 (T q - 2 q / s + 1 / s^2)}$.",
        right=r"The right side has the factor $\frac{(T - q)^2}{T}$.",
        why="Without this factor the right side is too small by a factor of about $T$; with it the next line, "
        r"$\frac{1215 \eta}{4096}$, follows.",
    ),
    typographical(
        shown_by="rate in the first stage's count",
        printed=r"The first stage takes $\tilde{O}(T^{(2 - 2 \delta) / (1 - 3 \delta)})$ iterations.",
        right=r"$\tilde{O}(T^{(2 + 2 c) / (1 - c)} / \eta)$, with $c = \delta \sqrt{q} / (1 - \delta)$ in place of "
        r"$\delta / (1 - 2 \delta)$, for which this is the printed power.",
        why=r"The count divides by the step of $C$, which contains $\eta$; and the theorem has it.",
    ),
    Erratum(
        rank=Rank.PROOF,
        shown_by="alpha in Phase I",
        printed=r"In Phase I, $1/2 < \alpha < 1$, and $\Delta C \ge \frac{7 \eta d T}{16 d_e (T - q)} E[(1 - q s_+)(1 "
        r"- q s) s_+]$.",
        right=r"The bound holds from $\alpha \ge 1/2$ on, which takes $O(T / \eta)$ further steps.",
        why=r"Phase I begins at $\alpha = 0$, where $C$ does not move. The final count includes the steps of this "
        "phase anyway.",
    ),
    typographical(
        shown_by="reason for the monotone C",
        printed=r"$\alpha \le (1 + \frac{(d - 1)(1 - q s)}{d q s (T s - 1)}) \alpha^\ast$, as the reason "
        "that $C$ does not fall.",
        right=r"$\frac{8 T d - d_e}{8 T d}$ in place of $\frac{d - 1}{d}$, as in (IH2).",
        why=r"The printed bound comes from Theorem D.4, where it is misprinted too. At $d = 1$ it would say $\alpha "
        r"\le \alpha^\ast$.",
    ),
    typographical(
        shown_by="alpha in the factor of the update",
        printed=r"The factor in the update of $C$ is $1 - \frac{q (T s - 1)}{T - q}$, where it is shown to be "
        r"positive.",
        right=r"$1 - \frac{q \alpha (T s - 1)}{T - q}$, as in the update rule.",
        why=r"$\alpha$ is bounded by (IH2) in the next step, and may be above 1, where the printed factor is larger.",
    ),
    typographical(
        shown_by="decrement of alpha*",
        printed=r"$\alpha^\ast(t) - \frac{(T - q) T q \Delta s}{T q s - 2 q + 1 / s + 1} \alpha^\ast(t)$, for the "
        "line before it.",
        right=r"$\alpha^\ast(t) - \frac{T q \Delta s}{T q s - 2 q + 1 / s} \alpha^\ast(t)$.",
        why=r"$\alpha^\ast = \frac{T - q}{T q s - 2 q + 1 / s}$ takes the factor $T - q$ and one power of the "
        "denominator of "
        r"$\frac{(T - q) T q \Delta s}{(T q s - 2 q + 1 / s)^2}$. The display after it has the right term.",
    ),
    typographical(
        shown_by="names of the statements",
        printed="After (***): And therefore, (S2) is proved, which also leads to (S1).",
        right="(S4) is proved, which also leads to (S3).",
        why="(S1) and (S2) are those of Theorem D.4, with $1 / d$ in place of $d_e / (T d)$: their interval for "
        r"$\alpha$ is another one.",
    ),
)


@experiment(version=3, name="selection.proof_displays")
def displays(T: int, q: int, d: int, width: int, seed: int) -> dict[str, list[float]]:
    """Return, for each display, the pair [printed, right] of violations for s from 1 / sqrt(T q) to nearly 1 / q."""
    eta = min(width**2 / (40 * d**2 * T), q / 2)
    pairs: dict[str, list[tuple[float, float]]] = {erratum.shown_by: [] for erratum in (*D_4, *E_6)}
    for s in np.linspace(1 / math.sqrt(T * q), 1 / q, 60)[1:-1].tolist():
        w, D = 1 - q * s, T * q * s * s - 2 * q * s + 1
        best = (T - q) * s / D
        found_upper = _upper_terms(T, q, s)
        for erratum in (*D_4, E_6[0]):
            pairs[erratum.shown_by].append(found_upper)
        decrement = (2 * T * s - 1) / (q * s**2 * (T * s - 1) ** 2)
        sums = [1 / (q * s**2 * (T * s - 1)) + k / (q * s * (T * s - 1) ** 2) for k in (1, T)]
        pairs["factor T in the decrement"].append(_apart(decrement, sums))
        largest = 9 * eta * d * (T - q) * s**2 * w**2 / (8 * width * D**2)
        first = 45 * T * q * s**2 * w * largest / (16 * q * (T * s - 1))
        line = 405 * d * T * (T - q) * s**4 * w**3 / (128 * (T * s - 1) * width * D**2)
        pairs["rate in the first term after (***)"].append(_apart(first, [line, eta * line]))
        # The term at the largest step of C over all alpha in the interval.
        second = 135 * w / (32 * q * (T * s - 1)) * _largest_step(T, q, d, width, eta, s)
        forms = [second * 9 * eta * d / (32 * q), 1215 * eta * d * w / (1024 * q**2 * (T * s - 1) * width)]
        pairs["second term after (***)"].append(_below(second, forms))
        left = 405 * eta * q * (T - q) ** 2 * s**5 * w**3 / (256 * D**4)
        sides = [405 * eta / 256 * (T - q) ** 2 * w / (q * (T * s - 1)) * q * s**p * w**2 / D**3 for p in (5, 4)]
        pairs["power of s in (##)"].append(_below(left, sides))
        left = 1215 * eta * (T - q) ** 2 * s**2 * w**3 / (512 * q * T * (T * s - 1) * D**3)
        side = 1215 * eta / 512 * w / (q * (T * s - 1)) * w**2 / (D**2 * (T * q - 2 * q / s + 1 / s**2))
        pairs["factor (T - q)^2 / T in (##)"].append(_below(left, [side, side * (T - q) ** 2 / T]))
        gain = 1 - q * _end(T, q, s, width / (8 * T * d)) * (T * s - 1) / (T - q)
        gains = [1 - q * _end(T, q, s, 1 / d) * (T * s - 1) / (T - q), width / (8 * T * d) * w / D]
        end = _end(T, q, s, width / (8 * T * d))
        factors = [1 - q * alpha * (T * s - 1) / (T - q) for alpha in (1.0, end)]
        pairs["alpha in the factor of the update"].append(_apart(_factor(T, q, s, end), factors))
        pairs["reason for the monotone C"].append(((gains[0] - gain) / abs(gains[0]), abs(gains[1] / gain - 1)))
        base = T * q * s - 2 * q + 1 / s
        forms = [(T - q) * T * q / (base + 1) * best, T * q / base * best]
        pairs["decrement of alpha*"].append(_apart((T - q) * T * q / base**2, forms))
        ends = [_end(T, q, s, less) for less in (1 / (8 * d), width / (8 * T * d))]
        pairs["names of the statements"].append(_apart(end, ends))
        assert best >= 1 - 1e-12
    counts = [_first_stage(T, q, d, width, rate) for rate in (eta, eta / 4)]
    pairs["rate in the first stage's count"] = [(abs(counts[1] / counts[0] - 1), abs(counts[1] / counts[0] / 4 - 1))]
    pairs["alpha in Phase I"] = [_phase_one(T, q, d)]
    return {name: missed(pairs) for name, pairs in pairs.items()}


def _end(T: int, q: int, s: float, less: float) -> float:
    """(1 + (1 - less) r) alpha*."""
    r = (1 - q * s) / (q * s * (T * s - 1))
    return (1 + (1 - less) * r) * (T - q) * s / (T * q * s * s - 2 * q * s + 1)


def _largest_step(T: int, q: int, d: int, width: int, eta: float, s: float) -> float:
    """The largest step of C over alpha from 1/2 to the upper end: 9/8 of that with orthogonal encodings."""
    alpha = np.linspace(0.5, _end(T, q, s, width / (8 * T * d)), 401)
    steps = alpha * s * (1 - q * s) * (1 - q * alpha * (T * s - 1) / (T - q))
    return float(9 / 8 * eta * d / width * steps.max())


def _factor(T: int, q: int, s: float, alpha: float) -> float:
    """The last factor of the update of C, -L' / (d alpha), with the derivative of the loss in s by a complex step."""
    z = complex(s, 1e-30)
    loss = ((T - q) * q * (alpha * z - 1 / q) ** 2 + alpha**2 * (1 - q * z) ** 2) / (2 * (T - q))
    return -loss.imag / 1e-30 / alpha


def _first_stage(T: int, q: int, d: int, width: int, eta: float) -> float:
    """The proof's number of steps of the first stage: the increase of C divided by the smallest step."""
    s = np.linspace(1 / T, 1 / (2 * q), 200)
    least = eta * d / width * (s * (1 - q * s) * (1 - q * (T * s - 1) / (T - q))).min()
    return float(math.log((T - q) / q) / least)


def _apart(value: float, forms: Sequence[float]) -> tuple[float, float]:
    """The relative distances of two forms from a value."""
    printed, right = (abs(form / value - 1) for form in forms)
    return printed, right


def _below(left: float, sides: Sequence[float]) -> tuple[float, float]:
    """The relative excess of the left side over two right sides."""
    printed, right = (1 - side / left for side in sides)
    return printed, right


def _upper_terms(T: int, q: int, s: float) -> tuple[float, float]:
    """Compare alpha_2^2 w^2 - alpha*^2 w^2 with the two forms, for Delta alpha = 2 x alpha* / (T s) and x = 0.1."""
    x, w, best = 0.1, 1 - q * s, (T - q) * s / (T * q * s * s - 2 * q * s + 1)
    grown = (best + 2 * x * best / (T * s)) ** 2 * w**2 - best**2 * w**2
    forms = [(4 * x / (T * p) + 4 * x**2 / (T * p) ** 2) * best**2 * w**2 for p in (1.0, s)]
    return _apart(grown, forms)


def _phase_one(T: int, q: int, d: int) -> tuple[float, float]:
    """The violation of the bound on the step of C along a run, from the start and from alpha = 1/2 on.

    For one-hot encodings d_e is T - 1 here, so that their steps are d / (T - 1).
    """
    eta = 1 / (20 * d**2)
    run = population_dynamics(T, q, d, eta, math.ceil(3 * T / eta))
    s = 1 / (q + (T - q) * np.exp(-run.C[:-1]))
    bound = 7 * eta * d * T / (16 * (T - 1) * (T - q)) * (1 - q * s) ** 2 * s
    short = 1 - np.diff(run.C) / bound
    late = (run.alpha[:-1] >= 0.5) & (run.alpha[:-1] < 1)
    return float(short.max()), float(short[late].max())


def _cells() -> Iterator[Cell]:
    # The first is a corner: q just below T / 4.
    for T, q, d, width in ((9, 2, 1, 60), (50, 3, 2, 300), (200, 3, 5, 1500)):
        yield displays.cell(seed=0, T=T, q=q, d=d, width=width)


@claim(
    where="Theorem D.4",
    part="displays",
    says=r"At its end the proof bounds the loss at the upper end of the interval in which $\alpha$ lies.",
    cells=_cells,
    errata=D_4,
    neighbours=as_printed(D_4),
)
def theorem_d_4_displays(cells: Sequence[CellResult], misprint: str = "") -> Finding:
    """Check the terms of the display along s, at the largest x."""
    return compared(cells, D_4, misprint=misprint)


@claim(
    where="Theorem E.6",
    part="displays",
    says="The claim is about the displays of the proof: the decrement before (***), its two terms, the two terms of "
    "(##), the first stage, Phase I, and the loss at the end.",
    cells=_cells,
    errata=E_6,
    neighbours=as_printed(E_6),
)
def theorem_e_6_displays(cells: Sequence[CellResult], misprint: str = "") -> Finding:
    """Check each line, as printed and as corrected, along s."""
    return compared(cells, E_6, misprint=misprint)
