"""The figures: a module a section of a paper, named as the module of its claims."""
