"""Does it learn? Small causal models that differ in their attention alone, on recall and on text, counted and trained.

tasks        what a model is asked: tokens of several fields, and the right answers
recall       k-way associative recall, whose keys are joined from k - 1 tokens
text         the characters of Genesis and Exodus
mechanisms   the attentions that are compared, and their layers
models       the model around them, with equally many parameters whatever the attention
compute      the flops of a step, counted
training     runs, which yield records
"""
