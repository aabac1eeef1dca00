"""Softmax against linear attention, the settings of Deng, Song, Yuan and Zhou, beyond what they prove of them.

mechanisms   other attentions in their settings: feature maps, temperatures, order 3
learned      weights that are learned where the paper constructs them
phase        where in (a0, a1) and in (n, d) softmax succeeds
border       the exact border: from which a1 on linear attention fires, and how large m must be
"""
