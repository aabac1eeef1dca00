"""Lemmas D.10, D.11 and D.12: linear self-attention with QK^T = 1 on D1, its entries, and a row with random signs."""

from __future__ import annotations

from separatrix.claims.separation.entry_lemmas import Lemma, register
from separatrix.claims.separation.row_lemmas import (
    NARROW,
    SIZE,
    Statement,
    at_corners,
    both_rows,
    bounded_a1,
    off_centre,
    row_lemma,
)
from separatrix.claims.separation.section_d_ones import any_key, cells, not_circ, output_lin, weights_lin
from separatrix.separation.statements import Reading

register(
    Lemma(
        "Lemma D.10",
        r"With $Q K^\top = \mathbf{1}$, on $\mathcal{D}_1$, $u_{\text{lin}}$ is $(1 + a_1)^2 \log n$ at $(j_3, "
        r"j_3)$, $(1 + a_1) \log n$ in the rest of that row and column, $\log n$ elsewhere; $f_{\text{lin}}$ is at "
        "most $(1 + a_1)/n$ in column $j_3$ and $1/n$ elsewhere.",
        Reading(1, "ones", "lin", weights_lin(1)),
        (any_key(1, "lin"), not_circ(1)),
    ),
    cells,
    __name__,
)

register(
    Lemma(
        "Lemma D.11",
        r"With $Q K^\top = \mathbf{1}$, on $\mathcal{D}_1$, $c_{\text{lin}}$ is at most $(1 + a_1) a_1 / n$ in the "
        "first column and at most $(1 + a_1) (t/n) b$ in the column of a class, and it is $c$ in the last column "
        r"(all times $\sqrt{\log n}$).",
        Reading(1, "ones", "lin", output_lin(1)),
    ),
    cells,
    __name__,
)

row_lemma(
    "Lemma D.12",
    r"With $Q K^\top = \mathbf{1}$, $d = \omega(n^{0.02})$ and $a_1 = O(1)$, on $\mathcal{D}_1$, for the rows "
    r"$c_{j_0}$ of $c_{\text{lin}}$: "
    f"{SIZE}.",
    NARROW,
    (
        *both_rows("ones", "lin", "1.2", "0.1", "rarely in size"),
        Statement("2", "ones", "lin", "1.2", "other", "0.1", "near its centre"),
        *at_corners("lin", 1),
    ),
    (
        off_centre("lin", "1.2"),
        bounded_a1(
            "ones",
            "n^0.5",
            "0.1",
            r"At $a_1 = \sqrt{n}$ the first entry of every row is $a_1 (1 + a_1) / (n + a_1) = 1$ times "
            r"$\sqrt{\log n}$, and $\lvert \langle c_{j_0}, \sigma \rangle \rvert$ exceeds the bound for about half of "
            r"the sign vectors if $c > 0.45$, and for nearly all of them if $c < 0.45$.",
        ),
    ),
    home=__name__,
)
