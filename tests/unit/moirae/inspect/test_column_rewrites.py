"""Rewrites for changed columns in the status."""

from typing import Any

from moirae.inspect.column_rewrites import describe_rewrites, find_rewrite_problems


def rewrite(state: str, reason: str | None = None) -> dict[str, Any]:
    return {
        "stream": "m",
        "columns": ["v", "w"],
        "state": state,
        "steps_done": 3,
        "steps": 10,
        "bytes_needed": 5 << 20,
        "reason": reason,
    }


def test_progress_and_disk_are_named() -> None:
    (line,) = describe_rewrites([rewrite("rewriting")])
    assert line == (
        "stream m: files are rewritten for changed columns (v, w), 3 of 10 steps, "
        "5 MiB of disk needed; its new input waits"
    )
    assert list(find_rewrite_problems([rewrite("rewriting"), rewrite("checking")])) == []


def test_failures_are_problems() -> None:
    full, refused = find_rewrite_problems(
        [rewrite("failing", "no space left"), rewrite("refused", "declare bigint again")]
    )
    assert full.endswith("5 MiB of disk needed, and is tried again: no space left")
    assert refused == (
        "stream m: declare bigint again in the workspace file and restart; its new input waits"
    )
