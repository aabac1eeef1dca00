from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import separatrix as sx

# Imports go one way. `BELOW` lists what each package may import besides itself; a package that is not listed imports
# nothing.
GROUND = {"errors", "checks", "children", "files", "tensor_files"}
NATIVE = {"native", "native_tensors", "torch_threads"}
SCIENCE = GROUND | NATIVE | {"training", "attention", "nn"}
PAPERS = SCIENCE | {"separation", "selection", "hardness"}
CLAIMS = PAPERS | {"__init__", "lab", "claims", "studies"}
TABS = CLAIMS | {"doctor", "report", "runs"}
BELOW = {
    "checks": {"errors"},
    "children": set(),
    "files": {"errors"},
    "tensor_files": {"errors", "checks"},
    "native": GROUND | {"torch_threads"},
    "native_tensors": {"native"},
    "training": GROUND,
    "attention": GROUND | NATIVE,
    "nn": GROUND | {"attention"},
    "doctor": SCIENCE | {"processor"},
    "separation": SCIENCE,
    "selection": SCIENCE,
    "hardness": SCIENCE,
    "hf": SCIENCE,
    "lab": GROUND | {"processor"},
    "claims": PAPERS | {"__init__", "lab"},
    "studies": PAPERS | {"__init__", "lab", "claims"},
    "report": CLAIMS,
    "runs": SCIENCE | {"selection", "lab"},
    "explorer": TABS | {"written_numbers"},
    "commands": TABS | {"explorer", "written_numbers"},
    "__init__": PAPERS,
    "__main__": {"commands"},
}
# Modules that import what they find in their own package, what a cell names, or what a user names.
FOUND_AT_RUN_TIME = {
    "attention/exact/triton/description.py", "attention/near_linear/triton/launch.py",
    "claims/__init__.py", "studies/__init__.py", "report/figures.py", "lab/worker.py", "commands/sweep.py",
}  # fmt: skip


def test_public_names() -> None:
    assert sx.__all__ == [
        "ArgumentError",
        "Certificate",
        "GradientCertificate",
        "LongCallWarning",
        "PairMap",
        "Plan",
        "SeparatrixError",
        "TensorAttentionState",
        "TopTuples",
        "Verification",
        "__version__",
        "attention",
        "attention_weights",
        "certified_attention",
        "errors",
        "exact_error_bound",
        "forms",
        "hardness",
        "linear_attention",
        "max_order",
        "nn",
        "pair_map",
        "plan_attention",
        "plan_shapes",
        "selection",
        "separation",
        "tensor_attention",
        "top_tuples",
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


def imported(file: Path, package: Path) -> set[str]:
    """The modules of the package that a file imports, anywhere in the file, or names in a string."""
    here = ["separatrix", *file.relative_to(package).with_suffix("").parts]
    names: set[str] = set()
    tree = ast.parse(file.read_text())
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = here[: len(here) - node.level] if node.level else []
            base = [*above, *([node.module] if node.module else [])]
            names |= {".".join([*base, alias.name]) for alias in node.names}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            names |= {match[0]} if (match := re.match(r"separatrix(\.\w+)+", node.value)) else set()
        elif isinstance(node, ast.Assign) and any(getattr(target, "id", "") == "_HOMES" for target in node.targets):
            names |= {".".join([*here[:-1], home]) for home in ast.literal_eval(node.value).values()}
    return {name for name in names if name.split(".")[0] == "separatrix"} - {"separatrix.__version__"}


def room(name: str, package: Path) -> str:
    """The package or module under `separatrix` that contains a name: `__init__` for a public name of the package."""
    first = name.split(".")[1] if "." in name else "__init__"
    return first if (package / first).is_dir() or (package / f"{first}.py").exists() else "__init__"


def wrong_ways(package: Path) -> dict[str, set[str]]:
    """The forbidden imports of each file."""
    wrong = {}
    for file in package.rglob("*.py"):
        own = file.relative_to(package).parts[0].removesuffix(".py")
        beyond = {room(name, package) for name in imported(file, package)} - BELOW.get(own, set()) - {own}
        if beyond:
            wrong[file.relative_to(package).as_posix()] = beyond
    return wrong


def test_imports_go_one_way(root: Path) -> None:
    assert wrong_ways(root / "src" / "separatrix") == {}


@pytest.mark.parametrize(
    ("file", "code", "beyond"),
    [
        ("claims/one.py", "def f():\n    import separatrix.report.page", {"report"}),
        ("claims/one.py", "from separatrix import report", {"report"}),
        ("claims/one.py", "from ..report import page", {"report"}),
        ("claims/one.py", "write = import_module('separatrix.report').write_report", {"report"}),
        ("claims/one.py", "import_module(f'separatrix.report.{name}')", {"report"}),
        ("lab/one.py", "HOME = {'judge': 'separatrix.claims.verdicts'}", {"claims"}),
        ("selection/one.py", "from separatrix.lab.store import Store", {"lab"}),
        ("selection/one.py", "from separatrix import plan_shapes", {"__init__"}),
        ("__init__.py", "_HOMES = {'judge': 'claims.verdicts'}", {"claims"}),
        ("lab/__init__.py", "_HOMES = {'Store': 'store'}", set()),
        ("lab/one.py", "'separatrix.claims is a word of a docstring here.'", set()),
    ],
)
def test_a_forbidden_import_is_detected(tmp_path: Path, file: str, code: str, beyond: set[str]) -> None:
    for name in ("claims", "lab", "report", "selection"):
        (tmp_path / name).mkdir()
    (tmp_path / file).write_text(code)
    assert wrong_ways(tmp_path) == ({file: beyond} if beyond else {})


def test_modules_are_imported_by_their_whole_name(root: Path) -> None:
    """A computed name, or one from outside, could refer to any module: few files import by such names."""
    package, found = root / "src" / "separatrix", set()
    for file in package.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "").endswith("import_module"):
                name = node.args[0]
                if not isinstance(name, ast.Constant) and not ast.unparse(name).startswith("f'{__name__}."):
                    found.add(file.relative_to(package).as_posix())
    assert found == FOUND_AT_RUN_TIME


def test_no_two_classes_share_a_name(root: Path) -> None:
    homes: dict[str, list[str]] = {}
    for file in sorted((root / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name, []).append(f"{file.relative_to(root)}:{node.lineno}")
    assert len(homes) > 200
    assert {name: places for name, places in homes.items() if len(places) > 1} == {}
