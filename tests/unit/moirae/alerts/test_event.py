"""Events and their identities."""

import json
from uuid import UUID, uuid5

from hypothesis import given, settings
from hypothesis import strategies as st

from moirae.alerts.event import (
    NAMESPACE,
    EventRow,
    canonical_json,
    deduplicate,
    make_alert_id,
    make_event_id,
)

VALUES = st.none() | st.integers() | st.text(max_size=3) | st.booleans()
ROWS = st.lists(
    st.builds(EventRow, st.integers(0, 2), st.fixed_dictionaries({"host": VALUES, "n": VALUES})),
    max_size=6,
)


def test_identity_is_that_of_stored_events() -> None:
    row = EventRow(1_700_000_000_000_000, {"host": "n1", "cpu": 93.5})
    eid = make_event_id("g/A", ["host"], row)
    assert eid == UUID("28fb3316-0c97-5856-8368-2c397aa638a8")
    assert make_alert_id("g/A", eid) == UUID("87a882c4-5081-574d-909d-f83559e31d2e")


@given(st.text(), VALUES)
def test_identities_are_uuids_of_version_5(rule: str, value: object) -> None:
    eid = make_event_id(rule, ["host"], EventRow(0, {"host": value}))
    name = canonical_json([rule, value, "1970-01-01T00:00:00+00:00"])
    assert eid == uuid5(NAMESPACE, name)
    assert make_alert_id(rule, eid) == uuid5(NAMESPACE, f"alert {rule} {eid}")


def test_identity_depends_on_rule_time_and_identity_columns_only() -> None:
    row = EventRow(1, {"host": "n1", "cpu": 93.5})
    eid = make_event_id("g/A", ["host"], row)
    assert make_event_id("g/A", ["host"], EventRow(1, {"host": "n1", "cpu": 12.0})) == eid
    assert make_event_id("g/B", ["host"], row) != eid
    assert make_event_id("g/A", ["host"], EventRow(2, row.attributes)) != eid
    assert make_event_id("g/A", ["host", "cpu"], row) != eid


def test_canonical_json_has_no_spaces_and_no_escapes() -> None:
    assert canonical_json(["ä", None, 1.5, {"b": 1}]) == '["ä",null,1.5,{"b":1}]'


@given(
    st.lists(
        st.none()
        | st.booleans()
        | st.integers()
        | st.integers(-(1 << 65), 1 << 65)
        | st.floats()
        | st.text(st.characters(exclude_categories=()))
        | st.just(["a", {"b": 1e16}])
    )
)
def test_canonical_json_is_written_as_by_the_standard_library(values: list[object]) -> None:
    expected = json.dumps(values, ensure_ascii=False, separators=(",", ":"))
    assert canonical_json(values) == canonical_json(tuple(values)) == expected


def test_event_has_its_key_and_fingerprint() -> None:
    (event,) = deduplicate("g/A", ["host"], ["host", "site"], [EventRow(1, {"host": "n1"})])
    assert event.key == {"host": "n1", "site": None}
    assert event.fingerprint == '["n1",null]'


@given(st.text(min_size=400))
def test_long_keys_have_short_fingerprints(value: str) -> None:
    """PostgreSQL refuses long values in indexes, unless it can compress them."""
    fingerprints = {
        event.fingerprint
        for text in (value, value + "x", value * 3_000)
        for event in deduplicate("g/A", ["host"], ["host"], [EventRow(1, {"host": text})])
    }
    assert len(fingerprints) == 3
    assert all(len(fingerprint.encode()) <= 1000 for fingerprint in fingerprints)


def test_smallest_of_rows_with_one_identity_is_the_event() -> None:
    rows = [EventRow(1, {"host": "a", "n": n}) for n in ("x", 3, 20, None)]
    numbers = [
        deduplicate("g/A", ["host"], [], rows[:count])[0].attributes["n"] for count in (1, 2, 3, 4)
    ]
    assert numbers == ["x", 3, 3, None]


@settings(deadline=None)
@given(ROWS)
def test_events_do_not_depend_on_the_order_of_rows(rows: list[EventRow]) -> None:
    events = deduplicate("g/A", ["host"], ["host"], rows)
    assert deduplicate("g/A", ["host"], ["host"], reversed(rows)) == events
    assert [(event.ts, event.eid) for event in events] == sorted(
        {(row.ts, make_event_id("g/A", ["host"], row)) for row in rows}
    )
