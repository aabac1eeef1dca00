"""PyTorch operators of our own, so that compilers keep a call whole and `vmap` hands it the whole batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def operator(implementation: Callable[..., Any], *, fake: Callable[..., Any]) -> Any:
    """`separatrix::name` for a function of that name; `fake` gives the shapes and types of its results.

    `torch.library.custom_op` does the same, and imports the compiler, seconds of it, when the operator is first called.
    """
    name = implementation.__name__.removeprefix("_")
    torch.library.define(f"separatrix::{name}", torch.library.infer_schema(implementation, mutates_args=()))
    torch.library.impl(f"separatrix::{name}", "default", implementation)
    torch.library.register_fake(f"separatrix::{name}", fake)
    return getattr(torch.ops.separatrix, name).default
