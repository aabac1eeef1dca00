"""The explorer: an interactive page for trying the theorems of the papers with your own numbers.

Each tab is a package with `tab.py` (the layout and its callbacks), its input fields, and the computations:

- `separate`: softmax against linear attention, with exact probabilities.
- `compute`: the planned algorithm, its cost, a certificate, a plan for an uploaded file.
- `attend`: the attention weights of a query over pairs of keys, for an uploaded file.
- `learn`: the dynamics of sparse token selection, and training runs.
- `claims`: the ledger of claims, with verdicts and evidence.

The other modules are shared: `app` assembles the page, `tabs` lists the tabs, `fields`, `controls`, `cards`, `drop`,
`comparison` and `attributes` are the parts of a tab, `address` and `context` are the arguments of every tab, `alerts`
and `callbacks` check requests, and `server`, `connections` and `private_link` serve them.
"""
