"""Near-linear attention."""
