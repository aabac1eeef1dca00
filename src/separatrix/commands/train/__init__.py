"""The command `train`, with one file for each thing that can be trained.

- `selection`: `separatrix train selection`.
- `display`: how a run is shown while it goes on.
- `tensorboard`: the events that `--tensorboard` writes.
"""
