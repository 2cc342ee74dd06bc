"""Named queries, and values for jsonb columns."""

import re
from pathlib import Path

import pytest

import sql
from sql.loader import load

_QUERIES = Path(sql.__file__).parent / "queries"
_GATEWAYS = sorted(path.stem for path in _QUERIES.glob("*.sql"))


def test_nul_is_replaced_in_all_texts_of_a_value() -> None:
    value = {"a\x00": ["b\x00c", {"d": "\x00"}, 1, None, 2.5], "e": ("x\x00",)}
    assert sql.replace_nul(value) == {"a␀": ["b␀c", {"d": "␀"}, 1, None, 2.5], "e": ["x␀"]}


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
