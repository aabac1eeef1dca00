"""Triples by training: `training` has the experiment and the claims, `runs` puts the seeds of one kind together."""
