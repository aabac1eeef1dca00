"""Every name that a docstring or a comment under `src` quotes in backticks exists.

Single backticks quote a name, of this library or of another one; double backticks quote any other code and are not
read. A reference is looked up from the file that contains it:

- a path, such as `csrc/stream.hpp`, is the end of the path of a file of the repository;
- a dotted name, such as `Store.create` or `separatrix.selection.laws`, is resolved part by part, against modules, what
  they define and import, and the members of classes;
- a bare name, such as `Summing`, appears in the code of the file, or is a module of its package or of a package above
  or below, or is defined in its package, or is defined or a parameter in a module that the file imports from, or is
  exported by `separatrix` or by a package of it, by torch, by the C interface or by Python.
"""

from __future__ import annotations

import ast
import builtins
import io
import keyword
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from separatrix.attention.arguments import CallOptions

ELSEWHERE = {
    "Cache", "DynamicCache", "Trainer", "attn_implementation", "generate", "sdpa", "transformers",  # transformers
    "ColwiseParallel",  # torch.distributed.tensor.parallel
    "lin",  # the paper on softmax and linear attention
    "sx.pair_map",  # the name under which users import separatrix
}  # fmt: skip
"""Names that are defined neither here nor in a library that the tests may import."""

_QUOTED = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_PATH = re.compile(r"[\w.-]+(?:/[\w.-]+)*\.(?:py|hpp|cpp|h|js|css|md|toml)|\w+(?:/\w+)+")
_NAME = re.compile(r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)(?:\(.*\))?")


def used(nodes: list[ast.AST]) -> set[str]:
    """All identifiers in the code of a file, and its strings that are identifiers, such as the keys of a result."""
    names = set()
    for node in nodes:
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                names.add(name)
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.Constant(value=str(name)):
                names.add(name)
            case ast.keyword(arg=str(name)):
                names.add(name)
            case ast.alias(name=name, asname=alias):
                names |= set((alias or name).split("."))
    return {name for name in names if name.isidentifier()}


def defined(body: list[ast.stmt]) -> set[str]:
    """The names that statements of a module or of a class define."""
    names = set()
    for statement in body:
        match statement:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.Import() | ast.ImportFrom():
                names |= {alias.asname or alias.name for alias in statement.names}
            case ast.Assign() | ast.AnnAssign():
                names |= {node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and is_stored(node)}
            case ast.If() | ast.Try():
                names |= defined(statement.body) | defined(statement.orelse)
    return names


def is_stored(node: ast.Name | ast.Attribute) -> bool:
    return isinstance(node.ctx, ast.Store)


@dataclass(frozen=True)
class Source:
    """A file of the package, by its path from the folder that contains the package."""

    path: Path
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        return list(ast.walk(self.tree))

    @cached_property
    def used(self) -> set[str]:
        return used(self.nodes)

    @cached_property
    def classes(self) -> dict[str, ast.ClassDef]:
        return {node.name: node for node in self.nodes if isinstance(node, ast.ClassDef)}

    @cached_property
    def defined(self) -> set[str]:
        """The names of the module and the members of its classes."""
        return defined(self.tree.body).union(*(defined(node.body) for node in self.classes.values()))

    @cached_property
    def parameters(self) -> set[str]:
        return {node.arg for node in self.nodes if isinstance(node, ast.arg)}

    @cached_property
    def module(self) -> str:
        parts = self.path.with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @cached_property
    def package(self) -> str:
        return ".".join(self.path.parent.parts)

    @cached_property
    def imports(self) -> dict[str, str]:
        """The full name of each imported name."""
        names = {}
        for node in self.nodes:
            if isinstance(node, ast.Import):
                names |= {alias.asname or alias.name.split(".")[0]: alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                names |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
        return names

    def references(self) -> Iterator[tuple[int, str]]:
        """The quoted names in comments and docstrings, each with its line."""
        comments = re.search("#.*`", self.text) is not None
        for token in tokenize.generate_tokens(io.StringIO(self.text).readline) if comments else ():
            if token.type == tokenize.COMMENT:
                yield from ((token.start[0], name) for name in _QUOTED.findall(token.string))
        for node in self.nodes:
            match node:
                case ast.Expr(value=ast.Constant(value=str(text))):
                    for number, line in enumerate(text.split("\n"), node.lineno):
                        yield from ((number, name) for name in _QUOTED.findall(line))


class Library:
    """The files of a package, and the names that exist outside it."""

    def __init__(self, folder: Path, paths: set[str], symbols: set[str]) -> None:
        """Read `folder`; `paths` are those of the repository's files, `symbols` those of its C interface."""
        files = sorted(folder.rglob("*.py"))
        self.sources = [Source(file.relative_to(folder), file.read_text()) for file in files]
        self.modules = {source.module: source for source in self.sources}
        self.classes = {name: node for source in self.sources for name, node in source.classes.items()}
        self.paths, self.symbols = paths, symbols
        self.defined_in: dict[str, set[str]] = {}
        for source in self.sources:
            self.defined_in.setdefault(source.package, set()).update(source.defined)
        exports = [
            source for source in self.sources if source.path.name == "__init__.py" and len(source.path.parts) <= 3
        ]
        self.exported = set(CallOptions.__annotations__).union(*(source.used for source in exports))
        self.attributes = set().union(*(source.used for source in self.sources))

    def stale(self) -> list[str]:
        """The references to names that do not exist, each as `path:line name`."""
        return [
            f"{source.path}:{line} {name}"
            for source in self.sources
            for line, name in source.references()
            if not self.exists(name, source)
        ]

    def exists(self, quoted: str, source: Source) -> bool:
        if quoted in ELSEWHERE:
            return True
        if _PATH.fullmatch(quoted):
            return any(f"/{path}".endswith((f"/{quoted}", f"/{quoted}.py")) for path in self.paths)
        match = _NAME.fullmatch(quoted)
        if match is None:
            return True  # a command or an expression
        first, *rest = match[1].split(".")
        return self.has_dotted(first, rest, source) if rest else self.has_bare(first, source)

    def has_bare(self, name: str, source: Source) -> bool:
        return (
            name in source.used
            or name in self.exported
            or name in self.symbols
            or any(f"{package}.{name}" in self.modules for package in above(source.package))
            or any(module.startswith(f"{source.package}.") and module.endswith(f".{name}") for module in self.modules)
            or name in self.defined_in[source.package]
            or any(name in other.defined | other.parameters for other in self.imported(source))
            or keyword.iskeyword(name)
            or hasattr(builtins, name)
            or hasattr(torch, name)
            or find_spec(name) is not None
        )

    def imported(self, source: Source) -> list[Source]:
        """The modules of the package from which a file imports."""
        names = {name for full in source.imports.values() for name in (full, full.rpartition(".")[0])}
        return [self.modules[name] for name in names if name in self.modules]

    def has_dotted(self, first: str, rest: list[str], source: Source) -> bool:
        full = [*source.imports.get(first, first).split("."), *rest]
        if self.has_path(full) or self.has_path([first, *rest]):
            return True
        if first in self.classes:
            return self.has_members(first, rest)
        if first in source.used and first not in source.imports:
            # The first part is a variable or a parameter: only the names of its attributes can be checked.
            return all(part in self.attributes for part in rest)
        return full[0] != "separatrix" and any(map(is_in_a_library, (full, [first, *rest], ["torch", first, *rest])))

    def has_path(self, parts: list[str]) -> bool:
        """Whether the parts name a module, a name in a module, or a member of a class in a module."""
        for cut in range(len(parts), 0, -1):
            prefix = ".".join(parts[:cut])
            for module, source in self.modules.items():
                if module == prefix or module.endswith(f".{prefix}"):
                    rest = parts[cut:]
                    names = source.used if source.path.name == "__init__.py" else source.defined
                    if not rest or (rest[0] in names and (len(rest) == 1 or self.has_members(rest[0], rest[1:]))):
                        return True
        return False

    def has_members(self, name: str, rest: list[str]) -> bool:
        """Whether a class has a member, its own or inherited from one of our classes."""
        node = self.classes.get(name)
        if node is None or len(rest) != 1:
            return node is None
        own = {x.attr for x in ast.walk(node) if isinstance(x, ast.Attribute) and is_stored(x)}
        bases = [base.id for base in node.bases if isinstance(base, ast.Name) and base.id in self.classes]
        return rest[0] in defined(node.body) | own or any(self.has_members(base, rest) for base in bases)


def above(package: str) -> list[str]:
    """A package and the packages that contain it."""
    parts = package.split(".")
    return [".".join(parts[:count]) for count in range(len(parts), 0, -1)]


def is_in_a_library(parts: list[str]) -> bool:
    """Whether an installed library has a dotted name."""
    value: object = None
    for count in range(1, len(parts) + 1):
        try:
            value = getattr(value, parts[count - 1]) if count > 1 else import_module(parts[0])
        except (AttributeError, ModuleNotFoundError):
            try:
                value = import_module(".".join(parts[:count]))
            except ModuleNotFoundError:
                return False
    return True


def library(root: Path) -> Library:
    folders = ("src", "csrc", "docs", "tests", "examples", "benchmarks")
    files = {str(path.relative_to(root)) for folder in folders for path in (root / folder).rglob("*.*")}
    symbols = set(re.findall(r"\w+", (root / "csrc" / "separatrix.h").read_text()))
    return Library(root / "src", files, symbols)


def test_references_of_docstrings_and_comments_exist(root: Path) -> None:
    package = library(root)
    assert sum(1 for source in package.sources for _ in source.references()) > 1000
    assert package.stale() == []


CODE = """\
\"\"\"{}\"\"\"

import numpy as np
from torch import nn

from made.low.sums import add


class Plan(nn.Module):
    bytes: int

    def run(self, tokens):
        self.kept = {{"count": add(tokens)}}  # {}
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("root")
    for path, code in {
        "made/__init__.py": "",
        "made/low/__init__.py": "",
        "made/low/sums.py": "class Total:\n    size: int\n\n\ndef add(values): ...\n\n\ndef _more(): ...\n",
        "made/low/far.py": "def distant(): ...\n",
        "made/high/__init__.py": "",
        "made/high/part/__init__.py": "",
        "made/high/part/below.py": "",
        "made/high/beside.py": "def neighbour(argument): ...\n",
    }.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(code)
    return root


def stale_in(folder: Path, docstring: str, comment: str) -> list[str]:
    (folder / "made" / "high" / "plan.py").write_text(CODE.format(docstring, comment))
    return Library(folder, {"made/low/sums.py", "csrc/stream.hpp"}, {"separatrix_call"}).stale()


@pytest.mark.parametrize(
    "name",
    [
        "Plan", "run", "tokens", "count", "kept", "add", "Total", "values", "_more", "neighbour", "beside",
        "below", "low", "made.low.sums", "sums.add", "low.far.distant", "Total.size", "Plan.run", "Plan.kept",
        "Plan.run()", "tokens.size", "nn.Linear", "np.linalg.norm", "torch.distributed", "nn.Linear(3, 4)",
        "low/sums.py", "low/sums", "csrc/stream.hpp", "separatrix_call", "len", "for", "is_causal", "a command",
    ],
)  # fmt: skip
def test_a_name_that_exists_is_found(made: Path, name: str) -> None:
    assert stale_in(made, f"See `{name}`.", f"as `{name}` does") == []


@pytest.mark.parametrize(
    "name",
    [
        "Gone", "gone()", "distant", "far", "argument", "made.low.gone", "sums.gone", "low.far.add", "Total.gone",
        "Plan.gone", "gone.size", "tokens.gone", "nn.Gone", "np.linalg.gone", "torch.gone", "low/gone.py", "low/gone",
        "gone.py", "csrc/gone.hpp", "separatrix_gone",
    ],
)  # fmt: skip
def test_a_stale_name_is_detected(made: Path, name: str) -> None:
    assert stale_in(made, f"See\n`{name}`.", "") == [f"made/high/plan.py:2 {name}"]
    assert stale_in(made, "", f"as `{name}` does") == [f"made/high/plan.py:13 {name}"]
    assert stale_in(made, f"See ``{name}``.", "") == []
