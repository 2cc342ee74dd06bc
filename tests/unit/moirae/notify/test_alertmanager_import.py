"""Configurations of Alertmanager become keys of the workspace file, with what is not converted."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from moirae.config.settings import load_settings
from moirae.notify import convert_alertmanager, find_routes, make_policy

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
    (tmp_path / "moirae.yaml").write_text(yaml.safe_dump(document))
    settings = load_settings(tmp_path, {})
    root = make_policy(settings).root

    def find_receivers(**labels: str) -> list[str]:
        return [node.options.receiver for node in find_routes(root, labels)]

    assert find_receivers(severity="page", team="a") == ["pager"]
    assert find_receivers(severity="page", team="c") == ["team-X_mails"]
    assert find_receivers(silent="yes", host="x") == ["hook"]
    email = settings.receivers["team-X_mails"]
    assert email.email is not None
    assert (email.email.to, email.send_resolved) == (("a@x.org", "b@x.org"), False)
    assert [interval.name for interval in settings.time_intervals] == ["night"]
    assert settings.inhibit_rules[0].equal == ("host",)


def test_what_is_not_converted_is_listed() -> None:
    _, remarks = convert(CONFIG)
    assert [remark.split(":")[0] for remark in remarks] == [
        "receiver pager",
        "receiver hook",
        "route.routes[1]",
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
