"""`moirae similarity eval` of files."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from moirae.cli import app
from moirae.errors import MoiraeError


def _write(folder: Path, name: str, lines: list[str]) -> Path:
    path = folder / name
    path.write_text("\n".join(lines) + "\n")
    return path


def _write_events(folder: Path, count: int) -> Path:
    lines = []
    for number in range(count):
        event = {
            "event_id": f"e{number}",
            "event_type": "t",
            "ts": f"2024-05-{number // 24 + 1:02}T{number % 24:02}:00:00Z",
            "facts": {f"kind={number % 3}": 1, f"host=h{number % 5}": 1},
        }
        lines.append(json.dumps(event))
    return _write(folder, "events.jsonl", lines)


def _evaluate(*options: object) -> tuple[int, dict[str, Any], str]:
    result = CliRunner().invoke(app, ["similarity", "eval", *map(str, options), "-o", "json"])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, json.loads(result.stdout)[0], result.stderr


@pytest.mark.slow
def test_thirty_labels_are_evaluated_for_every_measure(tmp_path: Path) -> None:
    events = _write_events(tmp_path, 30)
    labels = _write(
        tmp_path, "l.csv", ["event_id,label", *(f"e{number},{number % 3}" for number in range(30))]
    )
    code, report, _ = _evaluate("--events", events, "--labels", labels, "--measure", "learned")
    assert code == 0 and report["measure"] == "learned"
    assert report["rankers"].keys() == {
        "tfidf", "binary", "attributes", "learned", "frequencies", "bm25", "recency",
        "same place", "chance",
    }  # fmt: skip
    assert report["forecasts"]["queries"] >= 15
    assert report["queries"] == report["episodes"] == 27
    assert report["ceilings"]["p1"] == 1 and 0.4 < report["ceilings"]["p10"] < 0.6
    assert report["warnings"] == []


def test_unknown_ids_are_named_and_counted(tmp_path: Path) -> None:
    events = _write_events(tmp_path, 8)
    labels = _write(tmp_path, "l.csv", ["event_id,label", "e0,x", "e1,x", "x1,x", "x2,y"])
    code, report, errors = _evaluate("--events", events, "--labels", labels)
    assert code == 3 and report["queries"] == 1
    assert "2 of 4 IDs are of no event of" in errors and "'x1', 'x2'" in errors
    judgements = _write(tmp_path, "j.csv", ["query,relevant_events", "e3,e0:1 z9:2"])
    code, report, errors = _evaluate("--events", events, "--judgements", judgements)
    assert code == 3 and report["queries"] == 1
    assert "1 of 3 IDs are of no event of" in errors and "'z9'" in errors


@pytest.mark.parametrize(
    ("option", "lines"),
    [
        ("--labels", ["event_id,label", "x1,x", "x2,x"]),
        ("--judgements", ["query,relevant_events", "x3,x0:1"]),
    ],
)
def test_labels_without_a_known_id_are_refused(
    tmp_path: Path, option: str, lines: list[str]
) -> None:
    events, file = _write_events(tmp_path, 4), _write(tmp_path, "f.csv", lines)
    with pytest.raises(MoiraeError, match="no ID is that of an event of"):
        _evaluate("--events", events, option, file)


@pytest.mark.parametrize(
    ("option", "lines", "message"),
    [
        ("--labels", ["event_id,label"], "f.csv: no event has a label"),
        ("--labels", ["event_id,label", "e0,", "e1"], "f.csv: no event has a label"),
        ("--labels", ["event_id,label", "e0,a", "e1,a", "e0,b"], "f.csv:4: event 'e0' has label"),
        ("--judgements", ["query,relevant_events", "e3,"], "no query has a relevant event"),
    ],
)
def test_files_without_labels_or_with_two_of_an_event_are_refused(
    tmp_path: Path, option: str, lines: list[str], message: str
) -> None:
    events, file = _write_events(tmp_path, 4), _write(tmp_path, "f.csv", lines)
    with pytest.raises(MoiraeError, match=message):
        _evaluate("--events", events, option, file)


def test_judged_events_that_are_not_compared_are_named_and_do_not_count(tmp_path: Path) -> None:
    events = _write_events(tmp_path, 8)
    judgements = _write(
        tmp_path, "j.csv", ["query,relevant_events", "e3,e0:1 e3:1 e5:2", "e4,e6:1"]
    )
    code, report, errors = _evaluate("--events", events, "--judgements", judgements)
    assert code == 3 and report["queries"] == 1
    assert "3 judged pairs are left out" in errors
    assert "'e3 e3', 'e3 e5', 'e4 e6'" in errors
    assert report["ceilings"]["p10"] == pytest.approx(0.1)
