"""Keys of recalls that belong together."""

from typing import Any

import pytest
from pydantic import ValidationError

from moirae.rules.questions import SqlRecall


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"order": "extreme"}, "set order: extreme and extreme, its column, together"),
        ({"extreme": "cpu"}, "set order: extreme and extreme, its column, together"),
        ({"order": "weighted", "extreme": "cpu"}, "set order: extreme and extreme"),
        ({"fade": 0.9}, "fade is for order: weighted"),
        ({"order": "extreme", "extreme": "cpu", "fade": 0.9}, "fade is for order: weighted"),
        ({"order": "weighted", "fade": 0}, "greater than 0"),
        ({"order": "weighted", "fade": 1.5}, "less than or equal to 1"),
        ({"order": "random"}, "extreme"),
    ],
)
def test_order_is_refused_with_a_reason(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError) as error:
        SqlRecall.model_validate({"sql": "SELECT 1", **keys})
    assert message in str(error.value)


@pytest.mark.parametrize(
    "keys",
    [
        {"order": "weighted"},
        {"order": "weighted", "fade": 0.9},
        {"order": "extreme", "extreme": "v"},
    ],
)
def test_order_is_stored_as_it_is_read(keys: dict[str, Any]) -> None:
    recall = SqlRecall.model_validate({"sql": "SELECT 1", **keys})
    stored = recall.model_dump(mode="json")
    assert {name: stored[name] for name in keys} == keys
    assert SqlRecall.model_validate(stored) == recall
