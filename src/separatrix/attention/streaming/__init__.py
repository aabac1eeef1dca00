"""The state of a token stream: near-linear attention planned from a bound alone, token by token.

- `state`: a fixed-size summary of a token stream: append tokens, then attend with queries.
- `ledger`: the record of its tokens that the certificate rests on.
- `thread_guard`: which threads may use a state at the same time.
- `appending`: how tokens are added to its sums.
- `attending`: how queries are asked of them.
- `extending`: how tokens are added and asked at once, causally.
- `token_checks`: what a state refuses: other numbers of sets, tokens beyond the bound, bad masks and indices.
- `stream_rounding`: how often the tokens of a stream are rounded, and what that leaves of a promise.
- `causal_after`: causal attention of tokens that come after a state.
- `few_tokens`: which calls are computed by the kernels for a few tokens at a time.
- `saved_state`: what a state is saved with, and what is checked when it is loaded.
"""
