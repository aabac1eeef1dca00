"""`python -m tests.attention.fuzz`: run many cases and count them in a file, or describe one case."""

from __future__ import annotations

import argparse
import sys
import time
from contextlib import nullcontext
from pathlib import Path

from tests.attention.fuzz.kinds import run_case
from tests.attention.fuzz.running import run
from tests.attention.fuzz.tally import Tally
from tests.contracts.interpreter import interpreting


def main() -> int:
    """Run the cases of the command line; the exit code is 1 if a certificate is broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.attention.fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=2000, help="how many cases of the seed")
    parser.add_argument("--seed", type=int, default=0, help="of all cases")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("results/fuzz.json"), help="counts are added to this file")
    parser.add_argument("--case", type=int, help="run this case of the seed alone, and say what became of it")
    parser.add_argument(
        "--triton", action="store_true", help="compute by the kernels in Triton, interpreted, where there are any"
    )
    given = parser.parse_args()
    if given.case is not None:
        with interpreting() if given.triton else nullcontext():
            found = run_case(given.seed, given.case)
        print(f"{found.kind}: {found.how}, ratio {found.ratio:.6g}\n{found.told}")
        return int(found.how == "broken")
    start, before = time.monotonic(), Tally.load(given.out).cases

    def tell(tally: Tally) -> None:
        each = (time.monotonic() - start) / max(tally.cases - before, 1)
        said = f"{tally.cases:,} cases, {1000 * each:.0f} ms each, largest ratio {tally.total().largest:.4f}"
        print(f"\r{said}, {len(tally.broken)} broken", end="", file=sys.stderr, flush=True)

    tally = run(given.cases, given.seed, given.processes, given.out, tell, given.triton)
    print(file=sys.stderr)
    print("\n".join([*tally.lines(), *tally.broken]))
    return int(bool(tally.broken))


if __name__ == "__main__":
    sys.exit(main())
