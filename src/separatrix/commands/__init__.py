"""The command `separatrix`, with one file for each subcommand.

- `main`: the entry point, and the message if the extra `lab` is missing.
- `app`: the list of the subcommands.
- `plan`, `verify`: the plan of a call, and the check of a saved certificate.
- `separate`, `sat`: an exact probability of separation, and a SAT formula decided by attention.
- `train`: training the models of the papers.
- `sweep`, `claims`, `reproduce`, `report`: grids of cells, the claims, rerunning them, and the report.
- `store`: list, show, export, verify, clean and copy stores of results.
- `explore`, `doctor`: the explorer, and the diagnosis of an installation.
- `options`, `ending`: shared options, and the final messages and exit codes.

The modules import only fast modules at the top; commands import slow ones when they run.
"""
