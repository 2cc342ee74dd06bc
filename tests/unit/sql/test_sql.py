"""Named queries, and values for jsonb columns."""

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import pytest

import sql
from sql.loader import load
from sql.values import to_json_rows

_QUERIES = Path(sql.__file__).parent / "queries"
_GATEWAYS = sorted(path.stem for path in _QUERIES.glob("*.sql"))


def test_nul_is_replaced_in_all_texts_of_a_value() -> None:
    value = {"a\x00": ["b\x00c", {"d": "\x00"}, 1, None, 2.5], "e": ("x\x00",)}
    assert sql.replace_nul(value) == {"a␀": ["b␀c", {"d": "␀"}, 1, None, 2.5], "e": ["x␀"]}


def test_rows_become_one_json_array() -> None:
    """NUL is replaced; an integer of more than 64 bits stays exact."""
    eid = UUID(int=7)
    ts = datetime(2026, 1, 1, 12, 30, 0, 250, UTC)
    rows = [{"eid": eid, "ts": ts, "key": {"a\x00": "\\u0000"}, "x": None}]
    expected = [
        {
            "eid": str(eid),
            "ts": "2026-01-01T12:30:00.000250+00:00",
            "key": {"a␀": "\\u0000"},
            "x": None,
        }
    ]
    assert json.loads(to_json_rows(rows)) == expected
    assert json.loads(to_json_rows([{"n": 1 << 80, "eid": eid, "t": "\x00"}])) == [
        {"n": 1 << 80, "eid": str(eid), "t": "␀"}
    ]


@pytest.mark.parametrize("gateway", _GATEWAYS)
def test_every_query_of_a_gateway_is_loaded_by_its_name(gateway: str) -> None:
    text = (_QUERIES / f"{gateway}.sql").read_text()
    names = re.findall(r"^-- (\w+) --$", text, re.MULTILINE)
    queries = load(gateway)
    assert names and list(queries) == names
    assert all(query.as_string().strip() for query in queries.values())


def test_unknown_gateway_is_an_error() -> None:
    with pytest.raises(FileNotFoundError):
        load("nothing")
