"""Rows of `results.json`, and the table in `docs/reference/performance.md` made of them."""

import hashlib
import json
import os
import platform
import re
import statistics
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

import psutil

RESULTS = Path(__file__).parent / "results.json"
_DOCUMENT = Path(__file__).parents[1] / "docs" / "reference" / "performance.md"
_BEGIN_MARK, _END_MARK = "<!-- results: begin -->", "<!-- results: end -->"


@dataclass(frozen=True)
class BenchmarkResult:
    """One goal: the median of its repetitions, the range, and what stands beside it."""

    goal: str
    what: str
    value: float
    target: str
    beside: dict[str, float]
    repetitions: int
    spread: tuple[float, float]
    noise: tuple[float, float]
    commit: str = field(default_factory=lambda: _git_commit())
    machine: str = field(default_factory=lambda: _describe_machine())


def time_noise_kernel() -> float:
    """Seconds of a fixed piece of work: what changes in it is the machine, not the system measured."""
    began = time.perf_counter()
    data = b"moirae"
    for _ in range(400_000):
        data = hashlib.blake2b(data, digest_size=32).digest()
    return time.perf_counter() - began


def make_result(
    goal: str,
    what: str,
    values: Sequence[float],
    target: str,
    beside: dict[str, float],
    noise: Sequence[float],
) -> BenchmarkResult:
    """A row from the values of all repetitions."""
    value = round(statistics.median(values), 3)
    spread = (round(min(values), 3), round(max(values), 3))
    return BenchmarkResult(
        goal,
        what,
        value,
        target,
        beside,
        len(values),
        spread,
        (round(min(noise), 3), round(max(noise), 3)),
    )


def save(rows: Sequence[BenchmarkResult]) -> None:
    """Replace the rows of the goals that were measured; keep the others."""
    measured = {row.goal for row in rows}
    kept = (
        [BenchmarkResult(**row) for row in json.loads(RESULTS.read_text())]
        if RESULTS.is_file()
        else []
    )
    every = sorted(
        [row for row in kept if row.goal not in measured] + list(rows),
        key=lambda row: _goal_sort_key(row.goal),
    )
    RESULTS.write_text(json.dumps([asdict(row) for row in every], indent=2) + "\n")
    _write_table(every)


def _goal_sort_key(goal: str) -> tuple[int, str]:
    """G2 stands before G10."""
    return int("".join(filter(str.isdigit, goal)) or 99), goal


def is_reached(row: BenchmarkResult) -> bool | None:
    """Whether a value is as good as its target says; None: that is more than a bound."""
    bound = re.search(r"(≤|≥) (?:[\d.]+/[\d.]+ = )?([\d.,]+)(?:/([\d.]+))?(?= |$)", row.target)
    if bound is None or "×" in row.target:
        return None
    sign, number, part = bound.groups()
    limit = float(number.replace(",", "")) / float(part or 1)
    return row.value <= limit if sign == "≤" else row.value >= limit


def format_table(rows: Sequence[BenchmarkResult]) -> str:
    """For people at a terminal, with what was missed."""
    words = {True: "reached", False: "MISSED", None: "–"}
    shown = [
        (
            one.goal,
            one.what,
            f"{one.value:g}",
            _format_range(one),
            one.target,
            words[is_reached(one)],
        )
        for one in rows
    ]
    widths = [max(len(row[column]) for row in shown) for column in range(6)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in shown
    )


def _format_range(row: BenchmarkResult) -> str:
    return f"{row.spread[0]:g}–{row.spread[1]:g}"


def _write_table(rows: Sequence[BenchmarkResult]) -> None:
    lines = [
        "| goal | what | median | range | target | beside | repetitions | noise kernel (s) |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        beside = ", ".join(f"{name} {value}" for name, value in row.beside.items())
        (low, high), (quiet, loud) = row.spread, row.noise
        lines.append(
            f"| {row.goal} | {row.what} | {row.value} | {low}–{high} | {row.target} | {beside} "
            f"| {row.repetitions} | {quiet}–{loud} |"
        )
    text = _DOCUMENT.read_text()
    before, after = text.split(_BEGIN_MARK)[0], text.split(_END_MARK)[1]
    _DOCUMENT.write_text(f"{before}{_BEGIN_MARK}\n" + "\n".join(lines) + f"\n{_END_MARK}{after}")


def _git_commit() -> str:
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or "unknown"


def _describe_machine() -> str:
    memory = psutil.virtual_memory().total / 2**30
    python = f"{platform.system()}, Python {platform.python_version()}"
    return f"{os.cpu_count()} cores of {_processor_name()}, {memory:.0f} GB, {python}"


def _processor_name() -> str:
    with suppress(OSError):
        found = re.search(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text())
        if found is not None:
            return found[1]
    return platform.machine()
