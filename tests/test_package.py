from __future__ import annotations

import ast
from pathlib import Path

import pytest

import separatrix as sx

# The imports go one way: what each room may import besides itself. A room named in neither table imports nothing.
SCIENCE = {"errors", "files", "training", "attention", "nn"}
CLAIMS = SCIENCE | {"separation", "selection", "hardness", "lab"}
BELOW = {
    "training": {"errors"},
    "attention": {"errors"},
    "nn": {"errors", "attention"},
    "separation": SCIENCE,
    "selection": SCIENCE,
    "hardness": SCIENCE,
    "hf": SCIENCE,
    "lab": {"errors", "files"},
    "claims": CLAIMS,
    "studies": CLAIMS | {"claims"},
    "report": CLAIMS | {"claims", "studies"},
}
TOP = {"__init__", "__main__", "explorer", "doctor", "commands", "cli"}


def test_public_names() -> None:
    assert sx.__all__ == [
        "ArgumentError",
        "Certificate",
        "GradientCertificate",
        "Plan",
        "SeparatrixError",
        "TensorAttentionState",
        "Verification",
        "__version__",
        "attention",
        "certified_attention",
        "errors",
        "exact_error_bound",
        "hardness",
        "linear_attention",
        "max_order",
        "nn",
        "plan_attention",
        "plan_shapes",
        "selection",
        "separation",
        "tensor_attention",
        "verify",
    ]
    assert dir(sx) == sorted(sx.__all__)


@pytest.mark.parametrize("name", sx.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(sx, name) is getattr(sx, name)


def test_unknown_name() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'tensor_atention'"):
        sx.tensor_atention  # noqa: B018


@pytest.mark.parametrize("use", ["separatrix", "separatrix.ArgumentError", "dir(separatrix)"])
def test_import_is_light(run, use: str) -> None:
    done = run(f"import sys, separatrix; {use}; print(*sorted({{'torch', 'numpy'}} & set(sys.modules)))")
    assert (done.returncode, done.stdout, done.stderr) == (0, "\n", "")


def test_a_function_brings_torch(run) -> None:
    done = run("import sys, separatrix; separatrix.tensor_attention; print('torch' in sys.modules)")
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")


def imported_rooms(file: Path, package: Path) -> set[str]:
    """The rooms of the package that a file imports, wherever in the file it does."""
    here = ["separatrix", *file.relative_to(package).with_suffix("").parts]
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = (
                [*here[: len(here) - node.level], *([node.module] if node.module else [])]
                if node.level
                else [node.module]
            )
            names |= {".".join([*base, alias.name]) for alias in node.names}
    return {name.split(".")[1] for name in names if name.startswith("separatrix.")}


def test_imports_go_one_way(root: Path) -> None:
    package = root / "src" / "separatrix"
    wrong = {}
    for file in package.rglob("*.py"):
        room = file.relative_to(package).parts[0].removesuffix(".py")
        beyond = imported_rooms(file, package) - BELOW.get(room, set()) - {room}
        if room not in TOP and file.name != "commands.py" and beyond:
            wrong[str(file.relative_to(package))] = beyond
    assert wrong == {}
