"""Which kernels run, in fresh interpreters: those that SEPARATRIX_ISA names, the best, or none."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import separatrix
from separatrix.native import (
    INTERFACE,
    ExactBounds,
    ExactCall,
    ExactGradients,
    ExactLevels,
    ExactRange,
    Monomials,
    Norm,
    Pass,
    ProductsCall,
    Scan,
    ScanGradients,
    ScanResults,
    StreamCall,
    TensorAddress,
    TokensCall,
    native,
    runnable,
)

TELL = """
from separatrix.errors import SeparatrixError
from separatrix.native import native
try:
    found = native()
    print(found.architecture, found.library is not None, found.reason, sep="|")
except SeparatrixError as error:
    print("refused", error, sep="|")
"""


def told(done: subprocess.CompletedProcess[str]) -> list[str]:
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip().split("|")


def test_the_best_kernels_run_by_default(forked, library: ctypes.CDLL) -> None:
    """Intel's processors run the avx512_bf16 kernels slowly: they are chosen on AMD processors only."""
    slow = ("lowered",) if "AuthenticAMD" in Path("/proc/cpuinfo").read_text() else ("lowered", "avx512_bf16")
    best = next(name for name in runnable(library) if not name.startswith(slow))
    assert told(forked(TELL, SEPARATRIX_ISA="")) == [best, "True", "It is the best that this processor runs."]


@pytest.mark.parametrize("name", ["avx512_amx", "avx512_bf16", "avx512", "avx2", "baseline", "neon"])
def test_an_architecture_is_named(forked, library: ctypes.CDLL, name: str) -> None:
    actual = told(forked(TELL, SEPARATRIX_ISA=name))
    if name in runnable(library):
        assert actual == [name, "True", "SEPARATRIX_ISA names it."]
    else:
        expected = (
            f"SEPARATRIX_ISA: expected 'none' or one of {runnable(library)}, which this processor runs; got {name!r}."
        )
        assert actual == ["refused", expected]


def test_unknown_architectures_are_refused(forked, library: ctypes.CDLL) -> None:
    kind, message = told(forked(TELL, SEPARATRIX_ISA="nonsense"))
    assert kind == "refused"
    assert str(runnable(library)) in message
    assert message.endswith("got 'nonsense'.")


def test_plain_pytorch_can_be_requested(forked) -> None:
    assert told(forked(TELL, SEPARATRIX_ISA="none")) == ["none", "False", "SEPARATRIX_ISA selects plain PyTorch."]


def test_the_kernels_of_the_named_architecture_are_called(forked, library: ctypes.CDLL) -> None:
    """Without fused multiply-adds a result has other digits, and attention is still computed."""
    code = """
import torch, separatrix as sx
torch.manual_seed(0)
Q, K, V = torch.randn(3, 40, 16)
print(sx.tensor_attention(Q, [K, K], [V, V], method="exact").double().sum().item().hex())
"""
    sums = {name: float.fromhex(told(forked(code, SEPARATRIX_ISA=name))[0]) for name in (*runnable(library), "none")}
    assert len(set(sums.values())) > 1
    assert max(sums.values()) == pytest.approx(min(sums.values()), rel=1e-4)


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """The package without its kernels, on a separate path."""
    target = tmp_path / "copied" / "separatrix"
    shutil.copytree(Path(separatrix.__file__).parent, target, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    return target


HERE = """
import importlib.util, sys
sys.meta_path[:] = [finder for finder in sys.meta_path if not type(finder).__module__.startswith("_editable")]
sys.path.insert(0, sys.argv[1])
import separatrix
assert separatrix.__file__.startswith(sys.argv[1]), separatrix.__file__
"""


def test_without_a_library_plain_pytorch_runs_and_says_why(forked, copied: Path) -> None:
    arguments = str(copied.parent)
    found = told(forked(HERE + TELL, arguments, SEPARATRIX_ISA=""))
    assert found == [
        "none",
        "False",
        "They were not built: at installation no C++ compiler was found, or it failed.",
    ]
    code = HERE + "import torch; print(separatrix.tensor_attention(*torch.ones(3, 4, 2)).sum().item())"
    assert told(forked(code, arguments, SEPARATRIX_ISA="")) == ["8.0"]
    assert told(forked(HERE + TELL, arguments, SEPARATRIX_ISA="none"))[2] == "SEPARATRIX_ISA selects plain PyTorch."
    refused = "SEPARATRIX_ISA: expected 'none', because no kernels are installed; got 'avx2'."
    assert told(forked(HERE + TELL, arguments, SEPARATRIX_ISA="avx2")) == ["refused", refused]


def test_with_a_library_that_cannot_be_loaded_plain_pytorch_runs_and_says_why(forked, copied: Path) -> None:
    (copied / "_kernels.so").write_bytes(b"no library")
    arguments = str(copied.parent)
    architecture, loaded, reason = told(forked(HERE + TELL, arguments, SEPARATRIX_ISA=""))
    assert (architecture, loaded) == ("none", "False")
    assert reason.startswith("_kernels.so cannot be loaded: ")
    assert "no C++ compiler" not in reason
    code = HERE + "import torch; print(separatrix.tensor_attention(*torch.ones(3, 4, 2)).sum().item())"
    assert told(forked(code, arguments, SEPARATRIX_ISA="")) == ["8.0"]
    kind, message = told(forked(HERE + TELL, arguments, SEPARATRIX_ISA="avx2"))
    assert kind == "refused"
    assert message.startswith("SEPARATRIX_ISA: expected 'none', got 'avx2', but _kernels.so cannot be loaded: ")


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler to make a library with")
def test_a_library_without_our_functions_is_not_loaded(forked, copied: Path, tmp_path: Path) -> None:
    source = tmp_path / "other.c"
    source.write_text("int other(void) { return 0; }")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", copied / "_kernels.so", source], check=True)
    architecture, _, reason = told(forked(HERE + TELL, str(copied.parent), SEPARATRIX_ISA=""))
    assert architecture == "none"
    assert "separatrix_interface" in reason


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler to make a library with")
def test_a_library_of_another_interface_is_refused(forked, copied: Path, tmp_path: Path) -> None:
    source = tmp_path / "other.c"
    names = ("separatrix_architecture", "separatrix_chosen")
    functions = [f"const char* {name}(void) {{ return 0; }}" for name in names]
    source.write_text("\n".join([f"int separatrix_interface(void) {{ return {INTERFACE + 1}; }}", *functions]))
    subprocess.run(["cc", "-shared", "-fPIC", "-o", copied / "_kernels.so", source], check=True)
    kind, message = told(forked(HERE + TELL, str(copied.parent), SEPARATRIX_ISA=""))
    assert kind == "refused"
    assert f"expected interface {INTERFACE}, got {INTERFACE + 1}" in message
    assert "make native" in message


def test_the_numbers_are_those_of_the_header(root: Path) -> None:
    header = (root / "csrc" / "separatrix.h").read_text()
    assert f"#define SEPARATRIX_INTERFACE {INTERFACE}\n" in header


def test_a_choice_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    before = native()
    monkeypatch.setenv("SEPARATRIX_ISA", "nonsense")
    assert native() is before


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler to ask for the sizes")
def test_structures_are_those_of_the_header(root: Path, tmp_path: Path) -> None:
    """Every field of every structure has the right offset, and there are no other fields."""
    mirrors = {
        "separatrix_tensor": TensorAddress,
        "separatrix_call": ExactCall,
        "separatrix_gradients": ExactGradients,
        "separatrix_levels": ExactLevels,
        "separatrix_range": ExactRange,
        "separatrix_bounds": ExactBounds,
        "separatrix_scan": Scan,
        "separatrix_scan_results": ScanResults,
        "separatrix_scan_gradients": ScanGradients,
        "separatrix_monomials": Monomials,
        "separatrix_products": ProductsCall,
        "separatrix_pass": Pass,
        "separatrix_tokens": TokensCall,
        "separatrix_norm": Norm,
        "separatrix_stream": StreamCall,
    }
    header = (root / "csrc" / "separatrix.h").read_text()
    assert set(re.findall(r"^} (\w+);", header, re.M)) == set(mirrors)
    source, program = tmp_path / "sizes.c", tmp_path / "sizes"
    lines = []
    for name, mirror in mirrors.items():
        lines += [f'printf("%zu\\n", sizeof({name}));']
        lines += [f'printf("%zu\\n", offsetof({name}, {field}));' for field, _ in mirror._fields_]
    includes = '#include <stddef.h>\n#include <stdio.h>\n#include "separatrix.h"\n'
    source.write_text(f"{includes}int main(void) {{ {' '.join(lines)} return 0; }}\n")
    subprocess.run(["cc", f"-I{root / 'csrc'}", "-o", program, source], check=True)
    said = [int(line) for line in subprocess.run([program], capture_output=True, text=True, check=True).stdout.split()]
    expected = []
    for mirror in mirrors.values():
        expected += [ctypes.sizeof(mirror), *(getattr(mirror, field).offset for field, _ in mirror._fields_)]
    assert said == expected
