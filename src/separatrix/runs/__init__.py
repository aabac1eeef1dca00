"""Training runs in a store: a run is divided at its checkpoints into pieces, and each piece is a cell.

The package `selection` yields records and states and does not depend on stores; `lab` stores cells and does not depend
on training. This package connects the two:

- `cells`: the pieces of a run as cells.
- `train`: train a run and store it, starting from the last piece in the store.
- `read`: read the runs of a store.
"""
