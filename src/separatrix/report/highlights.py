"""The highlights at the top of the page: a few findings, each with its figure.

A highlight is valid for one verdict of its claim. If the verdict in the store differs, the page says so in place of the
figure.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from separatrix.claims.ledger import Verdict
from separatrix.report.claim_parts import badge, called
from separatrix.report.claim_section import figure
from separatrix.report.evidence import Entry
from separatrix.report.markup import Html, tag
from separatrix.report.sketch import sketch
from separatrix.report.typeset import typeset


@dataclass(frozen=True)
class Highlight:
    """A finding: a title and a short text, the id of its claim, the verdict that it holds for, and its figure."""

    claim: str
    verdict: Verdict
    figure: str
    title: str
    says: str


HIGHLIGHTS = (
    Highlight(
        "separation/theorem-6.2/paths",
        Verdict.HOLDS_ASYMPTOTICALLY,
        "success_along_paths",
        "Softmax attention separates what linear attention cannot, but at the smallest widths of the theorem only for "
        "astronomical lengths",
        "The theorem requires a width that grows faster than $n^{0.02}$. With the width $n^{0.03}$, which it "
        "allows, softmax attention distinguishes the paper's two data sets and linear attention does not, with "
        "probability 0.99, from some length $n$ on; but that length exceeds the number of atoms in the Earth. The "
        r"theorem is not sharp either: a width of order $\log n$, which it excludes, is enough.",
    ),
    Highlight(
        "beyond/other-mechanisms/best-tau",
        Verdict.HOLDS,
        "separation_against_margin",
        "Linear attention can separate the paper's data too, but by a margin that vanishes as sequences grow",
        "At the threshold that suits it best, linear attention sometimes separates the paper's two data sets, with "
        "a margin that falls as $1/n$. Softmax attention separates them nine times in ten, with a margin that does "
        "not depend on $n$.",
    ),
    Highlight(
        "kronecker/lemma-e.1",
        Verdict.HOLDS,
        "sharp_rank",
        "Near-linear attention of order 3 needs far fewer columns than the paper proves",
        r"The paper counts $\binom{3(d + g)}{3 g}$ columns for a polynomial of degree $g$. We find that $\binom{d + "
        "g}{g}$ columns are enough, and that fewer are not. This smaller number is what makes the algorithm practical.",
    ),
    Highlight(
        "selection/corollary-3.6",
        Verdict.FAILS_AS_PRINTED,
        "length_ratio",
        "A guarantee for longer sequences fails as printed",
        "The corollary says that after training to a small loss at one length, the loss at a longer length is at "
        "most a constant times the training loss times the square of the ratio of the lengths. But no constant will "
        "do: the factor grows in proportion to the training length. The corollary holds if it requires the training "
        "time of the appendix in place of a small loss.",
    ),
    Highlight(
        "beyond/triples-by-training",
        Verdict.HOLDS,
        "match_accuracy",
        "Attention of order 3 learns what attention of order 2 does not",
        "The task is to find the tokens that sum to zero with two others. Trained on the same inputs with the same "
        "number of parameters, for 240 steps of 64 sequences, one layer of order 3 becomes more accurate than one "
        "layer of order 2. Ten times as many steps bring order 2 closer where the modulus is small.",
    ),
)


def highlights(chosen: Sequence[Highlight], entries: Sequence[Entry]) -> Html | None:
    """The section of the highlights whose claims are on the page; None if there are none."""
    known = {entry.judgement.claim.id: entry for entry in entries}
    cards = [_card(highlight, known[highlight.claim]) for highlight in chosen if highlight.claim in known]
    if not cards:
        return None
    return tag("section", tag("h2", "Findings"), *cards, id="findings")


def _card(highlight: Highlight, entry: Entry) -> Html:
    judgement = entry.judgement
    source = tag("p", tag("a", called(judgement.claim), href=f"#{highlight.claim}"), " ", badge(judgement.verdict, tag))
    words = tag("div", tag("h3", highlight.title), tag("p", *typeset(highlight.says, tag)), source, class_="words")
    return tag("div", words, _shown(highlight, entry), class_="highlight")


def _shown(highlight: Highlight, entry: Entry) -> Html:
    """The figure, or the reason why it is not shown."""
    verdict, note = entry.judgement.verdict, entry.judgement.finding.note
    if verdict is not highlight.verdict:
        difference = (
            f"The verdict from them is “{verdict}”; the finding was made with the verdict “{highlight.verdict}”."
        )
        sentence = f"The results in this folder do not show this finding. {difference} {note}"
        return tag("p", *typeset(sentence, tag), class_="note")
    panel = next(panel for panel in entry.panels if panel.name == highlight.figure)
    return figure(panel, highlight.claim, of="highlight", outline=sketch(json.loads(panel.json)))
