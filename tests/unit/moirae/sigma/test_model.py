"""The map of a collection is validated."""

import pytest
from pydantic import ValidationError

from moirae.sigma.model import PLACEHOLDER_LIMIT, SigmaMap


def test_map_with_all_keys_is_valid() -> None:
    SigmaMap.model_validate(
        {
            "key": ["host"],
            "fields": {"Image": "exe", "User": {"sql": "lower(user)", "type": "string"}},
            "keywords": ["message"],
            "placeholders": {"admins": ["root", 0]},
            "logsources": [{"product": "linux", "where": "kind = 'exec'"}],
            "severity": {"high": "page"},
            "license": "DRL",
        }
    )


@pytest.mark.parametrize(
    "content",
    [
        {"key": []},
        {"columns": {}},
        {"fields": {"a": {"sql": "b", "type": "uuid"}}},
        {"placeholders": {"a": ["x"] * (PLACEHOLDER_LIMIT + 1)}},
    ],
)
def test_invalid_map_is_refused(content: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        SigmaMap.model_validate(content)
