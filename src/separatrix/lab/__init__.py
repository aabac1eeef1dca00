"""The engine: experiments as grids of cells, the store that keeps them, and the workers that run them.

It knows nothing of attention. An experiment is a function of plain parameters and a seed, registered by name:

>>> from separatrix.lab import experiment
>>> @experiment(version=1, name="docs.parabola")
... def parabola(x: float, seed: int) -> dict[str, float]:
...     return {"y": x * x}
>>> cell = parabola.cell(seed=0, x=3.0)
>>> cell.experiment, cell.version, cell.parameters, cell.seed
('docs.parabola', 1, '{"x":3.0}', 0)

`run` does the cells that a `Store` lacks, on any `concurrent.futures.Executor`, and the store gives the results back.
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
