"""Answers of tools with many rows: each fits, and cursors lead to all rows once."""

from types import SimpleNamespace
from typing import Any, cast
from uuid import uuid4

import orjson
import pytest

from moirae.mcp import tools
from moirae.mcp.pages import MAX_BYTES
from moirae.services import Workspace

_WORKSPACE = cast(Workspace, None)


def test_rows_of_a_question_are_read_page_by_page(monkeypatch: pytest.MonkeyPatch) -> None:
    query = uuid4()
    rows = [{"host": f"h{number}", "n": number} for number in range(1_000)]
    task = SimpleNamespace(id=query, state="done", revision=3, error=None)
    revision = SimpleNamespace(rows=rows, final=True, coverage={"read": 7}, estimates=None)
    monkeypatch.setattr(tools.queries, "keep_alive", lambda *_: task)
    monkeypatch.setattr(tools.recalls, "list_revisions", lambda *_: [revision])
    seen: list[Any] = []
    cursor: str | None = None
    while True:
        page = tools.ask_history(_WORKSPACE, query=str(query), cursor=cursor)
        assert len(orjson.dumps(page)) <= MAX_BYTES
        seen += page["rows"]
        cursor = page["next"]
        if cursor is None:
            break
    assert seen == rows


@pytest.mark.parametrize("label", range(1, 300, 7))
def test_list_of_alerts_fits_with_its_cursor(label: int, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("id", "rule", "state", "starts_at", "ends_at", "key", "acknowledged_by", "assigned_to")
    alert = SimpleNamespace(**dict.fromkeys(names, ""), annotations={}, labels={"a": "x" * label})

    def list_alerts(_: Workspace, query: Any) -> Any:
        return SimpleNamespace(alerts=[alert] * query.limit, next="c" * 80)

    monkeypatch.setattr(tools.alerts, "list_alerts", list_alerts)
    page = tools.list_alerts(_WORKSPACE)
    assert len(orjson.dumps(page)) <= MAX_BYTES
    assert page["alerts"] and page["next"] == "c" * 80
