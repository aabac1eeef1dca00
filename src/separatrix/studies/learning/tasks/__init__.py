"""The tasks of the learning studies.

task      tokens of several fields, and the right answers
recall    k-way associative recall, whose keys are joined from k - 1 tokens
match     planted triples
text      the characters of the reference of Python's language
"""
