"""Near-linear attention to a token stream, by a state of fixed size.

- `state`: a fixed-size summary of a token stream: append tokens, then attend with queries.
- `operations`: how tokens are appended to its sums, how queries attend to these, and both in one call, causally.
- `ledger`: the statistics of the tokens, from which the certificate is computed: their number, values and roundings.
- `thread_guard`: which threads may use a state at the same time.
- `token_checks`: the checks of tokens, masks and indices.
- `saved_state`: saves a state, and checks it when it is loaded.
"""
