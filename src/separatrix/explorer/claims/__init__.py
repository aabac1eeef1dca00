"""The tab Claims: the ledger of claims, filtered; a claim opened with its evidence, its errata and its figures.

- `tab`: the layout and its callbacks.
- `judged_claims`: the claims judged from the store, and the filter.
"""
