"""Claims of Josh Alman and Zhao Song, "How to Capture Higher-order Correlations? Generalizing Matrix Softmax Attention
to Kronecker Computation": a module for each part of the paper."""
