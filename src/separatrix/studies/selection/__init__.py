"""Sparse token selection, the task of Wang, Wei, Hsu and Lee, beyond what they prove of it.

attention   which attention learns it
positions   which encodings of positions generalise in length
length      the loss at every length, where the paper has a bound
fixed       one set of encodings for all inputs
times       how long descent takes with stochastic encodings
"""
