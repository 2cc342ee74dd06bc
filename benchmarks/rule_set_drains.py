"""RS1: a drain with all detection rules ÷ the median of drains with one of them.

The events are repeated with other times and ids, and a random end of each command line, so that no
cache of values helps. Rules are checked before: a drain finds their verdicts stored.
"""

import json
import random
import statistics
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.detection_rules import (
    STREAM,
    DetectionRule,
    read_columns,
    read_expected,
    read_lines,
    read_rules,
)
from benchmarks.fixtures import temporary_folder
from benchmarks.results import BenchmarkResult, make_result
from benchmarks.timing import measure_seconds, time_noise_kernel

_ROWS = 200_000
_FILES = 8
_SINGLE_RULES = 5
_MAX_MATCHES = 20  # shared rows that a single rule matches; at least one
_STEP = timedelta(milliseconds=10)  # between rows
_RANDOM_LENGTH = 12
_FOREIGN_LETTER = "®"
_SETTINGS = """
home: .moirae
streams:
  {stream}:
    columns: {{row: bigint, {columns}}}
    time: ts
    id: [row]
    lateness: 0s
    source: {{files: landing/*.jsonl}}
rules: [rules.yaml]
"""


def run() -> list[BenchmarkResult]:
    """Measure a drain with all rules, also with a letter beyond ASCII in each text."""
    rules = read_rules()
    counts = Counter(name for name, _ in read_expected())
    matching = [rule for rule in rules if 0 < counts[rule.name] <= _MAX_MATCHES]
    noise = [time_noise_kernel()]
    single = []
    for rule in random.Random(1).sample(matching, _SINGLE_RULES):
        single.append(_measure_drain([rule], ""))
        noise.append(time_noise_kernel())
    all_seconds = _measure_drain(rules, "")
    foreign_seconds = _measure_drain(rules, _FOREIGN_LETTER)
    noise.append(time_noise_kernel())
    median = statistics.median(single)
    return [
        make_result(
            "RS1",
            f"drain of {_ROWS:,} rows with {len(rules)} detection rules ÷ with one of them",
            [all_seconds / median],
            target="≤ 2",
            details={
                "one_rule_s": round(median, 1),
                "all_rules_s": round(all_seconds, 1),
                "foreign_to_plain": round(foreign_seconds / all_seconds, 2),
            },
            noise=noise,
        )
    ]


def _measure_drain(rules: Sequence[DetectionRule], suffix: str) -> float:
    """The seconds of a drain."""
    with temporary_folder() as root:
        root.chmod(0o755)  # PostgreSQL may run as another user
        columns = ", ".join(f"{name}: {kind}" for name, kind in read_columns().items())
        (root / "moirae.yaml").write_text(_SETTINGS.format(stream=STREAM, columns=columns))
        (root / "rules.yaml").write_text(_write_rules(rules))
        _write_events(root / "landing", suffix)
        _run_command("rules", "check", workspace=root)
        seconds = measure_seconds(partial(_run_command, "up", "--drain", workspace=root))
        print(f"RS1 {len(rules)} rules {seconds:.1f} s", file=sys.stderr)
        return seconds


def _run_command(*arguments: str, workspace: Path) -> None:
    command = [sys.executable, "-m", "moirae", *arguments]
    command += ["--workspace", str(workspace / "moirae.yaml")]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    # A check exits with 3 for warnings.
    if finished.returncode not in (0, 3):
        raise RuntimeError(f"{' '.join(arguments)} failed: {finished.stderr[-2_000:]}")


def _write_rules(rules: Sequence[DetectionRule]) -> str:
    alerts: list[dict[str, Any]] = []
    for rule in rules:
        spec = rule.activate().spec
        alerts.append({"alert": spec.alert, "expr": spec.expr, "key": ["Image"]})
    groups = [{"name": "detection", "rules": alerts}]
    return json.dumps({"groups": groups}, indent=1, ensure_ascii=False)


def _write_events(folder: Path, suffix: str) -> None:
    folder.mkdir()
    letters = random.Random(1)
    events = read_lines()
    start = datetime.fromisoformat(str(events[0]["ts"]))
    rows_per_file = _ROWS // _FILES
    for number in range(_FILES):
        with (folder / f"{number}.jsonl").open("w") as file:
            for row in range(number * rows_per_file, (number + 1) * rows_per_file):
                event: dict[str, Any] = {}
                for name, value in events[row % len(events)].items():
                    event[name] = None if value is None else f"{value}{suffix}"
                end = "".join(letters.choices("bcdfghjkmnpqrstvwxz", k=_RANDOM_LENGTH))
                event |= {
                    "row": row,
                    "ts": (start + row * _STEP).isoformat(),
                    "CommandLine": f"{event.get('CommandLine', '')} {end}",
                }
                file.write(json.dumps(event, ensure_ascii=False) + "\n")
