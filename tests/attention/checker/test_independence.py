"""The checker shares no code with what it checks: it imports errors, checks of arguments and of files, and itself."""

from __future__ import annotations

import ast

ALLOWED = ("separatrix.errors", "separatrix.checks", "separatrix.tensor_files", "separatrix.attention.checker")


class _WithoutTypes(ast.NodeTransformer):
    """Removes what only a type checker reads."""

    def visit_If(self, node):
        return None if getattr(node.test, "id", None) == "TYPE_CHECKING" else self.generic_visit(node)


def imports(file):
    """Every module that a file imports when it runs, anywhere in it, by its full name."""
    seen = set()
    for node in ast.walk(_WithoutTypes().visit(ast.parse(file.read_text()))):
        if isinstance(node, ast.Import):
            seen |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: imports are written in full"
            seen.add(node.module)
        elif isinstance(node, ast.Call):
            assert getattr(node.func, "id", None) not in {"__import__", "import_module"}
    return seen


def test_only_errors_and_checks_of_arguments_are_shared(root):
    package = root / "src" / "separatrix" / "attention" / "checker"
    files = sorted(package.rglob("*.py"))
    assert len(files) > 8
    wrong = {}
    for file in files:
        ours = {name for name in imports(file) if name.split(".")[0] == "separatrix"}
        beyond = {name for name in ours if not name.startswith(ALLOWED)}
        if beyond:
            wrong[file.name] = beyond
    assert wrong == {}


def test_checking_loads_no_operator(forked):
    """Of a result made by hand, in a fresh interpreter."""
    code = """
import sys, torch
from separatrix.attention.checker import check
x = torch.tensor([[1.0], [2.0]])
assert check(torch.full((2, 1), 1.5), torch.ones(2), 0 * x, x, x).held
print(sorted(name for name in sys.modules if name.startswith("separatrix.") and "checker" not in name))
"""
    done = forked(code)
    assert (done.stdout, done.stderr) == ("['separatrix.attention', 'separatrix.checks', 'separatrix.errors']\n", "")
