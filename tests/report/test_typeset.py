"""Formulas as MathML."""

from __future__ import annotations

import pytest

from separatrix.report.markup import tag
from separatrix.report.typeset import mathml, typeset, with_formulas


@pytest.mark.parametrize(
    ("latex", "written"),
    [
        (r"\frac{1}{n} \le \delta", "<mfrac><mn>1</mn><mi>n</mi></mfrac><mo>≤</mo><mi>δ</mi>"),
        ("a < b", "<mi>a</mi><mo>&lt;</mo><mi>b</mi>"),
        (r"\sqrt{x + 1}", "<msqrt><mrow><mi>x</mi><mo>+</mo><mn>1</mn></mrow></msqrt>"),
        (r"\sqrt[3]{x}", "<mroot><mi>x</mi><mn>3</mn></mroot>"),
        (r"a_1^2", "<msubsup><mi>a</mi><mn>1</mn><mn>2</mn></msubsup>"),
        (r"u_{\text{exp}}", "<msub><mi>u</mi><mtext>exp</mtext></msub>"),
        (r"\log n", '<mi>log</mi><mspace width="0.17em"></mspace><mi>n</mi>'),
        (r"\tilde{t}", '<mover accent="true"><mi>t</mi><mo stretchy="false">~</mo></mover>'),
        ("1/2", '<mn>1</mn><mo lspace="0" rspace="0">/</mo><mn>2</mn>'),
        (r"a - b", "<mi>a</mi><mo>\N{MINUS SIGN}</mo><mi>b</mi>"),
        (r"= -b", '<mo>=</mo><mo form="prefix">\N{MINUS SIGN}</mo><mi>b</mi>'),
    ],
)
def test_mathml(latex: str, written: str) -> None:
    assert mathml(latex) == written


def test_words_stay_words() -> None:
    """Text outside of formulas is escaped as usual, and formulas cannot contain markup."""
    element = tag("p", *typeset("if <b> & $n < 2$ holds", tag))
    assert element == "<p>if &lt;b&gt; &amp; <math><mi>n</mi><mo>&lt;</mo><mn>2</mn></math> holds</p>"
    assert "<script>" not in tag("p", *typeset(r"$\text{<script>}$", tag))


@pytest.mark.parametrize(
    ("caption", "written"),
    [
        ("a constant n^(k-1), 2^-3 and A^T B", "a constant $n^{k-1}$, $2^{-3}$ and $A^{T} B$"),
        ("W's end, Lemma B.1, part d.", "W's end, Lemma B.1, part $d$."),
        ("Setting B has B = 2, C: Appendix C.", "Setting B has $B = 2$, C: Appendix C."),
        ("over a0 at $n^2$, with eps = 1/2", r"over $a_0$ at $n^2$, with $\epsilon = 1/2$"),
        ("R = 0.5. At n = 1,000, a = 2% of part a", "$R = 0.5$. At $n$ = 1,000, $a$ = 2% of part a"),
        ("32 x 32 pairs of x", "32 \N{MULTIPLICATION SIGN} 32 pairs of $x$"),
        ("a beta-test of x-rays (1 - p)^m", "a beta-test of x-rays (1 - $p$)^m"),
        ("at 1e-05 and 3.5e+11, in e4m3, in 2.3 s", r"at $10^{-5}$ and $3.5 \cdot 10^{11}$, in e4m3, in 2.3 s"),
        ("s >= 1 at d_e = K log T of learned_scale", r"$s$ ≥ 1 at $d_e = K$ log $T$ of learned_scale"),
    ],
)
def test_captions_with_formulas(caption: str, written: str) -> None:
    """Letters and powers become formulas; words, numbers of claims and existing formulas are unchanged."""
    assert with_formulas(caption) == written
