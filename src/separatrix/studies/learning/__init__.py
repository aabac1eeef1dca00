"""Does it learn? Trains small causal models that differ only in their attention, and counts their flops.

What is trained:

tasks        the tasks: k-way associative recall, planted matches, two-hop joins, the characters of a text
mechanisms   the attentions that are compared, and their layers
models       the model around them, with the same number of parameters for every attention
compute      the flops of a step, counted
sharpness    the largest weight of one tuple if scores are bounded
training     runs, which yield records

What is claimed:

runs             the experiment that the claims share, and the comparison of two attentions over seeds
recall           on recall of keys whose parts are in different tokens
match            on planted triples
join             on two-hop joins
join_converged   on two-hop joins with enough steps for two layers of order 2
join_alike       on two-hop joins with settings chosen alike, more facts, and the import graph of a library
join_larger      on two-hop joins of models that are trained on 16 and 32 facts
join_stages      on two-hop joins learned in stages, of 8, 16, 32 and 64 facts
layer_settings   on the scale and the norms of a layer of order 3, trained on joins
layer_settings_tasks   the same on planted triples, recall and text
further_layer_settings   on value normalisation and on heads of two orders in a layer, on all these tasks
text             on characters of a text
language_model   on a language model of four layers, of which one is of order 3
polynomial       on training by the polynomial method
growth           on flops, bytes and seconds as the length grows
"""
