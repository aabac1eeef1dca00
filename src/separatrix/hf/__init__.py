"""Hugging Face `transformers`: run its models with this library's order-2 attention, and examine their heads.

    import separatrix.hf
    model.set_attn_implementation(separatrix.hf.register())                # exact
    model.set_attn_implementation(separatrix.hf.register(tolerance=1e-3))  # certified
    separatrix.hf.report_heads(model, inputs, tolerance=1e-2)

The package needs the extra `hf`.

interface   the attention functions that `transformers` calls
masks       the masks that `transformers` makes, and the patterns they were made from
report      the sizes of the scores of a model's heads, and their certified plans
"""

from __future__ import annotations

from importlib.util import find_spec

if find_spec("transformers") is None:
    raise ImportError("separatrix.hf needs transformers, which is not installed: pip install 'separatrix[hf]'")

from separatrix.hf.interface import register
from separatrix.hf.report import HeadReport, report_heads

__all__ = ["HeadReport", "register", "report_heads"]
