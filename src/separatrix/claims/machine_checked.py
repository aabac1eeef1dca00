"""Proofs that the Coq proof assistant has checked: which theorem of `proofs/` proves which claim.

`make proofs` compiles the files of `proofs/` and prints the axioms of every theorem. The tests, which need no Coq,
compare the theorems below with those of the files, and their statements with `proofs/statements.json`, which has each
statement with the text of its claim.

>>> [proof.theorem for proof in proofs_of("kronecker/lemma-d.3")]
['kronecker_lemma_d_3', 'kronecker_lemma_d_3_sharp']
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CheckedProof:
    """A theorem that Coq has checked.

    `file` is its path in the repository and `proves` a sentence that says what is proved. `claim` is the id of the
    claim that it is about, or empty for a statement about the library itself.
    """

    theorem: str
    file: str
    proves: str
    claim: str = ""


def _proofs(file: str, claim: str, **theorems: str) -> tuple[CheckedProof, ...]:
    return tuple(CheckedProof(theorem, f"proofs/{file}", proves, claim) for theorem, proves in theorems.items())


PROOFS: tuple[CheckedProof, ...] = (
    *_proofs(
        "Certificate.v",
        "",
        certificate_identity="The difference between the exact output and the computed numerator and denominator.",
        certificate_bound=r"The error of an output is at most $(E (\max v - \min v) + 2 \rho \lvert v \rvert_{\max}) / "
        r"\tilde{D}$.",
        certificate_log_sum_exp=r"The error of the log-sum-exp is at most $(E + \rho) / (\tilde{D} - E - \rho)$.",
        certificate_drift=r"Scores that are off by $\eta$ add $(e^\eta - 1) (\tilde{D} + E + \rho)$ to $E$.",
        certificate_weights=r"The errors of the weights in the backward pass sum to at most $(E' + E + \rho) / "
        r"\tilde{D}$.",
    ),
    *_proofs(
        "ColumnKronecker.v",
        "kronecker/lemma-c.3",
        kronecker_lemma_c_3=r"Part 1: $A^\top B$ is the entrywise product of $A_1^\top B_1$ and $A_2^\top B_2$. The "
        "running time of part 2 is not formalised.",
        kronecker_lemma_c_3_crossed_refuted=r"With $A_1^\top B_2$ and $A_2^\top B_1$ the identity is false.",
    ),
    *_proofs(
        "ColumnKronecker.v",
        "kronecker/lemma-c.3/proof",
        kronecker_lemma_c_3_proof=r"$A^\top B$ is the sum of $n^2$ products of rows, one for each pair.",
        kronecker_lemma_c_3_proof_refuted="The printed sum over columns is another matrix.",
    ),
    *_proofs(
        "ColumnKronecker.v",
        "kronecker/lemma-c.5/part-1",
        kronecker_lemma_c_5_part_1="The matrix of scores is the tensor of triple inner products, the first index "
        "running fastest.",
        kronecker_lemma_c_5_part_1_transposed_refuted="With the second index running fastest it is not.",
    ),
    *_proofs(
        "ColumnKronecker.v",
        "kronecker/lemma-c.5/part-2",
        kronecker_lemma_c_5_part_2=r"The row sums are $A(I, \mathbf{1}, \mathbf{1})$, and need only the "
        "column sums of the keys.",
    ),
    *_proofs(
        "ColumnKronecker.v",
        "kronecker/lemma-c.5/part-3",
        kronecker_lemma_c_5_part_3=r"The scores times $V_1 \otimes V_2$ are $Q$ times the entrywise product of "
        r"$K_1^\top V_1$ and $K_2^\top V_2$.",
    ),
    *_proofs(
        "ErrorPropagation.v",
        "kronecker/lemma-d.3",
        kronecker_lemma_d_3=r"No score exceeds $B^3$, for every $B$.",
        kronecker_lemma_d_3_sharp="Equality is reached.",
    ),
    *_proofs(
        "ErrorPropagation.v",
        "kronecker/lemma-d.5",
        kronecker_lemma_d_5=r"Relative errors $\epsilon_A$ of the weights are relative errors of their row sums.",
        kronecker_lemma_d_5_sharp="Equality is reached.",
    ),
    *_proofs(
        "ErrorPropagation.v",
        "kronecker/lemma-d.5/proof",
        kronecker_lemma_d_5_proof_refuted="The printed sum over $j$ is not the row sum.",
    ),
    *_proofs(
        "ErrorPropagation.v",
        "kronecker/lemma-d.6",
        kronecker_lemma_d_6=r"The corrected statement, where $D$ and $\tilde{D}$ are row sums.",
        kronecker_lemma_d_6_refuted="The printed statement is false, even if its bound is multiplied by any factor.",
        kronecker_lemma_d_6_free_normaliser=r"If $D$ is the row sums but $\tilde{D}$ is arbitrary within $\epsilon_D$ "
        r"of it, the bound is exceeded by the factor $1 / (1 - \epsilon_D)$.",
    ),
    *_proofs(
        "SharpRank.v",
        "kronecker/lemma-e.1",
        kronecker_lemma_e_1_count=r"There are $\binom{d + g}{g}$ multi-indices of degree at most $g$.",
        kronecker_lemma_e_1_sharp=r"For a polynomial $P$ of degree $g$, $P(\langle x, y, z \rangle)$ is a sum over "
        "these multi-indices of a function of $x$ times one of $y$ times one of $z$.",
        kronecker_lemma_e_1_no_fewer=r"If no coefficient of $P$ is 0, fewer than $\binom{d + g}{g}$ products are not "
        "enough.",
        kronecker_lemma_e_1_example="At $d = 8$ and $g = 4$ these are 495.",
    ),
    *_proofs(
        "SelectionOverlap.v",
        "selection/corollary-e.16",
        selection_corollary_e_16_isometry=r"Orthonormal encodings, together with one encoding that has the inner "
        r"product $c$ with each of them, have the $(q, c \sqrt{2 q})$-property.",
        selection_corollary_e_16_overlap="The last encoding has the inner product $q c$ with the code of a subset of "
        "the others.",
        selection_corollary_e_16_code="Every subset of the orthonormal encodings has a code.",
        selection_corollary_e_16_error=r"The error on such a subset is at least $\frac{1}{q} - e^{-2 C (q c - 1)}$ "
        r"for every $\alpha$.",
        selection_corollary_e_16_refuted=r"With $q = 256$, $T = 1025$ and $\delta < \frac{1}{10}$ an overlap exceeds "
        r"1.12, and for $C \ge 40$ the loss on each subset of the others exceeds 30 times the largest $\epsilon$ that "
        "is allowed.",
    ),
    *_proofs(
        "ExponentialApproximation.v",
        "",
        exponential_float_polynomial=r"The polynomial for float has a relative error of at most $0.37 \cdot 2^{-24}$.",
        exponential_double_polynomial=r"The polynomial for double has a relative error of at most $0.385 \cdot "
        r"2^{-53}$.",
    ),
    *_proofs(
        "Exponential.v",
        "",
        exponential_float_error=r"The exponential function of the kernels has a relative error of at most $2.4 \cdot "
        "2^{-24}$ in float, with and without fused multiply-adds.",
        exponential_double_error=r"In double the error is at most $2.4 \cdot 2^{-53}$.",
        exponential_reduction_exact="The reduced argument $f = x - n$ has no rounding error.",
    ),
)
"""Every theorem of `proofs/`, file by file."""


def proofs_of(claim: str) -> tuple[CheckedProof, ...]:
    """Return the machine-checked proofs about a claim, given by its id; none if there are none."""
    return tuple(proof for proof in PROOFS if proof.claim == claim)
