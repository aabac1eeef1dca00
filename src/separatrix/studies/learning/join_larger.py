"""Two-hop joins among more facts: models trained on 16 and 32 facts.

Everything, including the learning rates and the 1,200 steps, is as in `join_alike`, except for the number of entities,
which is 16: 64 facts, which were planned too, need 64 pairs of a head and a relation. Guessing among the facts with the
second relation is right in about 1 of 4 inputs of 16 facts, and 1 of 8 of 32 facts.

The following was expected. It was written down with the rules before any of these runs, but after the results of models
trained on 8 facts and evaluated on up to 32. For each number of facts:

- One layer of order 3 is ahead of one layer of order 2 and of the product of two order-2 attentions, at equal steps and
  at equal CPU time.
- The pairwise form, the determinant form and a layer with heads of orders 2 and 3 are ahead of one layer of order 2.
- One layer of order 3 is ahead of two layers of order 2. This third claim is expected to fail or to stay undecided,
  because two layers had the larger mean on 8 facts.

The rule of each claim is that of `join_alike`: it holds if every lead that it names is above zero with statistical
significance (95%, paired by seed, seeds 1, 2 and 3), fails if one is below zero with significance, and is undecided
otherwise.

The order of the runs, in case the time does not suffice: by increasing number of facts, and for each number first the
attentions of the first and third claim, then those of the second. A claim whose runs are incomplete at the end of the
available time is withdrawn, independently of the other results.

When 16 facts, and 32 facts for the first and third claim, had been run, no attention had learned to join within 1,200
steps, except with one seed. So the runs of the other forms on 32 facts were stopped, and those on 64 facts were not
started; their claims are withdrawn. Runs of 3,600 steps on 16 facts among 8 entities were declared then, and are
withdrawn too, because they were not complete when the time was over.
"""

from __future__ import annotations

from collections.abc import Sequence

from separatrix.claims.ledger import Claim, claim
from separatrix.studies.learning.join import ONE, PRODUCT, THREE, TWO, leads
from separatrix.studies.learning.join_alike import ALIKE, DETERMINANT, MIXED, PAIRWISE, STEPS, joins_alike, judged_joins
from separatrix.studies.learning.runs import TURNED, Expectation, ahead_by

ENTITIES = 16


def _trained(
    facts: int,
    part: str,
    says: str,
    expectations: Sequence[Expectation],
    attentions: Sequence[str],
    figures: tuple[str, ...],
) -> Claim:
    return claim(
        where="Two-hop joins",
        part=f"{facts} facts, {part}",
        says=f"Trained on two-hop joins among {facts} facts of {ENTITIES} entities for {STEPS:,} steps, {says}, "
        f"{ALIKE}.",
        profile="full",
        cells=lambda: joins_alike(facts, attentions, entities=ENTITIES, longer=()),
        figures=figures,
        neighbours=(TURNED, ahead_by(0.95)),
    )(lambda results, turned=False, by=0.0: judged_joins(results, expectations, turned, by))


_TIMED = ("learning_curves", "join_time")


def _against_one(facts: int, attentions: Sequence[str]) -> Claim:
    says = "one layer of order 3 becomes better than one layer of order 2 and than a product of two order-2 attentions"
    return _trained(facts, "against one layer", says, leads([THREE], [ONE, PRODUCT]), attentions, _TIMED)


def _against_two(facts: int, attentions: Sequence[str]) -> Claim:
    says = "one layer of order 3 becomes better than two layers of order 2"
    return _trained(facts, "against two layers", says, leads([THREE], [TWO]), attentions, _TIMED)


_FIRST = (ONE, TWO, PRODUCT, THREE)
_FORMS = (PAIRWISE, DETERMINANT, MIXED)
larger_16, layers_16 = _against_one(16, _FIRST), _against_two(16, _FIRST)
larger_32, layers_32 = _against_one(32, _FIRST), _against_two(32, _FIRST)
forms_16 = _trained(
    16,
    "other forms",
    "one layer of the pairwise form, one of the determinant form and one with heads of orders 2 and 3 become better "
    "than one layer of order 2",
    leads(_FORMS, [ONE]),
    (ONE, *_FORMS),
    ("learning_curves",),
)
