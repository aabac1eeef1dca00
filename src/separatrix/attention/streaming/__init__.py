"""Near-linear attention planned from a bound alone: for streams of tokens, and for layers.

- `bounded_plan`: the plan for scores that cannot exceed a bound, and the norms that keep them within it.
- `state`: a state of constant size that tokens are added to and queries are asked of.
- `thread_guard`: which threads may use a state at the same time.
- `appending`: how tokens are added to its sums.
- `attending`: how queries are asked of them.
- `extending`: how tokens are added and asked at once, causally.
- `token_checks`: what a state refuses: other numbers of sets, tokens beyond the bound, bad masks and indices.
- `stream_rounding`: how often the tokens of a stream are rounded, and what that leaves of a promise.
- `causal_after`: causal attention of tokens that come after a state.
- `few_tokens`: a few tokens at a time by the kernels in C++, all heads in one call.
- `few_tokens_gpu`: the same by the kernels in Triton, on a GPU.
- `few_choice`: which calls of a state these kernels compute.
- `saved_state`: what a state is saved with, and what is checked when it is loaded.
- `bounded_choice`: whether exact attention computes a call, because it is cheaper.
- `bounded_attention`: attention by a bounded plan as PyTorch operators, for layers.
"""
