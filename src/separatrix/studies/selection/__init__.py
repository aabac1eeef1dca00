"""Sparse token selection, the task of Wang, Wei, Hsu and Lee, beyond their theorems.

attention   which attention learns it
positions   which encodings of positions generalise in length
length      the loss at every length, where the paper has a bound
fixed       one fixed encoding for all inputs
times       the number of steps of gradient descent with stochastic encodings
"""
