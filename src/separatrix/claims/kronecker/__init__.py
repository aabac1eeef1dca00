"""Claims of Josh Alman and Zhao Song, "How to Capture Higher-order Correlations? Generalizing Matrix Softmax Attention
to Kronecker Computation": a file for each place of the paper, or for neighbouring places that share their code.

`attention.near_linear.live_bytes` counts the bytes that a computation holds at once.
"""
