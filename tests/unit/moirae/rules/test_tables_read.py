"""What a rule reads, wherever it names it."""

from moirae.rules.tables_read import find_tables_read, may_read
from tests.unit.moirae.rules.rule_files import EVERY_KEY, RULE, read_rule


def test_tables_of_all_queries_are_read() -> None:
    """Through the derived stream load, too; its own context, recall and stage are not."""
    rule = read_rule(EVERY_KEY)
    read = find_tables_read(rule)
    assert read == {"cpu", "load", "hosts", "ping"}
    assert all(may_read(rule, name) for name in read)
    assert not may_read(rule, "disk")


def test_watched_stream_and_expected_keys_are_read() -> None:
    text = RULE.replace(
        "    expr: SELECT host, ts FROM cpu\n",
        "    absent: 5m\n    stream: ping\n    expected: hosts\n",
    )
    assert find_tables_read(read_rule(text)) == {"ping", "hosts"}
