from datetime import UTC, datetime
from unittest.mock import Mock
from uuid import UUID

from archiver.time_range import TimeRange
from moirae.alerts.alert_stream import AlertStream, make_alert_table
from sql.alerts import AlertStateRow

TIME = datetime(2026, 1, 1, tzinfo=UTC)


def test_keys_and_labels_are_maps_of_texts() -> None:
    row = AlertStateRow(
        ts=TIME,
        id=UUID(int=1),
        eid=UUID(int=2),
        rule="g/Disk/Full",
        state="firing",
        labels={"site": "x"},
        key={"host": "a", "port": 80, "zone": None},
        starts_at=TIME,
    )
    (read,) = make_alert_table([row]).to_pylist()
    assert (read["rule"], read["alert"]) == ("g/Disk/Full", "Disk/Full")
    assert dict(read["key"]) == {"host": "a", "port": "80", "zone": None}
    assert dict(read["labels"]) == {"site": "x"}


def test_a_range_is_read_by_its_bounds() -> None:
    connection = Mock()
    stream = AlertStream(connection)
    stream._gateway = Mock(list_changes_of_state=Mock(return_value=[]))
    stream.read(TimeRange(0, None), ["g/A"])
    start, end, rules = stream._gateway.list_changes_of_state.call_args.args
    assert (start, end, rules) == (datetime(1970, 1, 1, tzinfo=UTC), None, ["g/A"])
