"""Filters of the views for dashboards."""

from datetime import UTC, datetime
from typing import Any
from unittest.mock import Mock
from uuid import UUID

import pytest

from moirae.errors import UsageError
from moirae.services.operations.dashboards import View, ViewQuery, read_view

TIME = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("view", "name", "value"),
    [
        ("streams", "since", TIME),
        ("streams", "until", TIME),
        ("streams", "eid", UUID(int=1)),
        ("alerts", "eid", UUID(int=1)),
        ("chunks", "eid", UUID(int=1)),
    ],
)
def test_filter_that_a_view_lacks_is_refused(view: View, name: str, value: Any) -> None:
    with pytest.raises(UsageError, match=f"{name}: the view {view} has no such filter"):
        read_view.function(Mock(), view, ViewQuery(**{name: value}))
