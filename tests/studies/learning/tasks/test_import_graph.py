"""The import graph of the standard library: which statements count as imports, and of which kind."""

from __future__ import annotations

import ast

from separatrix.studies.learning.tasks import import_graph

SOURCE = """
import os.path, json
from re import compile
from . import sibling
from .sibling import name
import numpy, _thread, test.support
try:
    import bz2
except ImportError:
    bz2 = None
def f():
    import heapq
class C:
    from random import choice
"""


def test_imports_of_a_module_and_their_relations():
    seen = set(import_graph._imports(ast.parse(SOURCE)))
    assert seen == {
        ("import", "os"),
        ("import", "json"),
        ("from", "re"),
        ("import", "bz2"),
        ("nested", "heapq"),
        ("nested", "random"),
    }


def test_edges_are_between_different_modules_of_the_library():
    edges = import_graph.import_edges()
    assert list(edges) == sorted(set(edges))
    assert all(head != tail and relation in import_graph.RELATIONS for head, relation, tail in edges)
    assert ("argparse", "import", "sys") in edges or ("argparse", "nested", "sys") in edges
    assert import_graph.digest() == import_graph.digest.__wrapped__()
