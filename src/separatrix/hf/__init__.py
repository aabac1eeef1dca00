"""Hugging Face `transformers`: models with this library's layers, and our order-2 attention in its models.

    import separatrix.hf
    model.set_attn_implementation(separatrix.hf.register())                # exact
    model.set_attn_implementation(separatrix.hf.register(tolerance=1e-3))  # certified
    separatrix.hf.report_heads(model, inputs, tolerance=1e-2)
    model = separatrix.hf.TensorAttentionForCausalLM(separatrix.hf.TensorAttentionConfig(attention={"order": 3}))

The package needs the extra `hf`.

cache           the caches of the layers of `separatrix.nn` as a `Cache`, for `generate`
language_model  a causal language model of these layers, to use and to copy from
interface       the attention functions that `transformers` calls, and the patterns of the masks that it passes
report          the sizes of the scores of a model's heads, and their certified plans
"""

from __future__ import annotations

from importlib.util import find_spec

if find_spec("transformers") is None:
    raise ImportError("separatrix.hf needs transformers, which is not installed: pip install 'separatrix[hf]'")

from separatrix.hf.cache import LayerCache, key_padding_mask
from separatrix.hf.interface import register
from separatrix.hf.language_model import TensorAttentionConfig, TensorAttentionForCausalLM
from separatrix.hf.report import HeadReport, report_heads

__all__ = [
    "HeadReport",
    "LayerCache",
    "TensorAttentionConfig",
    "TensorAttentionForCausalLM",
    "key_padding_mask",
    "register",
    "report_heads",
]
