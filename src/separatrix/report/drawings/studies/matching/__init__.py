"""The figures on triples by training."""
