"""Claims of Yichuan Deng, Zhao Song, Kaijun Yuan and Tianyi Zhou, "Why Softmax Attention Outperforms Linear Attention":
a module for each part of the paper."""
