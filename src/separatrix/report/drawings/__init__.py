"""The figures: a package for each paper.

A file has the name of the file of its claim, or a name with the places of all claims that show its figures.
"""
