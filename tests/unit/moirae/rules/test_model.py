"""Keys of rule files: values, defaults and descriptions."""

from datetime import timedelta

from moirae.rules.history_range import HistoryRange, HistorySpan
from moirae.rules.model import RuleFile
from moirae.rules.questions import SimilarRecall, SqlRecall
from tests.unit.moirae.rules.rule_files import EVERY_KEY, RULE, read_rule, read_rules, with_keys


def test_every_key_is_read() -> None:
    rule_set = read_rules(EVERY_KEY)
    (derived,) = rule_set.derived
    assert (derived.group, derived.stream, derived.archive) == ("testbed", "load", True)
    (rule,) = rule_set.rules
    assert (rule.id, rule.group, rule.derived) == ("testbed/NodeOverloaded", "testbed", (derived,))
    spec = rule.spec
    assert spec.expr == "SELECT host, ts, cpu FROM load WHERE cpu > 90"
    assert (spec.key, spec.id, spec.for_) == (("host",), None, timedelta(0))
    assert (spec.keep_firing_for, spec.delay) == (timedelta(minutes=10), timedelta(0))
    assert (spec.labels, spec.enabled, spec.recall_on) == ({"severity": "page"}, True, "firing")
    assert spec.annotations == {"summary": "{{ event.host }} at {{ event.cpu | round(1) }} %"}
    assert list(spec.context) == ["running", "site", "own"]
    assert (spec.context["running"].within, spec.context["site"].within) == (
        timedelta(minutes=10),
        None,
    )
    assert spec.context["own"].numeric == {"cpu": None}
    assert spec.surroundings["before"].within == timedelta(hours=1)
    norm, similar = spec.recall["norm"], spec.recall["similar"]
    assert isinstance(norm, SqlRecall)
    assert (norm.range, norm.every, norm.feedback) == (
        HistoryRange(last=HistorySpan(timedelta(days=7))),
        timedelta(seconds=1),
        None,
    )
    assert isinstance(similar, SimilarRecall)
    assert (similar.similar.contexts, similar.similar.k) == (("running", "site"), 10)
    assert (similar.similar.measure, similar.similar.gap) == ("tfidf", timedelta(hours=6))
    assert similar.feedback == timedelta(minutes=10)
    assert spec.where == "event.cpu > norm.mean + 3 * norm.sd"
    (stage,) = spec.then
    assert (stage.stream, stage.within, stage.analysis) == (
        "candidates",
        timedelta(minutes=1),
        "present",
    )


def test_keys_have_defaults() -> None:
    spec = read_rule(RULE.replace("    key: [host]\n", "")).spec
    assert (spec.key, spec.id, spec.limit, spec.where) == (None, None, None, None)
    assert (spec.for_, spec.delay, spec.keep_firing_for) == (
        timedelta(0),
        timedelta(0),
        timedelta(minutes=5),
    )
    assert (spec.labels, spec.context, spec.recall, spec.then) == ({}, {}, {}, ())


def test_rule_has_the_settings_of_its_group() -> None:
    text = RULE.replace(
        "- name: g\n", "- name: g\n  interval: 10s\n  query_offset: 1m\n  limit: 5\n"
    )
    rule = read_rule(text)
    assert (rule.interval, rule.query_offset, rule.limit) == (
        timedelta(seconds=10),
        timedelta(minutes=1),
        5,
    )
    assert read_rule(text + "    limit: 3\n").limit == 3


def test_absence_rule_has_stream_and_key() -> None:
    spec = read_rule(
        RULE.replace("expr: SELECT host, ts FROM cpu", "absent: 10m\n    stream: cpu")
    ).spec
    assert (spec.absent, spec.stream, spec.key, spec.expr) == (
        timedelta(minutes=10),
        "cpu",
        ("host",),
        None,
    )


def test_labels_keep_their_spelling() -> None:
    spec = read_rule(with_keys("labels: {country: NO, version: 1.10, code: 007, on: yes}")).spec
    assert spec.labels == {"country": "NO", "version": "1.10", "code": "007", "on": "yes"}


def test_numeric_attribute_has_its_bandwidth_or_none() -> None:
    spec = read_rule(
        with_keys("context: {own: {sql: SELECT 1, numeric: {cpu: 2.5, load: ~}}}")
    ).spec
    assert spec.context["own"].numeric == {"cpu": 2.5, "load": None}


def test_every_key_has_a_description() -> None:
    for name, definition in RuleFile.model_json_schema()["$defs"].items():
        assert definition["description"], name
        for key, value in definition["properties"].items():
            assert value.get("description"), (name, key)
