"""The figures of one paper, in files named by the places that they show."""
