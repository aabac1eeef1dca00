"""Attention weights of tuples of keys, for inspection; they have no gradients.

- `scores`: the scores of a few queries against a few tuples at a time, and their log-sum-exp.
- `top_tuples`: the tuples of largest weight of every query.
- `chosen_queries`: all weights of some queries.
- `pair_map`: the weights of all pairs of one query at order 3, with their sums along either side.
- `drawing`: a pair map as a picture.
"""
