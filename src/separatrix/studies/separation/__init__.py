"""Softmax against linear attention, in the settings of Deng, Song, Yuan and Zhou, beyond their theorems.

mechanisms   other attentions in their settings: feature maps, temperatures, order 3
learned      learned weights instead of the paper's constructed ones
phase        the regions of (a0, a1) and of (n, d) in which softmax succeeds
border       the exact threshold of a1 for linear attention, and the smallest m for softmax attention
"""
