from typing import Any
from unittest.mock import Mock

from moirae.alerts import fix_records
from moirae.alerts.fix_records import FixRecords
from tests.unit.moirae.alerts.test_fixes import make_fix

FORECAST = {"tags": [["resize", 0.5], ["restart", 0.25]]}


def test_fixes_of_a_rule_are_read_once(monkeypatch: Any) -> None:
    gateway = Mock()
    gateway.list_tried.return_value = [make_fix(1), make_fix(2)]
    monkeypatch.setattr(fix_records, "TagGateway", Mock(return_value=gateway))
    records = FixRecords(Mock())
    for rule in ("g/r", "g/r", "g/other"):
        added = records.add_to(FORECAST, rule)["records"]
        assert list(added) == ["restart"] and added["restart"].startswith("worked 2 of 2 times")
    assert gateway.list_tried.call_count == 2
