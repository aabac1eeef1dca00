"""`python -m benchmarks [names...]`: run the benchmarks, print a table for each and save it as JSON."""

from __future__ import annotations

import json
import os
import pkgutil
import re
import sys
from dataclasses import asdict, fields
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

import benchmarks
from benchmarks import Row, as_row, gpu
from benchmarks.figure import svg
from separatrix import doctor

HERE = Path(__file__).resolve().parent
FIGURE = HERE.parent / "docs" / "_static" / "time-against-length.svg"
THREADS = 2
QUIET = 0.5
"""The load average above which other work on the machine spoils the results."""
HEADINGS = ("what", "measured", "against", "which has", "ratio", "at most", "reached", "note")
BEGIN, END = "<!-- tables: begin -->", "<!-- tables: end -->"
SCALES = {"s": ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")), "B": ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))}


def found() -> dict[str, Any]:
    """The benchmarks by name: the modules of this package that have `rows`."""
    names = [module.name for module in pkgutil.iter_modules(benchmarks.__path__) if module.name != "__main__"]
    modules = {name: import_module(f"benchmarks.{name}") for name in names}
    return {name: module for name, module in modules.items() if hasattr(module, "rows")}


def amount(value: float | None, unit: str) -> str:
    """A number with its unit, to three or four digits.

    >>> amount(0.01234, "s"), amount(3 << 20, "B"), amount(495, ""), amount(None, "s")
    ('12.3 ms', '3 MiB', '495', '-')
    """
    if value is None:
        return "-"
    if not unit:
        return f"{value:.4g}"
    size, name = next((scale for scale in SCALES[unit] if abs(value) >= scale[0]), SCALES[unit][-1])
    return f"{value / size:.4g} {name}" if value >= 100 * size else f"{value / size:.3g} {name}"


def cells(row: Row) -> list[str]:
    """The row as the table shows it, in the order of `HEADINGS`."""
    reached = {True: "yes", False: "NO", None: "-"}[row.reached]
    ratio, most = ("-" if number is None else f"{number:.3g}" for number in (row.ratio, row.at_most))
    here, there = amount(row.measured, row.unit), amount(row.peer_measured, row.unit)
    return [row.name, here, row.peer, there, ratio, most, reached, row.note]


def report(title: str, rows: list[Row], load: float | None) -> dict[str, Any]:
    """The saved results: the rows, the machine, the versions, and the load of the machine before the run."""
    about = {name: value for name, value in doctor.machine() if name not in ("load", "GPU")}
    about["processor"] = about["processor"].replace(" (", f"{family()} (", 1)
    installed = dict(doctor.versions())
    about |= {name: installed[name] for name in ("python", "torch", "separatrix")}
    saved = [{**asdict(row), "ratio": row.ratio, "reached": row.reached} for row in rows]
    return {"title": title, "machine": about, "load": load, "rows": saved}


def rows_of(saved: dict[str, Any]) -> list[Row]:
    return [Row(**{field.name: row[field.name] for field in fields(Row)}) for row in saved["rows"]]


def caution(load: float | None) -> str:
    """A warning if the machine was too busy for the results to be useful, or an empty text."""
    if load is None:
        return "The load of this machine is not known: it may have been busy."
    return f"The load average was {load:.2f} before the run: these results are not worth keeping." * (load > QUIET)


def markdown(saved: dict[str, Any]) -> str:
    """The table of one machine, in the README."""
    about = ", ".join(f"{what}: {value}" for what, value in saved["machine"].items() if what != "processor")
    table = [list(HEADINGS), ["---"] * len(HEADINGS), *map(cells, rows_of(saved))]
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in table]
    load = "not known" if saved["load"] is None else f"{saved['load']:.2f}"
    parts = [f"### {saved['machine']['processor']}", f"{about}, load average before the run: {load}."]
    parts.append(caution(saved["load"]))
    return "\n\n".join([*filter(None, parts), "\n".join(lines)])


def with_tables(readme: str, folder: Path) -> str:
    """The README's text with the tables of the results saved in `folder` between its markers."""
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise typer.BadParameter(f"the README must have the lines {BEGIN} and {END}")
    sections = []
    for name in sorted({file.stem for file in folder.glob("*/*.json")}):
        saved = [json.loads(file.read_text()) for file in sorted(folder.glob(f"*/{name}.json"))]
        sections += [f"## {name}", saved[0]["title"], *map(markdown, saved)]
    return "\n\n".join([before + begin, *(sections or ["No results are saved yet."]), end + after])


def family() -> str:
    """The family of the processor, as hypervisors hide the model: AMD's family 25 is Zen 3 and 4, 26 is Zen 5."""
    cpuinfo = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    found = re.search(r"^cpu family\s*: (\d+)$", cpuinfo, re.MULTILINE)
    return f", family {found[1]}" if found else ""


def folder_of(machine: dict[str, str]) -> str:
    """A name for the folder with the results of a processor.

    >>> folder_of({"processor": "AMD EPYC (AVX512)"})
    'amd-epyc-avx512'
    """
    return "-".join(re.findall(r"[a-z0-9]+", re.sub(r"\(R\)|\(TM\)|Processor", "", machine["processor"]).lower()))


def write_figure(saved: dict[str, Any]) -> None:
    """Draw the figure of time against length for the documents."""
    machine = f"{saved['machine']['processor']}, {saved['machine']['torch threads']} threads."
    FIGURE.write_text(svg(rows_of(saved), machine))


def show(name: str, saved: dict[str, Any], console: Console) -> None:
    table = Table(*HEADINGS, title=f"{name}: {saved['title']}", title_justify="left")
    for row in rows_of(saved):
        style = {True: "green", False: "red", None: ""}[row.reached]
        table.add_row(*map(escape, cells(row)), style=style)
    console.print(table)
    if warning := caution(saved["load"]):
        console.print(f"[yellow]{warning}[/]")


def main(
    names: Annotated[list[str] | None, typer.Argument(help="Which to run: all of them if none is named.")] = None,
    output: Annotated[Path, typer.Option(help="Where the JSON goes, in a folder for each processor.")] = HERE
    / "results",
    write_readme: Annotated[
        bool, typer.Option("--write-readme", help="Run nothing; put the saved results in the README.")
    ] = False,
    compile_only: Annotated[
        bool, typer.Option("--compile", help="With gpu: compile the kernels in Triton for GPUs, and time nothing.")
    ] = False,
) -> None:
    """Measure, print a table and save it. Run the benchmarks on an otherwise idle machine.

    The name `gpu` selects the Triton kernels on the GPU of this machine; they run only if `gpu` is the only name.
    """
    if compile_only and names != ["gpu"]:
        raise typer.BadParameter("--compile is for the benchmark gpu: python -m benchmarks gpu --compile")
    if names == ["gpu"]:
        gpu.main(compile_only, output)
        return
    if write_readme:
        if names:
            raise typer.BadParameter("--write-readme runs nothing, so it takes no names")
        (HERE / "README.md").write_text(with_tables((HERE / "README.md").read_text(), output))
        for file in sorted(output.glob("*/lengths.json")):
            write_figure(json.loads(file.read_text()))
        return
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None  # before the benchmarks
    console = Console() if sys.stdout.isatty() else Console(width=180)
    if warning := caution(load):
        console.print(f"[yellow]{warning}[/]")
    modules = found()
    if unknown := set(names or ()) - set(modules):
        raise typer.BadParameter(f"no benchmark is named {sorted(unknown)}: there are {sorted(modules)}")
    torch.set_num_threads(THREADS)
    for name in names or modules:
        title = (modules[name].__doc__ or name).splitlines()[0]
        saved = report(title, [as_row(row) for row in modules[name].rows()], load)
        into = output / folder_of(saved["machine"])
        into.mkdir(parents=True, exist_ok=True)
        (into / f"{name}.json").write_text(json.dumps(saved, indent=1, allow_nan=False, ensure_ascii=False) + "\n")
        show(name, saved, console)


if __name__ == "__main__":
    typer.run(main)
