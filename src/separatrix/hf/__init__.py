"""Hugging Face `transformers`: its models with our order-2 attention, and what their heads are like.

    import separatrix.hf
    model.set_attn_implementation(separatrix.hf.register())                # exact
    model.set_attn_implementation(separatrix.hf.register(tolerance=1e-3))  # certified
    separatrix.hf.report_heads(model, inputs, tolerance=1e-2)

Needs the extra `hf`.
"""

from __future__ import annotations

from importlib.util import find_spec

if find_spec("transformers") is None:
    raise ImportError("separatrix.hf needs transformers, which is not installed: pip install 'separatrix[hf]'")

from separatrix.hf.interface import register
from separatrix.hf.report import HeadReport, report_heads

__all__ = ["HeadReport", "register", "report_heads"]
