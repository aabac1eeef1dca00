"""The figures: a module a section of a paper or a study, named as the module of its claims."""
