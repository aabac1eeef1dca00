"""What is loaded when: slow modules only by what needs them. Times are not tested, the modules that cost them are."""

from __future__ import annotations

import pytest

MAIN = "from separatrix.commands.main import main; main()"
SLOW = {
    "dash", "dask", "distributed", "hypothesis", "mpmath", "numpy", "pandas", "plotly", "safetensors", "scipy",
    "sqlite3", "sympy", "torch", "transformers",
}  # fmt: skip


def watching(slow: set[str]) -> str:
    return f"import atexit, sys; atexit.register(lambda: print(*sorted({slow!r} & set(sys.modules)), file=sys.stderr));"


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["sweep", "--help"], ["doctor", "--help"]])
def test_help_loads_nothing_slow(run, arguments: list[str]) -> None:
    done = run(f"{watching(SLOW)}{MAIN}", *arguments)
    assert done.stdout
    assert done.stderr == "\n"


def test_operators_load_no_extra(run) -> None:
    """They need torch, and numpy for their index sets; what the extras bring stays out, and so does the compiler."""
    use = (
        "import torch, separatrix as sx; sx.nn.TensorAttention; q, k, v = torch.rand(3, 9, 4); "
        "sx.tensor_attention(q, [k, k], [v, v]); sx.linear_attention(q, k, v); "
        "sx.certified_attention(q, [k, k], [v, v], tolerance=1e-2, method='polynomial')"
    )
    done = run(f"{watching((SLOW | {'torch._dynamo'}) - {'numpy', 'torch'})}{use}")
    assert (done.returncode, done.stderr) == (0, "\n")
