"""Every launch reaches the driver through Triton's own launcher; a stand-in for NVIDIA's driver runs nothing."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.contracts.interpreter import needs_triton

pytestmark = [pytest.mark.soak, needs_triton, pytest.mark.timeout(1200)]

LAUNCHES = """
import os
import torch
from triton.backends.nvidia.driver import CudaDriver
from triton.runtime import driver
import separatrix as sx
from separatrix.attention.dispatch import gpu
from separatrix.attention.exact import backend, plain_tuples

cuda = CudaDriver()
cuda.get_current_device = lambda: 0
cuda.get_current_stream = lambda device: 0
cuda.get_device_capability = lambda device=0: (9, 0)
driver.set_active(cuda)
gpu.DEVICES, gpu.blocks_of = {"cpu"}, lambda device: "sm_90"
backend.BACKENDS = (backend.triton, *backend.BACKENDS)
plain_tuples._for_kernels = lambda tensors: False
asked, launch = [], gpu.launch
def spy(program, programs, device, *arguments, sequences=1, **options):
    if programs:
        asked.append(f"{program.__name__} {programs} {sequences}")
    launch(program, programs, device, *arguments, sequences=sequences, **options)
gpu.launch = spy
def attend(dtype, heads, shared, lengths, **options):
    leaves = [torch.zeros(heads * (1 if m else shared), sum(lengths), 16, dtype=dtype) for m in range(5)]
    leaves = [x.requires_grad_() for x in leaves]
    if len(lengths) > 1:
        options["cu_seqlens"] = torch.tensor([0, *lengths]).cumsum(0)
    out = sx.tensor_attention(leaves[0], leaves[1:3], leaves[3:], enable_gqa=shared > 1, **options)
    torch.autograd.grad(out.sum(), leaves)
attend(torch.bfloat16, 2, 1, [40], windows=[3, 20])
attend(torch.bfloat16, 1, 64, [10, 0, 30], windows=[3, 20])
masks = [torch.ones(40, dtype=torch.bool)] * 2
attend(torch.float32, 2, 1, [1, 39], windows=[3, 20], is_causal=True, key_masks=masks)
with open(os.environ["LAUNCHES"]) as file:
    done = [line.rsplit(" ", 1)[0] for line in file.read().splitlines()]
assert done == asked, (done, asked)
assert "of_sequence 30 3" in done, done
"""


def test_every_launch_reaches_the_driver(run, tmp_path):
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    import triton

    folder = Path(triton.__file__).parent / "backends" / "nvidia" / "include"
    source = Path(__file__).parents[3] / "contracts" / "libcuda.c"
    library = tmp_path / "libcuda.so.1"
    subprocess.run([compiler, "-shared", "-fPIC", "-w", f"-I{folder}", str(source), "-o", str(library)], check=True)
    done = run(
        LAUNCHES,
        LAUNCHES=str(tmp_path / "launches"),
        LD_LIBRARY_PATH=str(tmp_path),
        TRITON_LIBCUDA_PATH=str(tmp_path),
        TRITON_CACHE_DIR=str(tmp_path / "cache"),
        TRITON_INTERPRET="0",
    )
    assert done.returncode == 0, done.stderr
