"""Training runs in a store: a run is cut at its checkpoints, and each piece is a cell.

The science yields records and states and knows no store; the lab keeps cells and knows no science. Here they meet:

- `cells`: what a piece of a run is, as a cell, and which pieces a run has.
- `train`: train a run into a store, from the last piece that the store has.
- `read`: the runs of a store, read back.
"""
