"""Inside `attention` imports go one way, and the checker shares no code with the code it checks."""

from __future__ import annotations

import ast
from pathlib import Path

ORDER = [
    {"reference", "arithmetic", "features"},
    {"arguments", "dispatch"},
    {"call"},
    {"bounds"},
    {"linear", "exact"},
    {"near_linear", "weights", "distinct_tuples"},
    {"visible_keys"},
    {"duration"},
    {"certified", "forms"},
    {"streaming", "checker", "packed", "plain_certified"},
    {"sharded", "operator"},
]
"""A module may import modules of its own line and of the lines before."""
SHARED_WITH_THE_CHECKER = {"CallOptions"}
"""The names that the checker imports from the rest of `attention`: types of its arguments, and no code."""


def imports(file: Path) -> set[str]:
    """The modules and packages of `attention` that a file imports, anywhere in the file."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("separatrix.attention"):
            parts = node.module.split(".")[2:]
            found |= {parts[0]} if parts else {alias.name for alias in node.names}
    return found


def test_imports_go_one_way(root: Path) -> None:
    package = root / "src" / "separatrix" / "attention"
    level = {name: number for number, names in enumerate(ORDER) for name in names}
    wrong = {}
    for file in package.rglob("*.py"):
        here = file.relative_to(package).parts[0].removesuffix(".py")
        if here == "__init__":
            continue
        upward = {name for name in imports(file) - {here} if level[name] >= level[here]}
        if upward:
            wrong[str(file.relative_to(package))] = upward
    assert wrong == {"certified.py": {"checker"}}, "`Certified.save` hands a call to the checker's own writer"


def test_the_checker_shares_no_code(root: Path) -> None:
    package = root / "src" / "separatrix" / "attention" / "checker"
    shared = {
        alias.name
        for file in package.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("separatrix.attention")
        if not node.module.startswith("separatrix.attention.checker")
        for alias in node.names
    }
    assert shared == SHARED_WITH_THE_CHECKER


def test_every_package_describes_each_of_its_files(root: Path) -> None:
    package = root / "src" / "separatrix" / "attention"
    for file in package.rglob("__init__.py"):
        text = ast.get_docstring(ast.parse(file.read_text())) or ""
        siblings = {other.stem for other in file.parent.glob("*.py")} | {
            other.parent.name for other in file.parent.glob("*/__init__.py")
        }
        assert [name for name in sorted(siblings - {"__init__"}) if f"`{name}`" not in text] == [], file
