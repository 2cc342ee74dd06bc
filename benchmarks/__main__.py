"""`python -m benchmarks [--goals G10,…]`: measure goals; update `results.json` and the docs."""

import argparse
import importlib
import sys

from benchmarks.results import BenchmarkResult, format_table, save

_MODULES_BY_GOAL = {
    "A1": "benchmarks.live_clients",
    "A2": "benchmarks.page_load",
    "A3": "benchmarks.page_load",
    "AC-1": "benchmarks.seasonal_norms",
    "AC-2": "benchmarks.first_norms",
    "AC-3": "benchmarks.ranking",
    "AC-4": "benchmarks.incident_groups",
    "AQ1": "benchmarks.growing_ranges",
    "AQ2": "benchmarks.seasonal_ranges",
    "AQ3": "benchmarks.strata",
    "AQ4": "benchmarks.full_recalls",
    "AQ5": "benchmarks.partitioned_history",
    "AQ6": "benchmarks.order_preferences",
    "BK1": "benchmarks.backups",
    "BK2": "benchmarks.backups",
    "BK3": "benchmarks.backups",
    "BT1": "benchmarks.backtests",
    "BT2": "benchmarks.backtests",
    "BT3": "benchmarks.backtests",
    "BT4": "benchmarks.live_beside_backtests",
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
    "HS1": "benchmarks.archive_bytes",
    "HS2": "benchmarks.archive_bytes",
    "HS3": "benchmarks.summaries",
    "HS4": "benchmarks.summaries",
    "HS6": "benchmarks.late_rows",
    "HS7": "benchmarks.recall_bytes",
    "HS8": "benchmarks.recall_load",
    "HS9": "benchmarks.long_log",
    "L1": "benchmarks.learned",
    "L1b": "benchmarks.learned",
    "L2": "benchmarks.learned",
    "P1": "benchmarks.panes",
    "R1": "benchmarks.rollover",
    "R2": "benchmarks.rollover",
    "RS1": "benchmarks.rule_set_drains",
    "RS2": "benchmarks.rule_index",
    "RS3": "benchmarks.live_rule_sets",
    "RS4": "benchmarks.rule_checks",
    "D1": "benchmarks.discovery",
    "D2": "benchmarks.discovery",
    "D3": "benchmarks.backlog",
    "D4": "benchmarks.decoding",
    "D5": "benchmarks.live_under_load",
    "RS5": "benchmarks.rule_index",
    "RS6": "benchmarks.exploding_pattern",
    "NB1": "benchmarks.pushed_records",
    "NB2": "benchmarks.pushed_records",
    "NB3": "benchmarks.posted_alerts",
    "NT1": "benchmarks.notifications",
    "NT2": "benchmarks.notifications",
    "NT3": "benchmarks.notification_storm",
    "S10": "benchmarks.fail_over",
    "S11": "benchmarks.divided_corpus",
    "S1": "benchmarks.executors",
    "S1b": "benchmarks.executors",
    "S2": "benchmarks.executors",
    "S3": "benchmarks.executors",
    "S4": "benchmarks.engine_latency",
    "S5": "benchmarks.executors",
    "S6": "benchmarks.wide_scan",
    "S7": "benchmarks.decoding",
    "S8": "benchmarks.idle",
    "T1": "benchmarks.stages",
    "T2": "benchmarks.live_with_stages",
    "Q": "benchmarks.quality",
}


def main() -> int:
    """Return exit code 0 if all goals were measured, 2 if one of them is unknown."""
    parser = argparse.ArgumentParser(prog="benchmarks")
    parser.add_argument(
        "--goals",
        default=",".join(_MODULES_BY_GOAL),
        help="Goals to measure, separated by commas; default: all.",
    )
    goals = parser.parse_args().goals.split(",")
    unknown = [goal for goal in goals if goal not in _MODULES_BY_GOAL]
    if unknown:
        print(
            f"unknown goals: {', '.join(unknown)}; choose from {', '.join(_MODULES_BY_GOAL)}",
            file=sys.stderr,
        )
        return 2
    results: list[BenchmarkResult] = []
    for module in dict.fromkeys(map(_MODULES_BY_GOAL.__getitem__, goals)):
        results += importlib.import_module(module).run()
        save(results)
    print(format_table(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
