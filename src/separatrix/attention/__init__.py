"""Order-k attention: one definition, several algorithms, one planner."""
