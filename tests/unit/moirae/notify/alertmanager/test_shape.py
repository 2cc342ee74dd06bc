"""Configurations of another shape are refused with the place."""

from typing import Any

import pytest
import yaml

from moirae.notify import convert_alertmanager
from moirae.notify.alertmanager.shape import check_shape


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{}", "no `route`"),
        ("route: [a]", "route: input should be"),
        ("route: {receiver: [a]}", "route.receiver"),
        ("route: {routes: {a: b}}", "route.routes: input should be a valid list"),
        ("route: {routes: [{match: x}]}", r"route.routes.0.match"),
        ("{route: {}, receivers: [x]}", "receivers.0"),
        ("{route: {}, receivers: [{name: a, slack_configs: x}]}", "receivers.0.slack_configs"),
        ("{route: {}, receivers: [{name: a, email_configs: [x]}]}", "receivers.0.email_configs.0"),
        ("{route: {}, inhibit_rules: [null]}", "inhibit_rules.0"),
        ("{route: {}, time_intervals: x}", "time_intervals"),
        ("{route: {}, global: [x]}", "global: input should be a valid dictionary"),
    ],
)
def test_other_shapes_are_refused_with_the_place(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        check_shape(yaml.safe_load(text))


@pytest.mark.parametrize(
    "config",
    [
        {"route": {"routes": None, "match": None, "matchers": []}, "receivers": None},
        {"route": {"receiver": 3}, "receivers": [{"name": 3, "webhook_configs": [None]}]},
        {"route": {"x": 1}, "receivers": [{}], "global": None, "inhibit_rules": [{}]},
    ],
)
def test_empty_and_unknown_values_are_converted(config: dict[str, Any]) -> None:
    assert convert_alertmanager(config).document["routes"] is not None
