"""The names of the experiments are part of the keys under which results are stored: they outlive every rename."""

from __future__ import annotations

from separatrix.claims import load
from separatrix.lab import registry

PINNED = {
    "kronecker.certified_degree": 2,
    "kronecker.chain_rank": 1,
    "kronecker.chain_sizes": 1,
    "kronecker.codes": 1,
    "kronecker.definition_1_5": 1,
    "kronecker.definition_c_2": 2,
    "kronecker.largest_order": 1,
    "kronecker.lemma_b1_constants": 1,
    "kronecker.lemma_b1_decides": 2,
    "kronecker.lemma_b1_threshold": 1,
    "kronecker.lemma_b1_values": 1,
    "kronecker.lemma_c3": 2,
    "kronecker.lemma_c5": 2,
    "kronecker.lemma_d3": 1,
    "kronecker.lemma_d5": 1,
    "kronecker.lemma_d6": 1,
    "kronecker.lemma_e1": 1,
    "kronecker.linear_growth": 5,
    "kronecker.lower_bound": 1,
    "kronecker.match_disjointness": 1,
    "kronecker.match_drawn": 1,
    "kronecker.match_exhaustive": 2,
    "kronecker.match_long": 1,
    "kronecker.match_sharpness": 1,
    "kronecker.protocol": 1,
    "kronecker.protocol_vectors": 1,
    "kronecker.sat_chain": 2,
    "kronecker.smallest_beta": 1,
    "kronecker.theorem_4_7_time": 1,
    "kronecker.threshold": 1,
    "kronecker.threshold_limit": 1,
    "kronecker.wall_time": 1,
    "selection.construction": 1,
    "selection.corollary_e9": 2,
    "selection.corollary_e9_proof": 1,
    "selection.dual_vector": 1,
    "selection.equation_6": 2,
    "selection.exact_descent": 1,
    "selection.fcn_infimum": 1,
    "selection.fcn_trained": 1,
    "selection.flow_to_loss": 1,
    "selection.heat_maps": 2,
    "selection.isometric_width": 1,
    "selection.lemma_a3": 2,
    "selection.lemma_d1": 1,
    "selection.lemma_d2": 2,
    "selection.lemma_d5": 1,
    "selection.lemma_e14": 2,
    "selection.lemma_e15": 2,
    "selection.lemma_e2": 2,
    "selection.lemma_e7": 2,
    "selection.length_ratio": 1,
    "selection.one_query_or_many": 2,
    "selection.sampled_isometry": 1,
    "selection.shapes": 2,
    "selection.stochastic_rate": 1,
    "selection.stochastic_time": 2,
    "selection.tail": 1,
    "selection.theorem_c3_proof": 1,
    "selection.theorem_d4_proof": 2,
    "selection.theorem_e6_proof": 2,
    "selection.time_to_loss": 1,
    "selection.training": 1,
    "selection.transformer_beside": 1,
    "selection.two_objectives": 1,
    "selection.worst_case": 2,
    "separation.cross_entries": 1,
    "separation.identity_entries": 1,
    "separation.ones_entries": 1,
    "separation.panel": 1,
    "separation.path": 1,
    "separation.regression_at": 1,
    "separation.regression_entries": 2,
    "separation.regression_enumerated": 1,
    "separation.regression_path": 1,
    "separation.row": 1,
    "separation.shapes": 2,
    "separation.tau": 1,
    "separation.tensor_trick": 2,
}
"""The experiments of the three papers, with the version of each recipe. A name is never changed; a version is raised
when the meaning of its results changes."""


def test_no_experiment_is_renamed() -> None:
    load()
    papers = ("kronecker.", "selection.", "separation.")
    assert {name: one.version for name, one in registry._REGISTRY.items() if name.startswith(papers)} == PINNED


def test_the_key_of_a_cell_has_no_name_of_a_function_or_a_file() -> None:
    """A worked example: the key of one cell, as it was before its experiment moved to another file."""
    load("kronecker")
    cell = registry.named("kronecker.codes").cell(seed=0, r=4, stretch=6)
    assert cell.key == "c654ab7bd209639ff9bf0b9a73d778f02cf39cd6db9eff6bfadeda4e368baaab"
