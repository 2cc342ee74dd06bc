"""S4: live latency of a filter with each engine, at 500 rows per second.

Runs the real processes, as `benchmarks.latency` does. Setups alternate.
"""

import sys
from collections import defaultdict

from benchmarks.latency import LatencySetup, Quantiles, measure_setup
from benchmarks.results import BenchmarkResult, make_result, rounded_median
from benchmarks.timing import time_noise_kernel

_REPETITIONS = 3
_MEASURED_SECONDS = 60.0  # with about 100 alerts: fewer have no 99th percentile


def run() -> list[BenchmarkResult]:
    """Measure `spark`, and `auto` in relation to `local`."""
    noise: list[float] = []
    setup = LatencySetup("one filter", filters=1, windows=0)
    quantiles: defaultdict[str, list[Quantiles]] = defaultdict(list)
    for repetition in range(_REPETITIONS):
        noise.append(time_noise_kernel())
        for engine in ("spark", "auto", "local"):
            by_kind, _ = measure_setup(setup, repetition, engine, _MEASURED_SECONDS)
            sample = by_kind["filter"]
            quantiles[engine].append(sample)
            print(
                f"{repetition + 1}/{_REPETITIONS} {engine}: filter p50 {sample.p50:.3f} s, "
                f"p99 {sample.p99:.3f} s",
                file=sys.stderr,
            )
    details = {
        f"p50_{name}": rounded_median([sample.p50 for sample in samples], 3)
        for name, samples in quantiles.items()
    }
    ratios = [
        auto.p99 / local.p99
        for auto, local in zip(quantiles["auto"], quantiles["local"], strict=True)
    ]
    return [
        make_result(
            "S4",
            "alert latency of a filter with spark: p99, seconds",
            [sample.p99 for sample in quantiles["spark"]],
            target="≤ 0.5 s",
            details=details,
            noise=noise,
        ),
        make_result(
            "S4",
            "alert latency of a filter: p99 with auto ÷ local",
            ratios,
            target="≤ 1.1",
            noise=noise,
        ),
    ]
