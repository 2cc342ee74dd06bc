"""`moirae similarity run`: files of alerts in, CSV out."""

import gzip
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path

import orjson
import pytest
from typer.testing import CliRunner

from moirae.cli import app
from moirae.errors import MoiraeError, UsageError
from recall.relevance.rankers.ready_contexts import rank_similar
from recall.similarity.measures import MEASURES
from tests.unit.recall.contexts import E1, E2, E3, make_alerts

TFIDF, BINARY = MEASURES["tfidf"], MEASURES["binary"]
NO_GAP = timedelta(0)
ALERTS = [
    {"event_id": "e1", "event_type": "t", "ts": "2024-05-01T01:00:00Z", "host": "h", "facts": E1},
    {"event_id": "e2", "event_type": "t", "ts": "2024-05-01T02:00:00Z", "host": "h", "facts": E2},
    {"event_id": "e3", "event_type": "t", "ts": "2024-05-01T03:00:00Z", "host": "h", "facts": E3},
]


def _write_lines(path: Path, rows: Iterable[object]) -> Path:
    data = b"".join(orjson.dumps(row) + b"\n" for row in rows)
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def _run(*arguments: object) -> str:
    command = ["similarity", "run", *map(str, arguments)]
    result = CliRunner().invoke(app, command, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def _first_columns(output: str) -> list[list[str]]:
    """Query, rank and event of each row."""
    return [line.split(",")[:3] for line in output.splitlines()[1:]]


@pytest.mark.parametrize("name", ["alerts.jsonl", "alerts.jsonl.gz"])
def test_rows_have_scores_in_full_precision(tmp_path: Path, name: str) -> None:
    events = _write_lines(tmp_path / name, ALERTS)
    header, *rows = _run("--events", events, "--leave-one-out", "--k", 1).splitlines()
    assert header == "query,rank,event,score"
    expected = rank_similar(make_alerts(E1, E2, E3), NO_GAP, 1, TFIDF, leave_one_out=True)
    assert rows == [f"{query},{rank},{past},{score!r}" for query, rank, past, score in expected]


def test_gap_and_measure_are_applied_and_rows_go_to_the_file(tmp_path: Path) -> None:
    events, out = _write_lines(tmp_path / "a.jsonl", ALERTS), tmp_path / "run.csv"
    options = ["--events", events, "--measure", "binary", "--out", out]
    assert _run(*options, "--gap", "1h") == ""
    [(_, _, _, e2_score)] = rank_similar(make_alerts(E2, E3), NO_GAP, 1, BINARY)
    [(_, _, _, e1_score)] = rank_similar(make_alerts(E1, E3), NO_GAP, 1, BINARY)
    assert out.read_text().splitlines()[1:] == [f"e3,1,e2,{e2_score!r}", f"e3,2,e1,{e1_score!r}"]
    _run(*options, "--gap", "61m")
    assert _first_columns(out.read_text()) == [["e3", "1", "e1"]]


def test_events_of_one_group_are_not_compared(tmp_path: Path) -> None:
    events = _write_lines(tmp_path / "a.jsonl", ALERTS)
    groups = tmp_path / "groups.csv"
    groups.write_text("event_id,label,group\ne1,x,\ne2,x,g\ne3,y,g\n")
    options = ["--leave-one-out", "--measure", "binary", "--groups", groups]
    output = _run("--events", events, *options)
    assert _first_columns(output) == [["e1", "1", "e3"], ["e3", "1", "e1"]]


def test_wrong_options_are_usage_errors(tmp_path: Path) -> None:
    events = _write_lines(tmp_path / "a.jsonl", ALERTS)
    message = "unknown measure 'jaccard': must be one of attributes, binary, learned, tfidf"
    with pytest.raises(UsageError, match=message):
        _run("--events", events, "--measure", "jaccard")
    with pytest.raises(UsageError, match="--gap: '6' is not a duration"):
        _run("--events", events, "--gap", "6")


def test_unwritable_output_is_an_error(tmp_path: Path) -> None:
    events = _write_lines(tmp_path / "a.jsonl", ALERTS)
    with pytest.raises(MoiraeError, match="No such file"):
        _run("--events", events, "--out", tmp_path / "none" / "run.csv")


@pytest.mark.slow
def test_learned_measure_uses_tags_from_the_time_on_when_they_are_known(tmp_path: Path) -> None:
    """Hosts tell nothing, messages tell the tag: a past event with it comes first."""
    rows = []
    tags = ["event_id,tag,known_at"]
    for number in range(60):
        kind = ("disk", "cpu", "net")[number * 5 % 7 % 3]
        facts = {f"msg={kind}{number % 3}": 1, f"host=n{number % 4}": 1, f"a=x{number % 5}": 1}
        ts = f"2024-05-{number // 4 + 1:02}T{number % 4 * 6:02}:00:00Z"
        rows.append({"event_id": f"e{number}", "event_type": "t", "ts": ts, "facts": facts})
        tags.append(f"e{number},{kind},{ts}")
    events, resolutions = _write_lines(tmp_path / "a.jsonl", rows), tmp_path / "tags.csv"
    resolutions.write_text("\n".join(tags) + "\n")
    options = ["--events", events, "--measure", "learned", "--resolutions", resolutions]
    answers = _first_columns(_run(*options, "--gap", "1h", "--k", 3))
    last = [event for query, _, event in answers if query == "e59"]
    kinds = dict(line.split(",")[:2] for line in tags[1:])
    assert [kinds[event] for event in last] == [kinds["e59"]] * 3
    assert len(_first_columns(_run(*options, "--leave-one-out", "--k", 3))) == 180


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("event_id,tag\ne1,x\n", "missing column: known_at"),
        ("event_id,tag,known_at\ne1,x,yesterday\n", ":2: known_at: invalid timestamp 'yesterday'"),
        ("event_id,tag,known_at\ne9,x,2024-05-01T01:00:00Z\n", "'e9' is not an event of"),
    ],
)
def test_error_in_resolutions_is_reported(tmp_path: Path, lines: str, message: str) -> None:
    events, resolutions = _write_lines(tmp_path / "a.jsonl", ALERTS), tmp_path / "tags.csv"
    resolutions.write_text(lines)
    with pytest.raises(MoiraeError, match=message):
        _run("--events", events, "--measure", "learned", "--resolutions", resolutions)


def test_learned_measure_and_resolutions_require_each_other(tmp_path: Path) -> None:
    events = _write_lines(tmp_path / "a.jsonl", ALERTS)
    with pytest.raises(UsageError, match="require each other"):
        _run("--events", events, "--measure", "learned")
