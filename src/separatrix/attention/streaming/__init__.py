"""Near-linear attention to a token stream, by a state of fixed size.

- `state`: a fixed-size summary of a token stream: append tokens, then attend with queries.
- `ledger`: the statistics of the tokens, from which the certificate is computed.
- `thread_guard`: which threads may use a state at the same time.
- `appending`: how tokens are added to its sums.
- `attending`: how queries attend to these sums.
- `extending`: how tokens are appended and attended to in one call, causally.
- `token_checks`: the checks of tokens, masks and indices.
- `stream_rounding`: the number of roundings of the tokens of a stream, and the resulting error bound.
- `causal_after`: causal attention of tokens that come after a state.
- `few_tokens`: which calls are computed by the kernels for a few tokens at a time.
- `saved_state`: saves a state, and checks it when it is loaded.
"""
