"""Samples of the past become the rows that remote write would have brought."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest

from moirae.config import Settings
from moirae.errors import MoiraeError, TooManySamples, UsageError
from moirae.imports.prometheus import ImportProgress, PrometheusImport, find_targets
from moirae.imports.prometheus_api import StoredSeries
from moirae.runtime.storage.landing_folder import LandingFolder
from moirae.server.protocols.remote_write import SeriesReader
from moirae.server.protocols.write_messages import load_messages
from tests.unit.moirae.config.workspace_files import STREAM, load

_WORKSPACE = """
home: home
streams:
  node:
    columns: {ts: timestamp, metric: string, value: double, instance: string}
    time: ts
    source: {remote_write: true, match: ['up', '{job="b"}']}
"""
_HOUR = 3_600_000


class _Source:
    """A Prometheus with a sample each minute. `limit`: of samples that an answer may have."""

    url = "http://prometheus"

    def __init__(self, minutes: int, limit: int = 1_000_000) -> None:
        self._times = [minute * 60_000 for minute in range(1, minutes + 1)]
        self._limit = limit
        self.asked: list[tuple[str, int, int]] = []

    def read_samples(self, selector: str, start: int, end: int) -> list[StoredSeries]:
        self.asked.append((selector, start, end))
        times = [moment for moment in self._times if start < moment <= end]
        if len(times) > self._limit:
            raise TooManySamples("too many samples")
        labels = (("__name__", "up"), ("instance", "a"))
        return [StoredSeries(labels, [(moment / 7, moment) for moment in times], 1)]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return load(tmp_path, _WORKSPACE)


def _import(
    settings: Settings, source: Any, start: int = 0, end: int = 5 * _HOUR, **labels: str
) -> list[ImportProgress]:
    importing = PrometheusImport(settings, find_targets(settings, ["up"]), source, labels)
    covered = importing.find_covered(start)
    return list(importing.run(covered, end, lambda: False))


def _landed(settings: Settings) -> list[dict[str, Any]]:
    batches = LandingFolder(Path(settings.home), "node").pending_batches()
    return [
        orjson.loads(line) for batch in batches for line in batch.path.read_bytes().splitlines()
    ]


def test_each_sample_is_a_row_in_the_order_of_time(settings: Settings) -> None:
    (*_, last) = _import(settings, _Source(300))
    rows = _landed(settings)
    assert len(rows) == last.rows["node"] == 300
    assert [row["ts"] for row in rows] == sorted(row["ts"] for row in rows)
    assert last.reached == 5 * _HOUR
    assert last.skipped["histograms"] > 0


def test_rows_are_those_of_remote_write(settings: Settings) -> None:
    _import(settings, _Source(1), cluster="x", instance="other")
    series = load_messages().series()
    for name, value in (("__name__", "up"), ("cluster", "x"), ("instance", "a")):
        series.labels.add(name=name, value=value)
    series.samples.add(value=60_000 / 7, timestamp=60_000)
    request = load_messages().request(timeseries=[series.SerializeToString()])
    sent = SeriesReader({"node": ()}).read(request.SerializeToString())
    assert _landed(settings) == list(map(orjson.loads, sent.lines["node"]))


def test_import_goes_on_where_it_was(settings: Settings) -> None:
    class _Failing(_Source):
        def read_samples(self, selector: str, start: int, end: int) -> list[StoredSeries]:
            if len(self.asked) == 2:
                raise MoiraeError("gone")
            return super().read_samples(selector, start, end)

    failing = _Failing(300)
    with pytest.raises(MoiraeError, match="gone"):
        _import(settings, failing)
    reached = failing.asked[-1][2]
    source = _Source(300)
    _import(settings, source, start=1_000)  # as `--from 30d` a second later
    assert source.asked[0][1] == reached
    assert len(_landed(settings)) == 300
    assert _import(settings, _Source(300)) == []
    earlier = _Source(300)
    _import(settings, earlier, start=0, end=6 * _HOUR)
    assert earlier.asked[0][1:] == (5 * _HOUR, 6 * _HOUR)


def test_earlier_begin_reads_again_and_adds_no_batch(settings: Settings) -> None:
    _import(settings, _Source(300), start=_HOUR)
    source = _Source(300)
    _import(settings, source)
    assert source.asked[0][1] == 0


def test_window_with_too_many_samples_is_divided(settings: Settings) -> None:
    source = _Source(300, limit=7)
    _import(settings, source)
    assert len(_landed(settings)) == 300


def test_endless_answer_is_an_error(settings: Settings) -> None:
    with pytest.raises(MoiraeError, match="too much for one query"):
        _import(settings, _Source(300, limit=-1))


def test_full_landing_folder_without_a_live_process_ends_the_import(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("moirae.imports.prometheus._MAX_PENDING_BYTES", 100)
    with pytest.raises(MoiraeError, match="wait to be archived"):
        _import(settings, _Source(300))
    assert 0 < len(_landed(settings)) < 300


def test_damaged_progress_is_said(settings: Settings) -> None:
    _import(settings, _Source(1))
    (file,) = (Path(settings.home) / "imports").iterdir()
    file.write_text("{")
    with pytest.raises(MoiraeError, match="damaged"):
        _import(settings, _Source(1))


@pytest.mark.parametrize(
    ("selectors", "asked"),
    [((), ['{__name__="up"}', '{job="b"}']), (["x"], ["x"])],
)
def test_streams_say_what_is_read(
    settings: Settings, selectors: Sequence[str], asked: list[str]
) -> None:
    assert find_targets(settings, selectors).selectors == asked


def test_workspace_must_say_what_it_takes(tmp_path: Path) -> None:
    takes_all = load(tmp_path, _WORKSPACE.replace(", match: ['up', '{job=\"b\"}']", ""))
    with pytest.raises(UsageError, match="--match"):
        find_targets(takes_all, ())
    takes_none = load(tmp_path, STREAM)
    with pytest.raises(UsageError, match="no stream takes samples"):
        find_targets(takes_none, ())
