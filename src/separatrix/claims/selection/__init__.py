"""Claims of Zixuan Wang, Stanley Wei, Daniel Hsu and Jason D. Lee, "Transformers Provably Learn Sparse Token Selection
While Fully-Connected Nets Cannot": a file for each place of the paper, or for neighbouring places that share code.

`plane`: the plane that gradient descent stays on (Lemmas D.2, D.5). `training`: the experiment of Figures 1 to 7.
`valid_encodings`: all encodings at a small size (Lemmas E.2, E.7, E.14).
"""
