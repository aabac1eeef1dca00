"""Claims of our own, beyond the papers: a module for each question."""
