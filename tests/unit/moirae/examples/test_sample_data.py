"""The sample data of `moirae init`: reproducible, small, and with a past for each kind of cause."""

from collections import Counter
from datetime import UTC, datetime, timedelta

from moirae.examples.sample_data import HOSTS, INCIDENTS, SILENCE, SPAN, Row, sample_rows

END = datetime(2026, 5, 1, tzinfo=UTC)


def time_of(row: Row) -> datetime:
    return datetime.fromisoformat(str(row["ts"]))


def test_sample_data_is_reproducible_and_moves_with_its_end() -> None:
    shift = timedelta(days=40)
    earlier, later = sample_rows(END), sample_rows(END + shift)
    assert sample_rows(END) == earlier
    for name, rows in earlier.items():
        assert [{**row, "ts": time_of(row) + shift} for row in rows] == [
            {**row, "ts": time_of(row)} for row in later[name]
        ]


def test_sample_data_is_ordered_small_and_without_repeated_rows() -> None:
    identity = {"cpu": ("ts", "host"), "process": ("ts", "host", "process", "user")}
    rows_by_stream = sample_rows(END)
    assert rows_by_stream.keys() == identity.keys()
    assert sum(len(rows) for rows in rows_by_stream.values()) < 10_000
    for name, rows in rows_by_stream.items():
        times = [time_of(row) for row in rows]
        assert times == sorted(times)
        assert times[0] == END - SPAN
        assert END - timedelta(minutes=20) < times[-1] < END
        assert (
            max(Counter(tuple(row[column] for column in identity[name]) for row in rows).values())
            == 1
        )
        assert {row["host"] for row in rows} == {host.name for host in HOSTS}


def test_high_cpu_occurs_in_incidents_only() -> None:
    start = END - SPAN
    for row in sample_rows(END)["cpu"]:
        in_incident = any(
            row["host"] == incident.host
            and start + incident.start <= time_of(row) < start + incident.start + incident.duration
            for incident in INCIDENTS
        )
        assert (float(row["cpu"]) > 90) == in_incident, row


def test_each_cause_occurs_more_than_once_and_the_newest_has_a_past() -> None:
    main_processes = Counter(incident.processes[0] for incident in INCIDENTS)
    assert min(main_processes.values()) >= 2
    newest = max(INCIDENTS, key=lambda incident: incident.start)
    assert main_processes[newest.processes[0]] >= 3
    other_causes_on_host = {i.processes[0] for i in INCIDENTS if i.host == newest.host} - {
        newest.processes[0]
    }
    assert len(other_causes_on_host) >= 2


def test_processes_of_an_incident_run_when_it_starts() -> None:
    start = END - SPAN
    rows = sample_rows(END)["process"]
    for incident in INCIDENTS:
        begin = start + incident.start
        running = {
            (row["process"], row["user"])
            for row in rows
            if row["host"] == incident.host
            and begin - timedelta(minutes=20) <= time_of(row) <= begin
        }
        assert set(incident.processes) <= running


def test_silent_host_has_no_rows_during_its_silence() -> None:
    name, silent_from, silent_to = SILENCE
    start = END - SPAN
    for rows in sample_rows(END).values():
        silent = [
            r
            for r in rows
            if r["host"] == name and start + silent_from <= time_of(r) < start + silent_to
        ]
        assert silent == []
