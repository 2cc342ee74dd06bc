"""Events of plain rules in many tests at once: each rule is one query over the rows of all of them."""

from collections.abc import Mapping

from archiver.time_range import TimeRange
from moirae.alerts import Event, EventRow, deduplicate
from moirae.evaluation.plan import ActiveRule
from moirae.history import PastEngines
from moirae.rule_tests.input_batches import InputBatch
from recall.errors import SparkRequired

_NUMBER = "_test"  # column with the number of a row's test; declared names do not begin with _


def find_shared_events(
    rule: ActiveRule, batch: InputBatch, ranges: Mapping[int, TimeRange], engines: PastEngines
) -> Mapping[int, list[Event]]:
    """The events of a rule in some tests of a batch, with ts in the range of each.

    Empty if the rule does more than to look at one row at a time, or if it fails: the tests are then
    evaluated one by one, and tell the error.
    """
    (group,) = engines.grouper.group([rule])
    if not engines.choice.allows_duckdb or group.query is None or not group.query.is_filter:
        return {}
    (stream,) = group.streams
    if stream not in batch.streams:
        return {}
    columns = batch.query_columns[stream]
    rows = batch.streams[stream].number_rows(columns, _NUMBER)
    try:
        numbered_rows = engines.duckdb_rules.run_filter(group, rows, _NUMBER)
    except SparkRequired:
        return {}
    event_rows: dict[int, list[EventRow]] = {number: [] for number in ranges}
    for number, row in numbered_rows:
        if number in ranges and ranges[number].contains(row.ts):
            event_rows[number].append(row)
    identity = (rule.definition.id, rule.definition.key)
    return {number: deduplicate(rule.name, *identity, event_rows[number]) for number in ranges}
