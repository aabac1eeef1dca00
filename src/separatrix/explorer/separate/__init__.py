"""The tab Separate: the exact probability that softmax attention separates two data sets and linear attention does not.

- `tab`: the layout and its callbacks.
- `fields`: the parameters of a setting and the mechanisms.
- `probabilities`: the probabilities of one setting, and the hypotheses it breaks.
- `figures`: success along one parameter, and rows of the attention matrices.
- `code`: a setting as a program and as a command.
"""
