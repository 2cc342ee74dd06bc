"""`python -m benchmarks [--goals G10,…]`: measure, write `results.json` and the tables in docs."""

import argparse
import importlib
import sys

from benchmarks.results import format_table, save

# Which module measures a goal.
_MODULES = {
    "G1": "benchmarks.first_answer",
    "G1b": "benchmarks.first_answer",
    "G3": "benchmarks.coverage",
    "G4": "benchmarks.chunk_ranking",
    "G4b": "benchmarks.chunk_ranking",
    "G5": "benchmarks.similarity",
    "G5b": "benchmarks.similarity",
    "G5c": "benchmarks.similarity",
    "G2": "benchmarks.full_recalls",
    "G6": "benchmarks.recalls",
    "G7": "benchmarks.recalls",
    "G8": "benchmarks.full_recalls",
    "G9": "benchmarks.live_under_load",
    "G10": "benchmarks.latency",
    "G11": "benchmarks.rule_evaluation",
    "G12": "benchmarks.rule_evaluation",
    "G13": "benchmarks.archive",
    "G14": "benchmarks.archive",
    "G15": "benchmarks.full_recalls",
    "G16": "benchmarks.full_recalls",
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
        print(
            f"no benchmark for {', '.join(unknown)}; there are {', '.join(_MODULES)}",
            file=sys.stderr,
        )
        return 2
    rows = []
    for module in dict.fromkeys(_MODULES[goal] for goal in goals):
        rows += importlib.import_module(module).run()
        save(rows)
    print(format_table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
