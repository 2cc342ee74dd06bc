"""Results in `results.json`, and the table in `docs/reference/performance.md` made from them."""

import json
import os
import platform
import re
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import psutil

RESULTS = Path(__file__).parent / "results.json"
_DOCUMENT = Path(__file__).parents[1] / "docs" / "reference" / "performance.md"
_BEGIN_MARK = "<!-- results: begin -->"
_END_MARK = "<!-- results: end -->"
_TABLE_HEADER = (
    "| goal | measurement | median | range | target | details | repetitions | noise kernel (s) |",
    "|---|---|---|---|---|---|---|---|",
)
_TARGET_BOUND = re.compile(r"(≤|≥) (?:[\d.]+/[\d.]+ = )?([\d.,]+)(?:/([\d.]+))?(?= |$)")


@dataclass(frozen=True)
class BenchmarkResult:
    """The measurement of a goal.

    `value`: the median of all repetitions; `spread`: their range. `details`: figures that explain
    the value, such as those of the system it is compared with. `noise`: the range of the seconds
    of the noise kernel.
    """

    goal: str
    description: str
    value: float
    target: str
    details: Mapping[str, float]
    repetitions: int
    spread: tuple[float, float]
    noise: tuple[float, float]
    commit: str = field(default_factory=lambda: _git_commit())
    machine: str = field(default_factory=lambda: _describe_machine())

    def to_json(self) -> dict[str, Any]:
        """The stored form, whose keys are fixed."""
        stored = {}
        for name, value in asdict(self).items():
            stored[_JSON_KEYS.get(name, name)] = value
        return stored

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "BenchmarkResult":
        """The inverse of `to_json`."""
        fields = dict(stored)
        for name, key in _JSON_KEYS.items():
            fields[name] = fields.pop(key)
        return cls(**fields)


# Fields of a result that have another name in `results.json`.
_JSON_KEYS = {"description": "what", "details": "beside"}


def make_result(
    goal: str,
    description: str,
    values: Sequence[float],
    *,
    target: str,
    noise: Sequence[float],
    details: Mapping[str, float] | None = None,
) -> BenchmarkResult:
    """A result from the values of all repetitions. `noise`: seconds of the noise kernel."""
    return BenchmarkResult(
        goal=goal,
        description=description,
        value=round(statistics.median(values), 3),
        target=target,
        details=details or {},
        repetitions=len(values),
        spread=_rounded_range(values),
        noise=_rounded_range(noise),
    )


def rounded_median(values: Sequence[float], digits: int) -> float:
    """The median, rounded to so many decimal places."""
    return round(statistics.median(values), digits)


def save(results: Sequence[BenchmarkResult]) -> None:
    """Replace the stored results of the measured goals; keep those of other goals."""
    measured_goals = {result.goal for result in results}
    merged_results = list(results)
    if RESULTS.is_file():
        for stored in json.loads(RESULTS.read_text()):
            if stored["goal"] not in measured_goals:
                merged_results.append(BenchmarkResult.from_json(stored))
    merged_results.sort(key=lambda result: _goal_sort_key(result.goal))
    stored_results = list(map(BenchmarkResult.to_json, merged_results))
    RESULTS.write_text(json.dumps(stored_results, indent=2) + "\n")
    _write_document(merged_results)


def _goal_sort_key(goal: str) -> tuple[str, int, str]:
    """Goals by their letter, then in the order of their numbers: G2 before G10."""
    return goal[0], int("".join(filter(str.isdigit, goal)) or 0), goal


def is_reached(result: BenchmarkResult) -> bool | None:
    """Whether the value meets the target; None if the target is not a simple bound."""
    bound = _TARGET_BOUND.search(result.target)
    if bound is None or "×" in result.target:
        return None
    relation, numerator, denominator = bound.groups()
    limit = float(numerator.replace(",", "")) / float(denominator or 1)
    if relation == "≤":
        return result.value <= limit
    return result.value >= limit


def format_table(results: Sequence[BenchmarkResult]) -> str:
    """A table for the terminal, which shows missed targets."""
    verdicts = {True: "reached", False: "MISSED", None: "–"}
    rows: list[tuple[str, ...]] = []
    for result in results:
        low, high = result.spread
        verdict = verdicts[is_reached(result)]
        rows.append(
            (
                result.goal,
                result.description,
                f"{result.value:g}",
                f"{low:g}–{high:g}",
                result.target,
                verdict,
            )
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)) for row in rows)


def replace_section(document: Path, begin_mark: str, end_mark: str, lines: Sequence[str]) -> None:
    """Replace what a document contains between two marks."""
    text = document.read_text()
    before = text.split(begin_mark)[0]
    after = text.split(end_mark)[1]
    section = "\n".join(lines)
    document.write_text(f"{before}{begin_mark}\n{section}\n{end_mark}{after}")


def _write_document(results: Sequence[BenchmarkResult]) -> None:
    lines = list(_TABLE_HEADER)
    for result in results:
        details = ", ".join(f"{name} {value}" for name, value in result.details.items())
        cells = (
            result.goal,
            result.description,
            str(result.value),
            _format_range(result.spread),
            result.target,
            details,
            str(result.repetitions),
            _format_range(result.noise),
        )
        lines.append(f"| {' | '.join(cells)} |")
    replace_section(_DOCUMENT, _BEGIN_MARK, _END_MARK, lines)


def _format_range(bounds: tuple[float, float]) -> str:
    low, high = bounds
    return f"{low}–{high}"


def _rounded_range(values: Sequence[float]) -> tuple[float, float]:
    return round(min(values), 3), round(max(values), 3)


def _git_commit() -> str:
    process = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    )
    return process.stdout.strip() or "unknown"


def _describe_machine() -> str:
    memory = psutil.virtual_memory().total / 2**30
    python = f"{platform.system()}, Python {platform.python_version()}"
    return f"{os.cpu_count()} cores of {_processor_name()}, {memory:.0f} GB, {python}"


def _processor_name() -> str:
    with suppress(OSError):
        model = re.search(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text())
        if model is not None:
            return model[1]
    return platform.machine()
