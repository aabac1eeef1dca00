"""The engine that runs experiments: grids of cells, the store that keeps results, and the workers that run the cells.

The engine does not depend on attention. An experiment is a function of plain parameters and a seed, registered by name:

>>> from separatrix.lab import experiment
>>> @experiment(version=1, name="docs.parabola")
... def parabola(x: float, seed: int) -> dict[str, float]:
...     return {"y": x * x}
>>> cell = parabola.cell(seed=0, x=3.0)
>>> cell.experiment, cell.version, cell.parameters, cell.seed
('docs.parabola', 1, '{"x":3.0}', 0)

`run` runs the cells that a `Store` lacks, on any `concurrent.futures.Executor`, and the store returns the results.

cell, registry          cells, and the experiments they belong to
canonical_json          what the parameters of a cell may be, and the text that its key is made of
sweep, ranges, tomlfile grids of cells, and the files that describe them
driver, worker          a run, and what a worker does with one cell
executors               the executors that a run may use
interrupts, progress    Ctrl-C, and what a run shows
provenance, results     where a result comes from, and how it is written

store, schema, rows     the store, the tables in its file, and the rows in them
arrays, export          the arrays of results, and the store as CSV or JSON
lease, alive            the cells that a run has taken, and whether a run is alive
faults                  errors of a store, and what to do about them
upkeep, health          checking a store, and removing what is not needed
salvage, copying        the readable rows of a damaged file, and copies of a store
"""

from importlib import import_module as _import_module

_HOMES = {
    "Cell": "cell",
    "Crew": "executors",
    "CrewError": "executors",
    "Experiment": "registry",
    "Store": "store",
    "StoreError": "faults",
    "dask_workers": "executors",
    "experiment": "registry",
    "in_process": "executors",
    "processes": "executors",
    "run": "driver",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(_import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
