"""`python -m benchmarks [--goals G10,…]`: measure, write `results.json`, bring `docs/performance.md` up to date."""

import argparse
import importlib
import sys

from benchmarks.results import save, table

# Which module measures a goal.
_MODULES = {
    "G1": "benchmarks.first_answer",
    "G1b": "benchmarks.first_answer",
    "G3": "benchmarks.covered",
    "G4": "benchmarks.promising",
    "G4b": "benchmarks.promising",
    "G5": "benchmarks.similarity",
    "G5b": "benchmarks.similarity",
    "G5c": "benchmarks.similarity",
    "G2": "benchmarks.scans",
    "G6": "benchmarks.recalls",
    "G7": "benchmarks.recalls",
    "G8": "benchmarks.scans",
    "G9": "benchmarks.beside",
    "G10": "benchmarks.latency",
    "G11": "benchmarks.judging",
    "G12": "benchmarks.judging",
    "G13": "benchmarks.archive",
    "G14": "benchmarks.archive",
    "G15": "benchmarks.scans",
    "G16": "benchmarks.scans",
    "P1": "benchmarks.panes",
    "R1": "benchmarks.rollover",
    "R2": "benchmarks.rollover",
    "Q": "benchmarks.quality",
}


def main() -> int:
    """Exit code 0 when everything named was measured, 2 for a goal that nothing here measures."""
    parser = argparse.ArgumentParser(prog="benchmarks")
    parser.add_argument("--goals", default=",".join(_MODULES), help="goals to measure, with commas")
    goals = parser.parse_args().goals.split(",")
    unknown = [goal for goal in goals if goal not in _MODULES]
    if unknown:
        print(f"no benchmark for {', '.join(unknown)}; there are {', '.join(_MODULES)}", file=sys.stderr)
        return 2
    rows = []
    for module in dict.fromkeys(_MODULES[goal] for goal in goals):
        rows += importlib.import_module(module).run()
        save(rows)
    print(table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
