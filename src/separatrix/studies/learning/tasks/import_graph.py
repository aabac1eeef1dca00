"""The import graph of Python's standard library: a real graph that is part of every Python installation.

Nodes are the top-level modules of the standard library, and an edge says that a module imports another, and how: at the
top level by ``import``, at the top level by ``from ... import``, or inside a function or a class. The sources are
parsed, never run. The graph differs slightly between versions of Python; `digest` identifies the one that a run has
read.
"""

from __future__ import annotations

import ast
import sys
import sysconfig
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from pathlib import Path

import torch
from torch import Tensor

from separatrix.errors import SeparatrixError

RELATIONS = ("import", "from", "nested")
"""How a module is imported: ``import x``, ``from x import y``, or either inside a function or a class."""

RECORDED_GRAPH = "81765a99b143feee0fb68fe424822f03339164f3d4d919a74d7c6948b6ac5bad"
"""The digest of the graph on which the recorded verdicts rest; it is that of Python 3.11.7."""

_LEFT_OUT = ("antigravity", "idlelib", "lib2to3", "test", "this", "turtledemo")
"""Applications, tests and Easter eggs, which are excluded."""

_HELD_OUT = 3
"""The imports of every third module, in alphabetical order, are held out."""


@cache
def import_edges() -> tuple[tuple[str, str, str], ...]:
    """All edges (module, relation, imported module), in order, without those from a module to itself.

    A package has the imports of its modules, but not of its subpackages.

    Raises:
        SeparatrixError: This Python was installed without the sources of its standard library.

    Example:
        >>> ("json", "from", "re") in import_edges() or ("json", "import", "re") in import_edges()
        True
    """
    folder = Path(sysconfig.get_path("stdlib"))
    edges = set()
    for name in sorted(sys.stdlib_module_names):
        if name in _LEFT_OUT or name.startswith("_"):
            continue
        single = folder / f"{name}.py"
        for path in [single] if single.exists() else sorted((folder / name).glob("*.py")):
            edges |= {(name, *edge) for edge in _imports(ast.parse(path.read_bytes())) if edge[1] != name}
    if not edges:
        raise SeparatrixError(f"there are no sources of the standard library in {folder}")
    return tuple(sorted(edges))


def _imports(tree: ast.AST, relation: str = "") -> Iterator[tuple[str, str]]:
    """The imports (relation, module of the standard library) below a node of a syntax tree."""
    for node in ast.iter_child_nodes(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module is not None:
            names = [node.module]
        for name in names:
            module = name.partition(".")[0]
            if module in sys.stdlib_module_names and module not in _LEFT_OUT and not module.startswith("_"):
                yield relation or ("import" if isinstance(node, ast.Import) else "from"), module
        nested = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        if not isinstance(node, ast.expr):  # nine nodes of ten are expressions, which contain no statement
            yield from _imports(node, "nested" if nested else relation)


@cache
def digest() -> str:
    """The SHA-256 of the edges, one per line, in hex.

    Example:
        >>> len(digest())
        64
    """
    return sha256("\n".join(" ".join(edge) for edge in import_edges()).encode()).hexdigest()


@cache
def import_facts(held_out: bool) -> Tensor:
    """The held-out edges (those of every third module) or all others: indices (edges, 3) of head, relation and tail.

    Example:
        >>> import_facts(True).shape[0] < import_facts(False).shape[0], import_facts(True).shape[1]
        (True, 3)
    """
    edges = import_edges()
    modules = {name: number for number, name in enumerate(sorted({name for edge in edges for name in edge[::2]}))}
    rows = torch.tensor([[modules[head], RELATIONS.index(how), modules[tail]] for head, how, tail in edges])
    return rows[(rows[:, 0] % _HELD_OUT == 0) == held_out]
