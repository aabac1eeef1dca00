"""Learning planted triples: `training` has the experiment and the claims, `runs` groups runs over seeds."""
