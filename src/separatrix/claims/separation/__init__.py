"""Claims of Yichuan Deng, Zhao Song, Kaijun Yuan and Tianyi Zhou, "Why Softmax Attention Outperforms Linear Attention":
a file for each place of the paper, or for neighbouring places that share their code.

`entry_lemmas`, `row_lemmas`, `network_theorems`: declare lemmas about every entry, lemmas about one row with random
signs, and theorems about the networks as claims. `growth`: the experiment along paths d(n). `section_d_ones`,
`section_f_cross`: the settings and lines that the lemmas of Sections D and F share, and their experiments.
"""
