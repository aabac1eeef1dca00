r"""Layers: multi-head attention of any order.

    TensorAttention(x) = Concat(head_1, ..., head_h) W_O^T,
    head = tensor_attention(q, (k_1, ..., k_{k-1}), (v_1, ..., v_{k-1})),    q = x W_Q^T, k_m = x W_{K,m}^T, ...

Each head is the order-k attention of Definition 1.5 of Josh Alman and Zhao Song, "How to Capture Higher-order
Correlations? Generalizing Matrix Softmax Attention to Kronecker Computation".

- `tensor_attention`: the layer, exact, or near-linear with a bound on its scores.
- `call_inputs`: checks the arguments of a call, which may have packed sequences, and computes the inputs of the heads.
- `projections`: the initial weights, the norms, and the queries, keys and values of the heads.
- `head_groups`: groups of heads of one order; the heads of one rank, where tensor parallelism has divided them.
- `scoring`: the attention of the heads: positions, score form, biases and masks.
- `decoding`: the cache of a layer, and attention that continues from the cached tokens.
- `multihead`: the layer with the interface of `torch.nn.MultiheadAttention`, for PyTorch's own transformer layers.
- `score_bound`: the bound on the scores: normalised queries and keys, temperature, and the plan for the tolerance.
- `bounded`: the class of layers with a bound.
- `cache`: the key/value cache of a layer that attends exactly.
- `configuration`: the order, scale and bound that are saved with weights, and compared when they are loaded.
- `layer_checks`: checks of the arguments of a layer.
"""

from separatrix.attention.forms.rotary_positions import rotary
from separatrix.attention.near_linear.bounded_plan import normalised
from separatrix.nn.bounded import BoundedTensorAttention
from separatrix.nn.cache import TokenCache
from separatrix.nn.multihead import MultiheadTensorAttention
from separatrix.nn.tensor_attention import TensorAttention

__all__ = [
    "BoundedTensorAttention",
    "MultiheadTensorAttention",
    "TensorAttention",
    "TokenCache",
    "normalised",
    "rotary",
]
