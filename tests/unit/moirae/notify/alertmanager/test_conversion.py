"""Configurations of Alertmanager become keys of the workspace file, with what is not converted."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from moirae.config.settings import load_settings
from moirae.notify import convert_alertmanager, make_policy
from moirae.notify.routing.tree import find_routes

CONFIG = """
global: {smtp_smarthost: "mail:25", smtp_from: am@x.org, resolve_timeout: 5m}
route:
  receiver: team-X.mails
  group_by: [alertname]
  routes:
  - match: {severity: page}
    match_re: {team: "a|b"}
    receiver: pager
    continue: true
  - matchers: ['silent="yes"']
    receiver: nothing
    routes: [{matchers: ['host="x"'], receiver: hook, group_wait: 5s}]
receivers:
- {name: team-X.mails, email_configs: [{to: "a@x.org, b@x.org"}]}
- {name: pager, pagerduty_configs: [{routing_key: k}, {routing_key: l}]}
- {name: hook, webhook_configs: [{url: "http://x/", http_config: {}}]}
- {name: nothing}
inhibit_rules: [{source_match: {severity: page}, target_match_re: {severity: warn.*}, equal: [host]}]
time_intervals: [{name: night, time_intervals: [{times: [{start_time: "22:00", end_time: "24:00"}]}]}]
templates: [x.tmpl]
"""


def convert(text: str) -> tuple[dict[str, Any], list[str]]:
    conversion = convert_alertmanager(yaml.safe_load(text))
    return conversion.document, conversion.remarks


def test_converted_configuration_routes_as_the_original(tmp_path: Path) -> None:
    document, _ = convert(CONFIG)
    (tmp_path / "moirae.yaml").write_text(json.dumps(document))
    settings = load_settings(tmp_path, {})
    root = make_policy(settings).root

    def find_receivers(**labels: str) -> list[str]:
        return [node.options.receiver for node in find_routes(root, labels)]

    assert find_receivers(severity="page", team="a") == ["pager", "pager_2"]
    assert find_receivers(severity="page", team="a", silent="yes") == ["pager", "pager_2"]
    assert find_receivers(severity="page", team="c") == ["team-X_mails"]
    assert find_receivers(silent="yes", host="x") == ["hook"]
    assert find_receivers(silent="yes") == []
    email = settings.receivers["team-X_mails"]
    assert email.email is not None
    assert (email.email.to, email.send_resolved) == (("a@x.org", "b@x.org"), False)
    assert [interval.name for interval in settings.time_intervals] == ["night"]
    assert settings.inhibit_rules[0].equal == ("host",)


def test_each_target_of_a_receiver_gets_what_the_routes_within_leave(tmp_path: Path) -> None:
    document, remarks = convert("""
route:
  receiver: ops
  routes:
  - {receiver: "null", matchers: [alertname="Watchdog"]}
  - {matchers: [team="a"], group_wait: 5s, continue: true}
  - {receiver: b, matchers: [team=~"a|b"]}
receivers:
- {name: "null"}
- name: ops
  webhook_configs: [{url: "http://x/1"}, {url: "http://x/2"}]
  slack_configs: [{api_url: "http://x/3", send_resolved: true}]
- {name: b, webhook_configs: [{url: "http://x/4"}]}
""")
    (tmp_path / "moirae.yaml").write_text(json.dumps(document))
    root = make_policy(load_settings(tmp_path, {})).root

    def find_receivers(**labels: str) -> list[str]:
        return [node.options.receiver for node in find_routes(root, labels)]

    assert remarks == []
    assert find_receivers(team="c") == ["ops", "ops_2", "ops_3"]
    assert find_receivers(team="b") == ["b"]
    assert find_receivers(team="a") == ["ops", "ops_2", "ops_3", "b"]
    assert find_receivers(alertname="Watchdog", team="a") == []
    waits = [node.options.group_wait.seconds for node in find_routes(root, {"team": "a"})]
    assert waits == [5, 5, 5, 30]


def test_what_is_not_converted_is_listed() -> None:
    _, remarks = convert(CONFIG)
    assert [remark.split(":")[0] for remark in remarks] == [
        "receiver hook",
        "templates",
        "global.resolve_timeout",
    ]


def test_other_document_is_refused() -> None:
    with pytest.raises(ValueError, match="no configuration of Alertmanager"):
        convert("groups: []")


def test_slack_apps_become_bots() -> None:
    config = {
        "global": {"slack_app_token": "xoxb-1", "slack_api_url": "https://hooks.slack.com/x"},
        "route": {"receiver": "bot"},
        "receivers": [
            {"name": "bot", "slack_configs": [{"channel": "#a", "update_message": True}]},
            {"name": "hook", "slack_configs": [{"api_url": "https://hooks.slack.com/y"}]},
        ],
    }
    conversion = convert_alertmanager(config)
    receivers = conversion.document["receivers"]
    assert receivers["bot"] == {
        "slack": {"token": "xoxb-1", "channel": "#a"},
        "update": "edit",
        "send_resolved": False,
    }
    assert receivers["hook"]["slack"] == {"webhook": "https://hooks.slack.com/y"}
    assert conversion.remarks == []


def test_empty_group_by_replaces_what_a_route_inherits() -> None:
    document, _ = convert(
        "{route: {receiver: a, group_by: [x], routes: [{group_by: []}, {group_wait: 1s}]}, "
        "receivers: [{name: a, webhook_configs: [{url: 'http://x/'}]}]}"
    )
    first, second = document["routes"][0]["routes"]
    assert first["group_by"] == [] and "group_by" not in second
