"""A small causal language model of `transformers` whose layers are `nn.TensorAttention`: for `generate` and `Trainer`.

The model is a complete example to copy from: it can be saved and loaded by ``save_pretrained`` and ``from_pretrained``,
is registered with the ``Auto`` classes, and decodes with a `LayerCache`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForCausalLM, GenerationMixin, PreTrainedConfig, PreTrainedModel
from transformers.cache_utils import Cache
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import CausalLMOutputWithPast

from separatrix.errors import ArgumentError
from separatrix.hf.cache import LayerCache, key_padding_mask
from separatrix.nn import TensorAttention


class TensorAttentionConfig(PreTrainedConfig):
    """The sizes of a `TensorAttentionForCausalLM`.

    Args:
        vocab_size: The number of tokens in the vocabulary.
        hidden_size: The width of embeddings and layers.
        num_hidden_layers: The number of blocks of attention and a feed-forward network.
        num_attention_heads: The number of heads of each layer.
        intermediate_size: The width inside the feed-forward networks.
        max_position_embeddings: The longest sequence.
        attention: Further arguments of `nn.TensorAttention`, such as ``{"order": 3, "bound": 1.0, "tolerance": 1e-3}``.
        **options: As in `PreTrainedConfig`.
    """

    model_type = "separatrix"

    def __init__(
        self,
        vocab_size: int = 256,
        hidden_size: int = 64,
        num_hidden_layers: int = 2,
        num_attention_heads: int = 4,
        intermediate_size: int = 256,
        max_position_embeddings: int = 512,
        attention: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.vocab_size, self.hidden_size, self.intermediate_size = vocab_size, hidden_size, intermediate_size
        self.num_hidden_layers, self.num_attention_heads = num_hidden_layers, num_attention_heads
        self.max_position_embeddings = max_position_embeddings
        self.attention = dict(attention or {})


class _Block(GradientCheckpointingLayer):
    def __init__(self, config: TensorAttentionConfig, index: int) -> None:
        super().__init__()
        width = config.hidden_size
        self.index = index
        self.attention_norm, self.mlp_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = TensorAttention(width, config.num_attention_heads, **config.attention)
        self.mlp = nn.Sequential(
            nn.Linear(width, config.intermediate_size), nn.GELU(), nn.Linear(config.intermediate_size, width)
        )

    def forward(self, x: Tensor, cache: LayerCache | None, padding: Tensor | None) -> Tensor:
        normed = self.attention_norm(x)
        if cache is None:
            attended = self.attention(normed, is_causal=True, key_padding_mask=padding)
        else:
            attended = cache.decode(self.attention, normed, self.index, key_padding_mask=padding)
        x = x + attended
        out: Tensor = x + self.mlp(self.mlp_norm(x))
        return out


class TensorAttentionForCausalLM(PreTrainedModel, GenerationMixin):
    """A causal language model of `nn.TensorAttention` layers with learned positions.

    Padding has no position, so that a prompt padded on the left has the same continuation as without padding.

    Example:
        >>> config = TensorAttentionConfig(vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=2)
        >>> model = TensorAttentionForCausalLM(config).eval()
        >>> model.generate(torch.tensor([[1, 2, 3]]), max_new_tokens=4, do_sample=False, pad_token_id=0).shape
        torch.Size([1, 7])
    """

    config_class = TensorAttentionConfig
    config: TensorAttentionConfig
    supports_gradient_checkpointing = True

    def __init__(self, config: TensorAttentionConfig) -> None:
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.embed_positions = nn.Embedding(config.max_position_embeddings, config.hidden_size)
        self.layers = nn.ModuleList(_Block(config, index) for index in range(config.num_hidden_layers))
        self.norm = nn.LayerNorm(config.hidden_size)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()  # type: ignore[no-untyped-call]

    def get_input_embeddings(self) -> nn.Embedding:
        return self.embed_tokens

    def get_output_embeddings(self) -> nn.Module:
        head: nn.Module = self.lm_head
        return head

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        past_key_values: Cache | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        use_cache: bool | None = None,
        logits_to_keep: int = 0,
        **loss_options: Any,
    ) -> CausalLMOutputWithPast:
        """The logits of the next tokens, and the loss if there are labels; arguments as in models of `transformers`.

        A cache is used and returned if `use_cache` is true, or if one with tokens is given.
        """
        if (input_ids is None) == (inputs_embeds is None):
            raise ArgumentError("input_ids", expected="either input_ids or inputs_embeds", got="both or neither")
        x = self.embed_tokens(input_ids) if inputs_embeds is None else inputs_embeds
        length = x.shape[1]
        cache = LayerCache.of(past_key_values) if use_cache or past_key_values is not None else None
        if position_ids is None:
            position_ids = _positions(attention_mask, length, 0 if cache is None else cache.get_seq_length(), x.device)
        x = x + self.embed_positions(position_ids)
        padding = key_padding_mask(attention_mask, length)
        for block in self.layers:
            x = block(x, cache, padding)
        logits = self.lm_head(self.norm(x[:, -logits_to_keep:]))
        loss = None if labels is None else self.loss_function(logits, labels, self.config.vocab_size, **loss_options)
        return CausalLMOutputWithPast(loss=loss, logits=logits, past_key_values=cache)

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        super()._init_weights(module)  # type: ignore[no-untyped-call]
        if isinstance(module, TensorAttention):
            module.reset_parameters()


def _positions(attention_mask: Tensor | None, length: int, before: int, device: torch.device) -> Tensor:
    """The positions of the last `length` tokens, (batch, length) or (1, length), with padding left out of the count."""
    if attention_mask is None:
        return torch.arange(before, before + length, device=device).unsqueeze(0)
    return (attention_mask.long().cumsum(-1) - 1).clamp(min=0)[:, -length:]


AutoConfig.register(TensorAttentionConfig.model_type, TensorAttentionConfig, exist_ok=True)
AutoModelForCausalLM.register(TensorAttentionConfig, TensorAttentionForCausalLM, exist_ok=True)
