"""Titles and texts: built-in, of templates, escaped once."""

import pytest

from moirae.notify.channels.rendering import (
    describe_history,
    escape_html,
    escape_mentions,
    escape_slack,
    find_link,
    render_body,
    render_title,
    to_line,
)
from moirae.notify.messages.content import make_summary_content
from tests.unit.moirae.notify.builders import START
from tests.unit.moirae.notify.channels.contents import (
    HISTORY,
    make_message_content,
    make_receiver,
)

WEBHOOK = {"webhook": "http://x/"}


def test_title_names_state_alert_and_where() -> None:
    assert render_title(make_receiver(**WEBHOOK), make_message_content()) == "[FIRING:1] Disk a"


def test_text_has_what_history_says() -> None:
    assert describe_history(HISTORY) == [
        "not normal: cpu 91 is 17 standard deviations above the mean 40.12 (norm: sd 3)",
        "probable resolution: restart (80%)",
        "similar 1: 2026-01-01 00:00:00Z, fixed by: restart [r]",
        "history still being read: norm",
    ]


def test_text_has_what_a_norm_says() -> None:
    says = "higher than ever at the same hour; not seen in 8 weeks; over 56 days"
    norm = {"rows": [{"mean": 3}], "verdict": "higher", "normal": False, "says": says}
    assert describe_history({"norm": {"usual": norm}}) == [f"not normal: {says} (usual)"]
    says = "higher than 60 % of the same hour; too few cycles: 3 days of at least 4"
    norm = {"rows": [{"mean": 3}], "verdict": "too few cycles", "normal": None, "says": says}
    (line,) = describe_history({"norm": {"usual": norm}})
    assert line == f"too few cycles: {says} (usual)"


def test_text_of_one_alert_begins_with_its_summary() -> None:
    """The title names its state."""
    content = make_message_content()
    lines = render_body(make_receiver(**WEBHOOK), content).splitlines()
    assert lines[:2] == ["disk full", "alertname=Disk, host=a, severity=page"]
    content["alerts"][0]["moirae"]["reason"] = "withdrawn"
    lines = render_body(make_receiver(**WEBHOOK), content).splitlines()
    assert lines[0] == "firing: disk full (withdrawn)"


@pytest.mark.parametrize(
    ("cause", "text"),
    [("history", "its history does not confirm it"), ("settling", "came late")],
)
def test_withdrawn_alert_says_what_withdrew_it(cause: str, text: str) -> None:
    content = make_message_content()
    content["alerts"][0]["moirae"] |= {"reason": "withdrawn", "withdrawn_by": cause}
    assert text in render_body(make_receiver(**WEBHOOK), content).splitlines()[0]


def test_alerts_of_several_names_are_named() -> None:
    content = make_message_content()
    (alert,) = content["alerts"]
    other = {**alert, "labels": {**alert["labels"], "alertname": "Net"}}
    lines = render_body(make_receiver(**WEBHOOK), {**content, "alerts": [alert, other]})
    assert "firing: Disk\ndisk full\n" in lines
    assert "firing: Net\ndisk full\n" in lines


def test_title_says_where_alerts_fire_not_where_they_ended() -> None:
    content = make_message_content()
    (alert,) = content["alerts"]
    ended = {**alert, "status": "resolved", "labels": {**alert["labels"], "host": "b"}}
    content["alerts"] = [ended, alert]
    assert render_title(make_receiver(**WEBHOOK), content) == "[FIRING:1] Disk a"


def test_alerts_that_a_text_does_not_name_are_linked() -> None:
    content = make_message_content()
    content["alerts"] *= 13
    text = render_body(make_receiver(**WEBHOOK), content)
    assert text.endswith("and 3 more: http://m")
    assert find_link(content) == "http://m"


def test_recall_without_a_mean_is_shown_as_it_is() -> None:
    norm = {"rows": [{"n": 3}, {"n": 4}]}
    assert describe_history({"norm": {"peers": norm}}) == ["peers: n 3; n 4"]


def test_similar_alert_comes_with_its_summary_in_one_line() -> None:
    hit = {"at": "2026-01-01T00:00:00Z", "summary": "a\nb", "resolution": "c\nd"}
    line = "similar 1: 2026-01-01 00:00:00Z a b, fixed by: c d"
    assert describe_history({"similar": [hit]}) == [line]


def test_lines_of_history_are_cut() -> None:
    hit = {"at": "2026-01-01T00:00:00Z", "reasons": ["x\n" * 1_000_000]}
    (line,) = describe_history({"similar": [hit]})
    assert len(line) == 1_000
    assert "\n" not in line


def test_reasons_of_similar_alerts_are_in_their_line_and_escaped() -> None:
    reason = "Both have msg “<!channel>”."
    hit = {"at": "2026-01-01T00:00:00Z", "reasons": [reason]}
    assert describe_history({"similar": [hit]}) == [f"similar 1: 2026-01-01 00:00:00Z · {reason}"]
    content = make_message_content()
    content["alerts"][0]["moirae"]["similar"] = [hit]
    assert "“&lt;!channel&gt;”" in render_body(make_receiver(**WEBHOOK), content, escape_slack)


def test_alerts_that_fire_come_before_those_that_ended() -> None:
    content = make_message_content()
    (firing,) = content["alerts"]
    moirae = {**firing["moirae"], "reason": "no_data"}
    times = {"startsAt": "2026-01-01T00:00:00.25Z", "endsAt": "2026-01-01T00:05:00Z"}
    content["alerts"] = [{**firing, **times, "status": "resolved", "moirae": moirae}, firing]
    lines = render_body(make_receiver(**WEBHOOK), content).splitlines()
    assert lines[0] == "firing: disk full"
    assert "resolved: disk full (its data vanished)" in lines
    assert sum(line.startswith("similar 1") for line in lines) == 1, "of the one that fires"
    assert "from 2026-01-01 00:00:00Z to 2026-01-01 00:05:00Z" in lines


def test_summary_is_titled_by_what_it_counts() -> None:
    counts = {"firing": 400, "resolved": 12, "rules": {"g/A": 412}, "more_rules": 0}
    worst = make_message_content()["alerts"]
    content = make_summary_content("ops", {**counts, "worst": worst}, "http://m", START, "Storm:")
    title = "412 more like this: 400 firing, 12 resolved"
    assert render_title(make_receiver(**WEBHOOK), content) == f"[FIRING:400] {title}"
    lines = render_body(make_receiver(**WEBHOOK), content).splitlines()
    assert lines[:2] == [title, "Storm: g/A: 412"]


def test_template_of_a_value_is_not_rendered() -> None:
    content = make_message_content(annotations={"summary": "{{ 7 * 7 }} {% raw %}"})
    text = render_body(make_receiver(**WEBHOOK), content)
    assert "{{ 7 * 7 }} {% raw %}" in text
    receiver = make_receiver(**WEBHOOK, body="{{ alerts[0].annotations.summary }}")
    assert render_body(receiver, content) == "{{ 7 * 7 }} {% raw %}"


def test_values_are_escaped_for_their_channel() -> None:
    content = make_message_content(annotations={"summary": "<script>&<!channel>"})
    receiver = make_receiver(**WEBHOOK, body="<b>{{ alerts[0].annotations.summary }}</b>")
    escaped = "&lt;script&gt;&amp;&lt;!channel&gt;"
    assert render_body(receiver, content, escape_html) == f"<b>{escaped}</b>"
    assert render_body(receiver, content, escape_slack) == f"<b>{escaped}</b>"


@pytest.mark.parametrize("template", ["{{ nothing }}", "{{ labels.nothing }}", "{{ 1 / 0 }}"])
def test_template_that_fails_is_said_in_the_message(template: str) -> None:
    receiver = make_receiver(**WEBHOOK, title=template, body=template)
    content = make_message_content()
    assert "Disk" in render_title(receiver, content)
    assert "template failed" in render_title(receiver, content)
    assert "Disk (template failed" in render_body(receiver, content)


def test_names_of_labels_are_escaped_like_values() -> None:
    content = make_message_content(**{"<!channel>": "x"})
    receiver = make_receiver(**WEBHOOK, body="{% for name in labels %}{{ name }} {% endfor %}")
    assert "&lt;!channel&gt;" in render_body(receiver, content, escape_slack)
    assert "<" not in render_body(receiver, content, escape_html)


@pytest.mark.parametrize("text", ["@everyone", "a @Here b", "<@123>", "<#5>", "<!channel>"])
def test_values_call_nobody_in_chats(text: str) -> None:
    escaped = escape_mentions(text)
    assert text not in escaped
    assert escaped.replace("\u200b", "") == text


def test_mail_addresses_stay_as_they_are() -> None:
    assert escape_mentions("ops@example.org") == "ops@example.org"


def test_title_has_one_line_of_bounded_length() -> None:
    assert to_line("a\r\nBcc: x@y\x00") == "a Bcc: x@y"
    assert to_line("a\x85\x1cb") == "a b"
    assert len(to_line("x" * 10_000)) == 200


def test_large_values_are_cut() -> None:
    content = make_message_content(annotations={"summary": "x" * 1_000_000})
    assert len(render_body(make_receiver(**WEBHOOK), content)) < 3_000
