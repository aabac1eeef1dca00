"""The command `separatrix`, with one file for each subcommand.

- `main`: where the command starts, and what it says without the extra `lab`.
- `app`: the list of the subcommands.
- `plan`, `verify`: which algorithm attention would take, and whether the certificate of a saved call held.
- `separate`, `sat`: an exact probability of the separation, and a formula decided by attention.
- `train`: the models of the papers, trained step by step.
- `sweep`, `claims`, `reproduce`, `report`: grids of cells, the ledger, all of it run, and its page.
- `store`: the store of results, listed, shown, exported, verified, cleared and copied.
- `explore`, `doctor`: the live page, and the state of this installation.
- `options`, `ending`: what the subcommands share: options, and the sentence and exit code they end with.

A file imports at its top only what is fast; each command imports what is slow when it runs.
"""
