"""AQ3: time from a row to the alert of a rule over events of a rule over events of a third ÷ one rule.

The same for a rule over the alerts of a rule over the alerts of a third. Runs of all rule files
alternate; each starts the real processes on a new workspace, at 500 rows per second.
"""

import statistics
import sys
from collections import defaultdict

from benchmarks.latency import measure_filter
from benchmarks.results import BenchmarkResult, make_result, rounded_median
from benchmarks.timing import time_noise_kernel

_REPETITIONS = 3
_RULE = """
  - alert: {alert}
    expr: {expr}
    key: [n]
    id: [n]
    keep_firing_for: 1s"""
_FILTER = _RULE.format(alert="First", expr="SELECT host, n, ts, cpu FROM cpu WHERE cpu > 99.5")
_EVENTS = "SELECT host, n, ts, cpu FROM events.{below} WHERE cpu > 99"
_ALERTS = "SELECT ts, key['n'] AS n FROM alerts WHERE rule = 'bench/{below}' AND state = 'firing'"
_HEAD = "groups:\n- name: bench\n  rules:"


def _three_strata(expr: str) -> str:
    second = _RULE.format(alert="Second", expr=expr.format(below="First"))
    third = _RULE.format(alert="Third", expr=expr.format(below="Second"))
    return f"{_HEAD}{_FILTER}{second}{third}\n"


_RULE_FILES = {
    "one rule": (f"{_HEAD}{_FILTER}\n", "First"),
    "events": (_three_strata(_EVENTS), "Third"),
    "alerts": (_three_strata(_ALERTS), "Third"),
}


def run() -> list[BenchmarkResult]:
    """Measure all rule files alternately."""
    noise: list[float] = []
    p99: defaultdict[str, list[float]] = defaultdict(list)
    for repetition in range(_REPETITIONS):
        for name, (rules, alert) in _RULE_FILES.items():
            noise.append(time_noise_kernel())
            quantiles = measure_filter(rules, alert, seed=repetition)
            p99[name].append(quantiles.p99)
            print(
                f"{repetition + 1}/{_REPETITIONS} {name}: p50 {quantiles.p50:.3f} s, "
                f"p99 {quantiles.p99:.3f} s",
                file=sys.stderr,
            )
    single_rule = statistics.median(p99["one rule"])
    return [
        make_result(
            "AQ3",
            f"alert latency through three strata of {name} ÷ one rule: p99",
            [value / single_rule for value in p99[name]],
            target="≤ 1.5",
            details={
                "one rule, s": round(single_rule, 3),
                "three, s": rounded_median(p99[name], 3),
            },
            noise=noise,
        )
        for name in ("events", "alerts")
    ]
