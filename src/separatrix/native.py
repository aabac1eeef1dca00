"""The kernels in C++: loads their library, chooses the architecture, and says why no kernels run.

The library has a C interface (csrc/separatrix.h), is built beside this file or installed there, and is loaded when it
is first needed. The environment variable SEPARATRIX_ISA names the architecture whose kernels run (avx512_amx,
avx512_bf16, avx512, avx2, baseline, neon), or ``none`` for plain PyTorch. This module does not import torch;
`native_tensors` calls the kernels with tensors.
"""

from __future__ import annotations

import ctypes
import os
import threading
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from separatrix.errors import SeparatrixError
from separatrix.torch_threads import lending_library

INTERFACE = 11
"""The version of the C interface that this module uses."""
MOST_SETS = 15
"""The largest number of key sets of a call of the kernels."""
REFUSED = 3
"""The return value of a kernel that does not support the given numbers."""
NONE = "none"
FILE = Path(__file__).with_name("_kernels.so")
"""The path of the library, which need not exist."""


class TensorAddress(ctypes.Structure):
    """The address and strides of a tensor (heads, rows, columns) with contiguous columns; strides are in entries."""

    _fields_ = (("data", ctypes.c_void_p), ("head", ctypes.c_int64), ("row", ctypes.c_int64))


class ExactCall(ctypes.Structure):
    """A call of exact attention: `separatrix_call` of the C interface."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("type", "heads", "shared", "mask_shared", "sets")),
        *((name, ctypes.c_int64) for name in ("query_length", "d", "d_v")),
        ("lengths", ctypes.c_int64 * MOST_SETS),
        ("windows", ctypes.c_int64 * MOST_SETS),
        ("is_causal", ctypes.c_int64),
        ("offset", ctypes.c_int64),
        ("scale", ctypes.c_double),
        ("query", TensorAddress),
        ("keys", TensorAddress * MOST_SETS),
        ("values", TensorAddress * MOST_SETS),
        ("masks", TensorAddress * MOST_SETS),
    )


class Scan(ctypes.Structure):
    """A range of tokens of causal near-linear attention: `separatrix_scan` of the C interface."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("heads", "sets", "length", "d", "columns", "rank", "weighted", "terms")),
        *((name, ctypes.c_void_p) for name in ("last", "parents", "coefficients", "moments", "query")),
        *((name, ctypes.c_void_p * MOST_SETS) for name in ("keys", "values", "before")),
    )


class ScanResults(ctypes.Structure):
    """The outputs of the forward pass of a scan: `separatrix_scan_results` of the C interface."""

    _fields_ = (("sums", ctypes.c_void_p), ("after", ctypes.c_void_p * MOST_SETS))


class ScanGradients(ctypes.Structure):
    """The inputs and outputs of the backward pass of a scan: `separatrix_scan_gradients` of the C interface."""

    _fields_ = (
        ("sums", ctypes.c_void_p),
        ("after", ctypes.c_void_p * MOST_SETS),
        ("query", ctypes.c_void_p),
        *((name, ctypes.c_void_p * MOST_SETS) for name in ("keys", "values", "before")),
    )


class ExactGradients(ctypes.Structure):
    """The inputs and outputs of the backward pass of exact attention: `separatrix_gradients` of the C interface."""

    _fields_ = (
        *((name, TensorAddress) for name in ("out", "lse", "grad_out", "grad_lse")),
        ("grad_query", ctypes.c_void_p),
        ("grad_keys", ctypes.c_void_p * MOST_SETS),
        ("grad_values", ctypes.c_void_p * MOST_SETS),
    )


class ExactLevels(ctypes.Structure):
    """The number of terms that exact attention sums at each level: `separatrix_levels` of the C interface."""

    _fields_ = tuple(
        (name, ctypes.c_int64)
        for name in ("chunk", "rows", "tiles", "chunks", "query_block", "query_blocks", "pairs", "groups", "is_narrow")
    )


class ExactRange(ctypes.Structure):
    """Whether the factors of a call need no balancing: `separatrix_range` of the C interface."""

    _fields_ = (
        ("room", ctypes.c_double),
        ("near", ctypes.c_double),
        ("moderate", ctypes.c_int64),
        ("near_one", ctypes.c_int64),
        ("log_output", ctypes.c_double),
    )


class ExactBounds(ctypes.Structure):
    """Bounds on the entries and scores of a call: `separatrix_bounds` of the C interface."""

    _fields_ = (
        ("is_finite", ctypes.c_int64),
        *((name, ctypes.c_double) for name in ("log_scores", "log_least", "log_most")),
        *((name, ctypes.c_void_p) for name in ("width", "largest", "radii")),
        *((name, ctypes.c_double) for name in ("score", "weight", "average", "relative", "least")),
        ("errors", ctypes.c_void_p),
        *((name, ctypes.c_double) for name in ("most_radius", "most_error", "most_value")),
    )


class Monomials(ctypes.Structure):
    """The monomials of an index set: `separatrix_monomials` of the C interface."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("rank", "d", "stored")),
        *((name, ctypes.c_void_p) for name in ("left", "right", "parents", "coordinates")),
    )


class ProductsCall(ctypes.Structure):
    """Products with the monomials of tokens: `separatrix_products` of the C interface."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("type", "heads", "tokens", "columns")),
        ("set", ctypes.POINTER(Monomials)),
        ("x", TensorAddress),
        ("W", TensorAddress),
    )


class Pass(ctypes.Structure):
    """A pass over strided tokens: `separatrix_pass` of the C interface."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("type", "arithmetic", "heads", "tokens", "d_v", "weighted", "terms")),
        *((name, ctypes.c_int64) for name in ("level_first", "level_last")),
        ("set", ctypes.POINTER(Monomials)),
        *((name, TensorAddress) for name in ("x", "values", "mask", "weights")),
        ("factors", ctypes.c_void_p),
    )


class TokensCall(ctypes.Structure):
    """The tokens of a set, and which of them may be attended: `separatrix_tokens` of the C interface."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("type", "heads", "length", "d")),
        ("x", TensorAddress),
        ("mask", TensorAddress),
    )


class Norm(ctypes.Structure):
    """The requested norms of tokens, and their output arrays: `separatrix_norm` of the C interface."""

    _fields_ = (
        ("power", ctypes.c_int64),
        *((name, ctypes.c_void_p) for name in ("factors", "weights", "powers", "weighted", "largest")),
    )


class StreamCall(ctypes.Structure):
    """A few tokens of a stream: `separatrix_stream` of the C interface."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("type", "heads", "sets", "tokens", "d_v", "norm", "checked")),
        ("most", ctypes.c_double),
        ("set", ctypes.POINTER(Monomials)),
        ("coefficients", ctypes.c_void_p),
        ("factors", ctypes.c_double * (MOST_SETS + 1)),
        ("query", ctypes.c_void_p),
        ("keys", ctypes.c_void_p * MOST_SETS),
        ("values", ctypes.c_void_p * MOST_SETS),
        ("states", ctypes.c_void_p * MOST_SETS),
    )


@dataclass(frozen=True)
class Native:
    """Whether the kernels run, and if not, why.

    Attributes:
        library: The library, or None.
        architecture: The architecture whose kernels run, or "none".
        reason: A sentence that says why this architecture was chosen, or why no kernels run.
        threads: Whether the kernels run on PyTorch's threads; otherwise they run on the calling thread only.
    """

    library: ctypes.PyDLL | None
    architecture: str
    reason: str
    threads: bool = False


@lru_cache(maxsize=1)
def native() -> Native:
    """The kernels of this installation, loaded once; if their library cannot be loaded, the reason.

    Raises:
        SeparatrixError: SEPARATRIX_ISA names an architecture that the library does not have or the processor does not
            run, or there is no library, or the library was built from other sources than these.
    """
    wanted = os.environ.get("SEPARATRIX_ISA", "")
    if wanted == NONE:
        return Native(None, NONE, "SEPARATRIX_ISA selects plain PyTorch.")
    if not FILE.exists():
        if wanted:
            raise SeparatrixError(f"SEPARATRIX_ISA: expected 'none', because no kernels are installed; got {wanted!r}.")
        reason = "They were not built: at installation no C++ compiler was found, or it failed."
        return Native(None, NONE, reason)
    try:
        library = ctypes.PyDLL(str(FILE))
        interface = library.separatrix_interface()
    except (OSError, AttributeError) as error:
        reason = f"{FILE.name} cannot be loaded: {error}."
        if wanted:
            raise SeparatrixError(f"SEPARATRIX_ISA: expected 'none', got {wanted!r}, but {reason}") from error
        return Native(None, NONE, reason)
    if interface != INTERFACE:
        raise SeparatrixError(
            f"{FILE.name}: expected interface {INTERFACE}, got {interface}: the library was built from "
            "other sources. Build it again, by make native or pip install."
        )
    library.separatrix_architecture.restype = ctypes.c_char_p
    library.separatrix_chosen.restype = ctypes.c_char_p
    library.separatrix_sound.argtypes = [*[ctypes.c_int64] * 3, ctypes.c_void_p]
    threads = _share_threads(library)
    _share_interpreter(library)
    os.register_at_fork(
        after_in_child=lambda: _share_interpreter(library)
    )  # the main thread of a child process may be a different one
    if wanted and library.separatrix_choose(wanted.encode()) != 0:
        raise SeparatrixError(
            f"SEPARATRIX_ISA: expected 'none' or one of {runnable(library)}, which this processor runs; got {wanted!r}."
        )
    chosen = library.separatrix_chosen().decode()
    reason = "SEPARATRIX_ISA names it." if wanted else "It is the best that this processor runs."
    return Native(library, chosen, reason, threads)


def architectures(library: ctypes.PyDLL) -> list[str]:
    """The architectures that the library has kernels for, the best first."""
    names: list[str] = []
    while (name := library.separatrix_architecture(len(names))) is not None:
        names.append(name.decode())
    return names


def runnable(library: ctypes.PyDLL) -> list[str]:
    """The architectures of the library that this processor runs, the best first."""
    return [name for name in architectures(library) if library.separatrix_runs(name.encode())]


def _share_threads(library: ctypes.PyDLL) -> bool:
    """Let the kernels run on PyTorch's own threads if possible: two thread pools would compete for the cores.

    If PyTorch's library is not found or does not export the functions for this, the kernels run on one thread.
    """
    torch_library = lending_library()
    if torch_library is None:
        return False
    lent = (torch_library.torch_parallel_for, torch_library.torch_get_num_threads)
    library.separatrix_set_threads(*(ctypes.cast(function, ctypes.c_void_p) for function in lent))
    return True


def _share_interpreter(library: ctypes.PyDLL) -> None:
    """Let the kernels release the lock of the interpreter, and run signal handlers during a long call.

    An exception that a signal handler raises, such as KeyboardInterrupt, ends the call and propagates from it.
    """
    python = ctypes.pythonapi
    functions = (python.PyEval_SaveThread, python.PyEval_RestoreThread, python.PyErr_CheckSignals)
    main_thread = ctypes.c_size_t(threading.main_thread().ident or 0)
    library.separatrix_set_interpreter(*(ctypes.cast(function, ctypes.c_void_p) for function in functions), main_thread)
