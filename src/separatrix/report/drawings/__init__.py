"""The figures: a package for each paper, with files named by the places of the paper, as the files of its claims are.

A drawing has the stem of the file of its claim; one that serves several files has a stem that tells the places of all.
"""
