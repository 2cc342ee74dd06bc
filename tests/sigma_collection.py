"""A public collection of detection rules over process starts, as a workspace of one stream."""

import csv
import gzip
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

_FOLDERS = (Path("../shared/data/sigma"), Path("../../shared/data/sigma"))

TEXT_COLUMNS = (
    "CommandLine",
    "Company",
    "Computer",
    "CurrentDirectory",
    "Description",
    "FileVersion",
    "Hashes",
    "Image",
    "IntegrityLevel",
    "LogonId",
    "OriginalFileName",
    "ParentCommandLine",
    "ParentImage",
    "ParentUser",
    "Product",
    "Provider_Name",
    "User",
)


class DetectionRule(NamedTuple):
    """A rule of the collection. `condition`: Spark SQL over the columns of a process start."""

    name: str
    condition: str
    level: str


class Collection(NamedTuple):
    """`matches`: names of rules and the numbers (from 0) of the rows that they match."""

    rules: Sequence[DetectionRule]
    rows: Sequence[Mapping[str, Any]]
    matches: frozenset[tuple[str, int]]


def find_folder() -> Path | None:
    """The folder of the collection; None if this machine has none."""
    root = Path(__file__).resolve().parent.parent
    for folder in _FOLDERS:
        if (root / folder / "rules.jsonl.gz").is_file():
            return (root / folder).resolve()
    return None


def require_collection() -> Collection:
    """The collection. Skips the test where this machine has none."""
    folder = find_folder()
    if folder is None:
        pytest.skip("the detection rules of shared/data/sigma are not on this machine")
    return read_collection(folder)


def read_collection(folder: Path) -> Collection:
    """The rules, rows and matches in a folder."""
    rules = [
        DetectionRule(_shorten(rule["name"]), rule["where"], rule["level"])
        for rule in _read_lines(folder / "rules.jsonl.gz")
    ]
    with gzip.open(folder / "expected.csv.gz", "rt", encoding="utf-8", newline="") as file:
        matches = frozenset(
            (_shorten(pair["rule"]), int(pair["row"])) for pair in csv.DictReader(file)
        )
    return Collection(rules, list(_read_lines(folder / "events.jsonl.gz")), matches)


def _shorten(name: str) -> str:
    """A name of at most 63 characters, as rules have."""
    return name.removeprefix("proc_creation_")[:63]


def _read_lines(path: Path) -> Iterable[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


def write_workspace(folder: Path, rules: Iterable[DetectionRule], settings: str = "") -> Path:
    """A workspace of these rules in a folder, without rows. `settings`: lines of its file."""
    (folder / "rules").mkdir(parents=True, exist_ok=True)
    (folder / "landing").mkdir(exist_ok=True)
    columns = ", ".join(f"{name}: string" for name in TEXT_COLUMNS)
    (folder / "moirae.yaml").write_text(
        f"""home: .moirae
streams:
  process_starts:
    columns: {{ts: timestamp, row: bigint, {columns}}}
    time: ts
    id: [row]
    key: [Computer]
    lateness: 0s
    source: {{files: landing/*.jsonl}}
chunks: {{rows: 1000000, age: 1000d, recent: 2}}
rules: [rules/*.yaml]
{settings}""",
        encoding="utf-8",
    )
    write_rules(folder / "rules" / "detection.yaml", rules)
    return folder


def write_rules(path: Path, rules: Iterable[DetectionRule], group: str = "detection") -> None:
    """A rule file with a rule for each condition."""
    lines = ["groups:", f"- name: {group}", "  rules:"]
    for rule in rules:
        query = f"SELECT ts, row FROM process_starts WHERE {rule.condition}"
        lines += [
            f"  - alert: {rule.name}",
            f"    expr: {json.dumps(query, ensure_ascii=False)}",
            "    key: [row]",
            f"    labels: {{severity: {rule.level}}}",
        ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_rows(path: Path, rows: Iterable[tuple[int, Mapping[str, Any]]]) -> None:
    """A file of numbered rows, which appears when it is complete."""
    partial = path.with_suffix(".partial")
    with partial.open("w", encoding="utf-8") as file:
        for number, row in rows:
            file.write(json.dumps({"row": number, **row}, ensure_ascii=False) + "\n")
    partial.rename(path)
