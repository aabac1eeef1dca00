"""The command `train`, with one file for each model.

- `selection`: `separatrix train selection`.
- `display`: the progress of a run.
- `tensorboard`: the events that `--tensorboard` writes.
"""
