"""Which tasks of rules and alerts run, and how soon again."""

from unittest.mock import Mock

import pytest

from moirae.live.rule_tasks import make_rule_tasks


@pytest.mark.parametrize(
    ("drain", "names"),
    [
        (True, ["reload rules", "store flows"]),
        (
            False,
            [
                "reload rules",
                "store flows",
                "advance idle sources",
                "settle",
                "follow revisions",
                "follow up alerts",
            ],
        ),
    ],
)
def test_drain_only_reloads_rules_without_new_rows(drain: bool, names: list[str]) -> None:
    tasks = make_rule_tasks(Mock(), Mock(), Mock(), Mock(), drain=drain)
    assert [task.name for task in tasks] == names
