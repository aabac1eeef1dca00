from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
from email.message import Message
from email.parser import Parser
from pathlib import Path
from zipfile import ZipFile

import pytest

import separatrix

EXAMPLE = """
import torch, separatrix as sx
generator = torch.Generator().manual_seed(0)
Q, K1, K2, V1, V2 = (torch.randn(n, 4, generator=generator) for n in (3, 5, 7, 5, 7))
assert torch.isfinite(sx.tensor_attention(Q, [K1, K2], [V1, V2])).all()
print(sx.__file__)
"""
KERNELS = """
from separatrix.native import native
print(native().library._name)
"""
# An editable installation finds its own package before all paths.
OUTSIDE = """
import sys
sys.meta_path[:] = [finder for finder in sys.meta_path if not type(finder).__module__.startswith("_editable")]
"""


def call(*command: str | Path, cwd: Path, **environment: str) -> str:
    environment = {**os.environ, **environment}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def build(source: Path, folder: Path, **environment: str) -> Path:
    pip = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder]
    call(*pip, source, cwd=folder, **environment)
    (built,) = folder.iterdir()
    return built


@pytest.fixture(scope="module")
def wheel(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build without kernels, as if no compiler works; this takes a second."""
    return build(root, tmp_path_factory.mktemp("dist"), CXX="/bin/false")


@pytest.fixture(scope="module")
def wheel_with_kernels(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which(os.environ.get("CXX", "c++")) is None:
        pytest.skip("There is no C++ compiler.")
    # Without optimisation, in a fifth of the time: this tests the contents of the wheel, not the kernels.
    return build(root, tmp_path_factory.mktemp("dist_with_kernels"), SKBUILD_CMAKE_BUILD_TYPE="Debug")


def sources(root: Path) -> set[str]:
    """The files of the package, without compiled ones."""
    files = (file.relative_to(root / "src") for file in (root / "src" / "separatrix").rglob("*") if file.is_file())
    return {file.as_posix() for file in files if "__pycache__" not in file.parts and file.suffix != ".so"}


def held(wheel: Path) -> set[str]:
    with ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


@pytest.fixture(scope="module")
def metadata(wheel: Path) -> Message:
    with ZipFile(wheel) as archive:
        text = archive.read(f"separatrix-{separatrix.__version__}.dist-info/METADATA").decode()
    return Parser().parsestr(text)


def test_it_contains_the_whole_package(root: Path, wheel: Path) -> None:
    assert wheel.name == f"separatrix-{separatrix.__version__}-py3-none-any.whl"
    with ZipFile(wheel) as archive:
        licences = [name for name in archive.namelist() if name.endswith("dist-info/licenses/LICENSE")]
    assert held(wheel) == sources(root)
    assert "separatrix/py.typed" in held(wheel)
    assert len(licences) == 1


def test_metadata(metadata: Message) -> None:
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata["License-Expression"] == "Apache-2.0"
    extras = {"lab", "explore", "dask", "hf", "verify", "tensorboard", "all"}
    assert set(metadata.get_all("Provides-Extra", [])) == extras
    core = [requirement for requirement in metadata.get_all("Requires-Dist", []) if "extra ==" not in requirement]
    assert {requirement.split(">=")[0] for requirement in core} == {"numpy", "safetensors", "torch"}
    assert "Project-URL" not in metadata  # until the project has a home page
    classifiers = metadata.get_all("Classifier", [])
    assert "Development Status :: 4 - Beta" in classifiers
    assert [classifier for classifier in classifiers if classifier.startswith("Operating")] == [
        "Operating System :: POSIX :: Linux"
    ]


def test_command(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        entries = archive.read(f"separatrix-{separatrix.__version__}.dist-info/entry_points.txt").decode()
    assert entries.split() == ["[console_scripts]", "separatrix", "=", "separatrix.commands.main:main"]


def test_kernels_next_to_the_sources_are_not_included(root: Path, tmp_path: Path) -> None:
    """The kernels of `make native` may be built from other sources, and are for one processor."""
    copy = tmp_path / "copy"
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        copy.mkdir(exist_ok=True)
        shutil.copy(root / name, copy)
    shutil.copytree(root / "csrc", copy / "csrc")
    shutil.copytree(root / "src" / "separatrix" / "attention", copy / "src" / "separatrix" / "attention")
    shutil.copy(root / "src" / "separatrix" / "__init__.py", copy / "src" / "separatrix")
    (copy / "src" / "separatrix" / "_kernels.so").write_bytes(b"old")
    folder = tmp_path / "dist"
    folder.mkdir()
    built = build(copy, folder, CXX="/bin/false")
    assert built.name.endswith("-py3-none-any.whl")
    assert "separatrix/__init__.py" in held(built)
    assert not [name for name in held(built) if name.endswith(".so")]


def test_a_source_distribution_has_the_files_of_the_repository(root: Path, tmp_path: Path) -> None:
    if not (root / ".git").exists():
        pytest.skip("This is no clone.")
    code = "import sys; from scikit_build_core.build import build_sdist; build_sdist(sys.argv[1])"
    call(sys.executable, "-c", code, tmp_path, cwd=root)
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as files:
        names = {name.partition("/")[2] for name in files.getnames()}
    known = set(call("git", "ls-files", cwd=root).splitlines())
    new = set(call("git", "ls-files", "--others", "--exclude-standard", cwd=root).splitlines())
    top = {name for name in known | new if name.startswith(".")}
    assert names - new == (known - top) | {"PKG-INFO"}
    assert "csrc/kernels.cpp" in names


@pytest.mark.soak
@pytest.mark.timeout(2700)
def test_kernels_are_compiled_into_the_wheel(run, root: Path, wheel_with_kernels: Path, tmp_path: Path) -> None:
    """The tag names the platform and no Python version; the wheel has the library and no C++ sources, and runs."""
    name, tag = wheel_with_kernels.name.split("-py3-none-")
    assert name == f"separatrix-{separatrix.__version__}"
    assert tag == f"{sysconfig.get_platform().replace('-', '_').replace('.', '_')}.whl"
    assert held(wheel_with_kernels) == sources(root) | {"separatrix/_kernels.so"}
    target = tmp_path / "target"
    call(sys.executable, "-m", "pip", "install", "--no-deps", "--target", target, wheel_with_kernels, cwd=tmp_path)
    done = run(OUTSIDE + EXAMPLE + KERNELS, PYTHONPATH=str(target), SEPARATRIX_ISA="")
    assert (done.returncode, done.stderr) == (0, "")
    file, library = done.stdout.split()
    assert Path(file).is_relative_to(target)
    assert Path(library) == target / "separatrix" / "_kernels.so"


def test_installed_package_runs(run, wheel: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    call(sys.executable, "-m", "pip", "install", "--no-deps", "--target", target, wheel, cwd=tmp_path)
    done = run(OUTSIDE + EXAMPLE, PYTHONPATH=str(target))
    assert (done.returncode, done.stderr) == (0, "")
    assert Path(done.stdout.strip()).is_relative_to(target)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_empty_environment(root: Path, wheel: Path, tmp_path: Path) -> None:
    """In an environment with only pip: the core runs without the extras, then the command with `lab`."""
    venv.create(tmp_path / "empty", with_pip=True)
    scripts = tmp_path / "empty" / "bin"
    pip = [scripts / "python", "-m", "pip", "install", "--constraint", root / "constraints.txt"]
    call(*pip, wheel, cwd=tmp_path)
    assert Path(call(scripts / "python", "-c", EXAMPLE, cwd=tmp_path).strip()).is_relative_to(tmp_path / "empty")
    done = subprocess.run([scripts / "separatrix", "--help"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "pip install 'separatrix[lab]'" in done.stderr

    call(*pip, f"separatrix[lab] @ {wheel.as_uri()}", cwd=tmp_path)
    assert "passed" in call(scripts / "separatrix", "doctor", cwd=tmp_path)
