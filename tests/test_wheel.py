from __future__ import annotations

import subprocess
import sys
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


def call(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    pip = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder]
    call(*pip, root, cwd=folder)
    (built,) = folder.iterdir()
    return built


@pytest.fixture(scope="module")
def metadata(wheel: Path) -> Message:
    with ZipFile(wheel) as archive:
        text = archive.read(f"separatrix-{separatrix.__version__}.dist-info/METADATA").decode()
    return Parser().parsestr(text)


def test_holds_the_whole_package(root: Path, wheel: Path) -> None:
    assert wheel.name == f"separatrix-{separatrix.__version__}-py3-none-any.whl"
    source = root / "src"
    files = {file.relative_to(source).as_posix() for file in (source / "separatrix").rglob("*") if file.is_file()}
    files = {name for name in files if "__pycache__" not in name}
    with ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
        licences = [name for name in archive.namelist() if name.endswith("dist-info/licenses/LICENSE")]
    assert held == files
    assert "separatrix/py.typed" in held
    assert len(licences) == 1


def test_metadata(metadata: Message) -> None:
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata["License-Expression"] == "Apache-2.0"
    extras = {"lab", "explore", "dask", "hf", "verify", "tensorboard", "all", "dev", "docs"}
    assert set(metadata.get_all("Provides-Extra", [])) == extras
    core = [requirement for requirement in metadata.get_all("Requires-Dist", []) if "extra ==" not in requirement]
    assert {requirement.split(">=")[0] for requirement in core} == {"numpy", "safetensors", "torch"}


def test_command(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        entries = archive.read(f"separatrix-{separatrix.__version__}.dist-info/entry_points.txt").decode()
    assert entries.split() == ["[console_scripts]", "separatrix", "=", "separatrix.commands.main:main"]


def test_installed_package_runs(run, wheel: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    call(sys.executable, "-m", "pip", "install", "--no-deps", "--target", target, wheel, cwd=tmp_path)
    done = run(EXAMPLE, PYTHONPATH=str(target))
    assert (done.returncode, done.stderr) == (0, "")
    assert Path(done.stdout.strip()).is_relative_to(target)


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_empty_environment(root: Path, wheel: Path, tmp_path: Path) -> None:
    """In an environment with nothing but pip: the core runs without the extras, then the command with `lab`."""
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
