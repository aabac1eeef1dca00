"""The Triton kernels: compiled ahead of time, which needs no GPU, and timed on the GPU of this machine.

- `targets`: the GPUs for which kernels are compiled, with their limits and peaks.
- `disassembled`: counts the instructions in the innermost loops of a compiled kernel.
- `modelled`: the cost of a visible score in a whole kernel.
- `compiled`: a table of the compiled code of each shipped configuration.
- `timed`: correctness and times on the GPU of this machine.
"""

from __future__ import annotations

import json
from pathlib import Path

import typer

NONE = "PyTorch found no GPU, or no Triton from 3.6 on: nothing was checked or timed. `--compile` needs no GPU."


def main(compile_only: bool, output: Path) -> None:
    """Compile the kernels and save a table, or time them on this machine's GPU and save the times as JSON.

    Args:
        compile_only: Whether to compile without timing, which needs no GPU.
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
            f"{row['what']}: {row.get('raised') or 'off by {error:.3g}, expected at most {most:.3g}'.format(**row)}"
            for row in report["checks"]
            if not row["right"]
        ]
    for sentence in wrong:
        typer.echo(sentence)
    if wrong:
        raise typer.Exit(1)
