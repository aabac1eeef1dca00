"""The explorer: a live page where a reader tries the papers' theorems at numbers of their own.

One package for each tab, each with `tab.py` (the layout and its callbacks), the fields a visitor may fill in and what
is computed for them:

- `separate`: softmax against linear attention, with exact probabilities.
- `compute`: which algorithm attention takes, its cost, a certificate, a plan for an uploaded file.
- `attend`: the pairs of keys that one query attends, in a file of the reader's own.
- `learn`: the dynamics of sparse token selection, and training runs.
- `claims`: the ledger of claims, with verdicts and evidence.

The other files are shared: `app` puts the page together, `tabs` lists the tabs, `fields`, `controls`, `cards`, `drop`,
`comparison` and `attributes` are the parts of a tab, `address` and `context` are what every tab is given, `alerts` and
`callbacks` guard the requests, `server`, `connections` and `private_link` serve them.
"""
