"""The kernels in Triton: compiled ahead of time for GPUs that need not be there, and timed on one that is.

- `targets`: the GPUs that are compiled for, with their limits and peaks.
- `disassembled`: the innermost loops of a compiled kernel, counted.
- `modelled`: what a visible score costs in a whole kernel.
- `compiled`: what the compilers make of each configuration that ships, as a table.
- `timed`: correctness and times on the GPU at hand.
"""

from __future__ import annotations

import json
from pathlib import Path

import typer

NONE = "No GPU was found that PyTorch can use: nothing was timed. `--compile` needs none."


def main(compile_only: bool, output: Path) -> None:
    """Compile and save the table, or time the kernels on this machine's GPU and save that as JSON.

    Args:
        compile_only: Whether to compile alone, for which no GPU is needed.
        output: The folder of the results.

    Raises:
        typer.Exit: With code 1, if a configuration should not ship, or if a result on the GPU is wrong.
    """
    from benchmarks.gpu import compiled, timed

    if compile_only:
        rows = compiled.compile_all(compiled.load()["rows"])
        compiled.save(rows, output)
        typer.echo(f"{len(rows)} configurations were compiled: {output / 'gpu-compiled.md'}")
        wrong = compiled.faults(rows)
    else:
        report = timed.report()
        if report is None:
            typer.echo(NONE)
            return
        file = output / f"gpu-{timed.folder(report['gpu'])}.json"
        file.write_text(json.dumps(report, indent=1) + "\n")
        typer.echo(timed.table(report))
        typer.echo(f"Saved: {file}")
        wrong = [
            f"{row['what']}: off by {row['error']:.3g}, expected at most {row['most']:.3g}"
            for row in report["checks"]
            if not row["right"]
        ]
    for sentence in wrong:
        typer.echo(sentence)
    if wrong:
        raise typer.Exit(1)
