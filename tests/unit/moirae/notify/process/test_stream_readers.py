"""Which streams the rules of alerts read."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from moirae.config.settings import Settings, load_settings
from moirae.notify.process.stream_readers import StreamReaders
from moirae.rules import Definition
from moirae.rules.model import Group
from moirae.rules.rule_set import build_rules
from sql.rules import DesiredRuleRow

_WORKSPACE = """
streams:
  cpu: {columns: {at: timestamp, host: string, cpu: double}, time: at, source: {http: true}}
  disk: {columns: {ts: timestamp, host: string}, time: ts, source: {http: true}}
relations:
  hosts: {columns: {host: string}, key: [host], source: {file: hosts.csv}}
"""
_GROUP: Mapping[str, Any] = {
    "name": "g",
    "derived": [
        {"stream": "load", "expr": "SELECT host, at AS ts, cpu FROM cpu WHERE cpu > 1"},
    ],
    "rules": [
        {
            "alert": "Load",
            "expr": "SELECT l.host, l.ts FROM load l JOIN hosts h ON l.host = h.host",
        },
        {"alert": "Silent", "absent": "15m", "stream": "disk", "key": ["host"]},
    ],
}


class Rules:
    """Stored rules. `reads`: how often definitions were read."""

    def __init__(self) -> None:
        self.revision_number = 1
        self.reads = 0
        self.definitions = {
            rule.id: json.dumps(
                Definition(rule, {"host": "string"}, ("host",), ("host",)).to_json()
            )
            for rule in build_rules(Group.model_validate(_GROUP))
        }
        self.definitions["g/Broken"] = "{}"

    def revision(self) -> int:
        return self.revision_number

    def list_all(self, rules: Sequence[str]) -> list[DesiredRuleRow]:
        self.reads += 1
        now = datetime.now(UTC)
        return [
            DesiredRuleRow(rule, "v", self.definitions[rule], now)
            for rule in rules
            if rule in self.definitions
        ]


def _load_settings(folder: Path) -> Settings:
    file = folder / "moirae.yaml"
    file.write_text(_WORKSPACE)
    return load_settings(file, {})


def test_rules_read_streams_directly_and_by_derived_ones(tmp_path: Path) -> None:
    settings = _load_settings(tmp_path)
    rules = Rules()
    readers = StreamReaders(rules, settings)  # type: ignore[arg-type]
    known = ["g/Load", "g/Silent"]
    assert readers.find_readers(known, ["cpu"]) == {"g/Load"}
    assert readers.find_readers(known, ["disk"]) == {"g/Silent"}
    assert readers.find_readers(known, ["other"]) == set()
    assert rules.reads == 2
    unknown = ["g/Gone", "g/Broken"]
    assert readers.find_readers([*known, *unknown], ["disk"]) == {"g/Silent", *unknown}


def test_rules_are_read_again_when_they_have_changed(tmp_path: Path) -> None:
    settings = _load_settings(tmp_path)
    rules = Rules()
    readers = StreamReaders(rules, settings)  # type: ignore[arg-type]
    assert readers.find_readers(["g/Load"], ["disk"]) == set()
    rules.definitions["g/Load"] = rules.definitions["g/Silent"]
    rules.revision_number += 1
    assert readers.find_readers(["g/Load"], ["disk"]) == {"g/Load"}
