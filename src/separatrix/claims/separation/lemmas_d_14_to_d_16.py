"""Lemmas D.14, D.15 and D.16: linear self-attention with QK^T = 1 on D0, its entries, and a row with random signs."""

from __future__ import annotations

from separatrix.claims.ledger import typographical
from separatrix.claims.separation.entry_lemmas import EntrySlip, Lemma, register
from separatrix.claims.separation.row_lemmas import (
    NARROW,
    SIZE,
    Statement,
    at_corners,
    both_rows,
    off_centre,
    row_lemma,
)
from separatrix.claims.separation.section_d_ones import any_key, cells, not_circ, output_lin, weights_lin
from separatrix.separation.statements import Reading

register(
    Lemma(
        "Lemma D.14",
        r"With $Q K^\top = \mathbf{1}$, on $\mathcal{D}_0$, $u_{\text{lin}}$ and $f_{\text{lin}}$ are as in Lemma "
        "D.10, with $a_0$ in place of $a_1$.",
        Reading(0, "ones", "lin", weights_lin(0)),
        (
            EntrySlip(
                Reading(0, "identity", "lin", weights_lin(0)[:4]),
                typographical(
                    shown_by="the lemma with QK^T = I_d",
                    printed=r"$Q K^\top = I_d$.",
                    right=r"$Q K^\top = \mathbf{1}_{d \times d}$.",
                    why=r"$u_{\text{lin}}(j_3, j_3) = (1 + a_0)^2 \log n$ is $(a_0 + b + c)^2 \log n$; with $I_d$ "
                    r"it is $(a_0^2 + b^2 + c^2) \log n$.",
                ),
            ),
            any_key(0, "lin"),
            not_circ(0),
        ),
    ),
    cells,
    __name__,
)

register(
    Lemma(
        "Lemma D.15",
        r"With $Q K^\top = \mathbf{1}$, on $\mathcal{D}_0$, $c_{\text{lin}}$ is as in Lemma D.11, with $a_0$ in place "
        "of $a_1$.",
        Reading(0, "ones", "lin", output_lin(0)),
        (
            EntrySlip(
                Reading(0, "ones", "exp", output_lin(0)[1:2]),
                typographical(
                    at="Lemma D.15, proof of Part 2",
                    shown_by="the bound of Part 2 on softmax weights",
                    printed=r"$\langle f_{\text{exp}}, (A_3 V)_{i_0} \rangle \le ((1 + a_0) t/n) b \sqrt{\log n}$.",
                    right=r"It should be $f_{\text{lin}}$ in place of $f_{\text{exp}}$.",
                    why="For softmax weights the bound fails, for example at $a_0 = 0.09$ with one row in each class.",
                ),
            ),
        ),
    ),
    cells,
    __name__,
)

row_lemma(
    "Lemma D.16",
    r"With $Q K^\top = \mathbf{1}$ and $d = \omega(n^{0.02})$, on $\mathcal{D}_0$, for the rows "
    r"$c_{j_0}$ of $c_{\text{lin}}$: "
    f"{SIZE}.",
    NARROW,
    (
        *both_rows("ones", "lin", "0.01", "0.1", "rarely in size"),
        Statement("2", "ones", "lin", "0.01", "other", "0.1", "near its centre"),
        *at_corners("lin", 0),
    ),
    (off_centre("lin", "0.01"),),
    home=__name__,
)
