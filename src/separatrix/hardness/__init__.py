"""Problems that order-3 attention decides: triples by one head, and satisfiability by a chain of reductions.

After Josh Alman and Zhao Song, "How to Capture Higher-order Correlations? Generalizing Matrix Softmax Attention to
Kronecker Computation", and Clayton Sanford, Daniel Hsu and Matus Telgarsky, "Representational strengths and limitations
of transformers".

matching             the tasks Match2, Match3, ..., and their answers
match_instances      instances of them: uniform, planted, and hard ones
match_margin         how sharp an attention head must be to solve them
match_construction   the head that solves them, with explicit weights
match_training       models that learn them

cnf, dimacs          formulas, and the files they are read from
sat                  the chain of reductions as a whole, from a formula to an assignment
orthogonal_vectors   the first reduction: SAT to three-way orthogonal vectors (3OV)
maxip                the second reduction: 3OV to Gap-MaxIP, with a small gap
protocol_vectors     the second reduction by a Merlin-Arthur protocol, with a constant gap
protocol, reed_solomon, cheating_merlin   the protocol, its codes, and the best strategy of a cheating Merlin
padded_attention     the third reduction: Gap-MaxIP to attention (Lemma B.1)
attention_decision   Gap-MaxIP decided by one call of attention
smallest_beta        how large the entries must be for that

>>> import torch
>>> from separatrix.hardness import match3_by_attention, match_labels
>>> x = torch.tensor([3, 14, 15, 92, 65])
>>> torch.equal(match3_by_attention(x, 100), match_labels(x, 100, order=3))
True
>>> from separatrix.hardness import Formula, decide_formula
>>> decide_formula(Formula(3, ((1, 2), (-1, 3), (-2, -3), (1, 3)))).assignment
(True, False, True)
"""

from separatrix.hardness.attention_decision import gap_maxip_by_attention, triple_by_attention
from separatrix.hardness.cheating_merlin import Cheat, best_cheat
from separatrix.hardness.cnf import Formula, planted_formula, random_formula
from separatrix.hardness.dimacs import parse_dimacs, read_dimacs
from separatrix.hardness.match_construction import (
    match2_by_attention,
    match3_by_attention,
    match_by_attention,
    match_layer,
)
from separatrix.hardness.match_instances import adversarial_instances, planted_instances, uniform_instances
from separatrix.hardness.match_margin import Sharpness, largest_modulus, margin, sharpness
from separatrix.hardness.match_training import MatchTraining, train_match
from separatrix.hardness.matching import match_by_definition, match_labels
from separatrix.hardness.maxip import GapMaxIP, gap_maxip, to_maxip
from separatrix.hardness.orthogonal_vectors import (
    OrthogonalVectors,
    assignment_of,
    orthogonal_triple,
    to_orthogonal_vectors,
)
from separatrix.hardness.padded_attention import PaddedAttention, pad_for_attention
from separatrix.hardness.protocol import Bill, Protocol, Transcript
from separatrix.hardness.protocol_vectors import ProtocolVectors, protocol_sizes, to_gap_maxip
from separatrix.hardness.reed_solomon import ReedSolomon
from separatrix.hardness.sat import Decision, Step, chain_sizes, decide_formula, satisfiable
from separatrix.hardness.smallest_beta import beta_of_the_rule, beta_on_exact_outputs

__all__ = [
    "Bill",
    "Cheat",
    "Decision",
    "Formula",
    "GapMaxIP",
    "MatchTraining",
    "OrthogonalVectors",
    "PaddedAttention",
    "Protocol",
    "ProtocolVectors",
    "ReedSolomon",
    "Sharpness",
    "Step",
    "Transcript",
    "adversarial_instances",
    "assignment_of",
    "best_cheat",
    "beta_of_the_rule",
    "beta_on_exact_outputs",
    "chain_sizes",
    "decide_formula",
    "gap_maxip",
    "gap_maxip_by_attention",
    "largest_modulus",
    "margin",
    "match2_by_attention",
    "match3_by_attention",
    "match_by_attention",
    "match_by_definition",
    "match_labels",
    "match_layer",
    "orthogonal_triple",
    "pad_for_attention",
    "parse_dimacs",
    "planted_formula",
    "planted_instances",
    "protocol_sizes",
    "random_formula",
    "read_dimacs",
    "satisfiable",
    "sharpness",
    "to_gap_maxip",
    "to_maxip",
    "to_orthogonal_vectors",
    "train_match",
    "triple_by_attention",
    "uniform_instances",
]
