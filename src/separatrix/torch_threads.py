"""Loads PyTorch's C++ library, on whose threads the kernels run, in a fifth of the time of `import torch`."""

from __future__ import annotations

import ctypes
import sys
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path


@lru_cache(maxsize=1)
def lending_library() -> ctypes.CDLL | None:
    """PyTorch's library for the CPU, whose thread pool the kernels use; None if it is not found or exports no threads.

    The path is that on Linux and macOS; two functions with a C interface give access to the threads.
    """
    package = find_spec("torch")
    if package is None or package.origin is None:
        return None
    file = Path(package.origin).with_name("lib") / f"libtorch_cpu.{'dylib' if sys.platform == 'darwin' else 'so'}"
    if not file.exists():
        return None
    try:
        library = ctypes.CDLL(str(file))
    except OSError:
        import torch  # noqa: F401  its import looks for what the library needs, those of GPUs, in more places

        library = ctypes.CDLL(str(file))
    lends = all(hasattr(library, name) for name in ("torch_parallel_for", "torch_get_num_threads"))
    return library if lends else None
