"""Requests of remote write 1.0 and 2.0."""

import math
import struct
import tracemalloc
from typing import Any

import orjson
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moirae.config.matchers import parse_matchers
from moirae.errors import RequestRejected
from moirae.server.protocols.pushed_rows import PushedRows
from moirae.server.protocols.remote_write import (
    SeriesReader,
    count_invalid,
    decompress_block,
)
from moirae.server.protocols.write_messages import load_messages, load_messages_2

_STALE = struct.unpack(">d", bytes.fromhex("7ff0000000000002"))[0]
_LIMIT = 1 << 20


def _make_series(
    labels: list[tuple[str, str]], samples: list[tuple[float, int]], **other: Any
) -> bytes:
    series = load_messages().series(**other)
    for name, value in labels:
        series.labels.add(name=name, value=value)
    for sample_value, timestamp in samples:
        series.samples.add(value=sample_value, timestamp=timestamp)
    content: bytes = series.SerializeToString()
    return content


def _read(*series: bytes, **matches: list[str]) -> PushedRows:
    selectors = {name: tuple(map(parse_matchers, texts)) for name, texts in matches.items()}
    request = load_messages().request(timeseries=series)
    return SeriesReader(selectors).read(request.SerializeToString())


def _rows(written: PushedRows, stream: str = "all") -> list[dict[str, Any]]:
    return list(map(orjson.loads, written.lines.get(stream, [])))


UP = [("__name__", "up"), ("instance", "a")]


def test_sample_becomes_a_row() -> None:
    written = _read(_make_series(UP, [(1.5, 1_767_225_600_123), (-0.0, 0)]), all=[])
    assert _rows(written) == [
        {"metric": "up", "instance": "a", "value": 1.5, "ts": "2026-01-01T00:00:00.123Z"},
        {"metric": "up", "instance": "a", "value": -0.0, "ts": "1970-01-01T00:00:00.000Z"},
    ]
    assert not written.skipped


@pytest.mark.parametrize("value", [1e308, 5e-324, 0.1, 123456789012345678.0, 2.0])
def test_value_is_exact(value: float) -> None:
    (row,) = _rows(_read(_make_series(UP, [(value, 0)]), all=[]))
    assert row["value"] == value


def test_infinite_value_is_a_text() -> None:
    samples = [(math.inf, 0), (-math.inf, 1)]
    rows = _rows(_read(_make_series(UP, samples), all=[]))
    assert [row["value"] for row in rows] == ["Infinity", "-Infinity"]


def test_stale_markers_and_nan_are_counted() -> None:
    written = _read(_make_series(UP, [(_STALE, 0), (math.nan, 1), (1, 2)]), all=[])
    assert len(_rows(written)) == 1
    assert written.skipped == {("all", "stale markers"): 1, ("all", "nan"): 1}


def test_histograms_and_exemplars_are_counted_and_samples_are_not_lost() -> None:
    series = _make_series(UP, [(1, 0)], histograms=[b"", b"x"], exemplars=[b""])
    written = _read(series, all=[])
    assert len(_rows(written)) == 1
    assert written.skipped == {("all", "histograms"): 2, ("all", "exemplars"): 1}


def test_streams_take_what_their_selectors_match() -> None:
    down, other = (
        [("__name__", name), ("instance", instance)]
        for name, instance in (("down", "a"), ("x", "b"))
    )
    series = [_make_series(labels, [(1, 0)]) for labels in (UP, down, other)]
    written = _read(*series, up=['{__name__="up"}'], a=['{instance="a"}', '{zone="x"}'])
    assert [row["metric"] for row in _rows(written, "up")] == ["up"]
    assert [row["metric"] for row in _rows(written, "a")] == ["up", "down"]
    assert written.skipped == {("", "unmatched"): 1}


def test_labels_named_like_fields_get_a_prefix() -> None:
    labels = [("__name__", "up"), ("metric", "m"), ("ts", "t"), ("value", "v")]
    (row,) = _rows(_read(_make_series(labels, [(1, 0)]), all=[]))
    assert (row["label_metric"], row["label_ts"], row["label_value"]) == ("m", "t", "v")
    assert (row["metric"], row["value"]) == ("up", 1)


@pytest.mark.parametrize(
    "series",
    [
        b"\xff\xff",
        b"\x0a\x04\x0a\x02\xff\xfe",
        _make_series([], [(1, 0)]),
        _make_series([("", "x")], [(1, 0)]),
        _make_series([("a", "1"), ("a", "2")], [(1, 0)]),
        _make_series([(f"l{number}", "x") for number in range(201)], [(1, 0)]),
        _make_series([("a", "x" * (1 << 20))], [(1, 0)]),
    ],
)
def test_invalid_series_is_refused_and_others_are_not(series: bytes) -> None:
    written = _read(_make_series(UP, [(1, 0)]), series, all=[])
    assert len(_rows(written)) == 1
    assert written.skipped == {("", "invalid series"): 1}


@pytest.mark.parametrize("timestamp", [-(1 << 63), (1 << 63) - 1, 253_402_300_800_000])
def test_time_out_of_range_is_counted(timestamp: int) -> None:
    written = _read(_make_series(UP, [(1, timestamp)]), all=[])
    assert written.skipped == {("all", "invalid times"): 1}


def test_many_series_are_refused() -> None:
    with pytest.raises(RequestRejected) as rejected:
        _read(*[b""] * 50_001, all=[])
    assert rejected.value.status == 413


def test_content_that_is_no_request_is_refused() -> None:
    reader = SeriesReader({"all": ()})
    for content in (b"\x0a\xff", b"\x0a\x05abc", b"\x07"):
        with pytest.raises(RequestRejected) as rejected:
            reader.read(content)
        assert rejected.value.status == 400


def test_snappy_block_is_decompressed() -> None:
    for content in (b"", b"x", b"abc" * 10_000):
        block = pa.Codec("snappy").compress(content, asbytes=True)
        assert decompress_block(block, _LIMIT) == content


@pytest.mark.parametrize(
    ("block", "status"),
    [
        (b"", 400),
        (b"\xff" * 10, 400),
        (b"\x80\x80\x80", 400),
        (b"\x05abc", 400),
        (b"\xff\xff\xff\xff\x0f", 413),  # a bomb: 4 GiB announced
        (b"\x81\x80\x40", 413),
        (b"\x90\x4e" + b"\x00" * 5, 400),  # 10,000 bytes announced
    ],
)
def test_damaged_block_and_bomb_are_refused(block: bytes, status: int) -> None:
    with pytest.raises(RequestRejected) as rejected:
        decompress_block(block, _LIMIT)
    assert rejected.value.status == status


def test_truncated_block_is_refused() -> None:
    block = pa.Codec("snappy").compress(bytes(range(256)) * 50, asbytes=True)
    for length in range(0, len(block), 97):
        with pytest.raises(RequestRejected):
            decompress_block(block[:length], _LIMIT)


def _make_request_2(
    series: list[tuple[list[tuple[str, str]], list[tuple[float, int]]]],
    symbols: list[bytes] | None = None,
    **other: Any,
) -> bytes:
    """A request of version 2.0. `symbols`: instead of those of the labels."""
    texts = [b""]
    request = load_messages_2().request()
    for labels, samples in series:
        message = load_messages_2().series(**other)
        for text in (text for label in labels for text in label):
            if text.encode() not in texts:
                texts.append(text.encode())
            message.labels_refs.append(texts.index(text.encode()))
        for value, timestamp in samples:
            message.samples.add(value=value, timestamp=timestamp)
        request.timeseries.append(message.SerializeToString())
    request.symbols.extend(texts if symbols is None else symbols)
    content: bytes = request.SerializeToString()
    return content


def _read_2(content: bytes) -> PushedRows:
    return SeriesReader({"all": ()}).read(content, is_version_2=True)


def test_versions_bring_equal_rows() -> None:
    labels = [("__name__", "up"), ("instance", "a"), ("metric", "ü")]
    samples = [(1.5, 1_767_225_600_123), (_STALE, 1), (math.inf, 2)]
    first, second = (
        _read(_make_series(labels, samples), all=[]),
        _read_2(_make_request_2([(labels, samples)])),
    )
    assert first == second
    assert (second.taken, len(second.lines["all"])) == (3, 2)


def test_histograms_and_exemplars_of_version_2_are_counted() -> None:
    pushed = _read_2(_make_request_2([(UP, [(1, 0)])], histograms=[b"x"], exemplars=[b"", b""]))
    assert pushed.skipped == {("all", "histograms"): 1, ("all", "exemplars"): 2}
    assert pushed.taken == 1


@pytest.mark.parametrize(
    "symbols",
    [[], [b""], [b"", b"__name__", b"\xff"], [b"", b"up", b"__name__"]],
)
def test_series_with_wrong_symbols_is_refused(symbols: list[bytes]) -> None:
    pushed = _read_2(_make_request_2([(UP, [(1, 0)])], symbols=symbols))
    assert pushed.skipped == {("", "invalid series"): 1}


def test_label_without_a_value_is_refused() -> None:
    series = load_messages_2().series(labels_refs=[0])
    request = load_messages_2().request(symbols=[b"x"], timeseries=[series.SerializeToString()])
    pushed = _read_2(request.SerializeToString())
    assert pushed.skipped == {("", "invalid series"): 1}


def test_many_symbols_are_refused() -> None:
    with pytest.raises(RequestRejected) as rejected:
        _read_2(_make_request_2([], symbols=[b""] * 500_001))
    assert rejected.value.status == 413


def test_unmatched_samples_are_not_taken() -> None:
    pushed = SeriesReader({"up": (parse_matchers('{x="y"}'),)}).read(
        _make_request_2([(UP, [(1, 0)])]), is_version_2=True
    )
    assert (pushed.taken, pushed.skipped) == (0, {("", "unmatched"): 1})


_SAMPLES = st.tuples(
    st.floats(width=64) | st.just(0.0),
    st.integers(0, 1 << 50) | st.integers(1_700_000_000_000, 1_800_000_000_000),
)
_NAMES = st.sampled_from(["a", "b", "__name__", "metric", "x" * 90, "\x12\x07\x10"])
_CONTENTS = st.builds(
    lambda labels, samples: _make_series(list(labels.items()), samples),
    st.dictionaries(_NAMES, st.text(max_size=8)),
    st.lists(_SAMPLES, max_size=2),
)


@given(st.lists(_CONTENTS | st.binary(max_size=40), max_size=12))
def test_series_that_are_known_by_their_bytes_bring_equal_rows(contents: list[bytes]) -> None:
    """The same series, and others with its bytes at their begin, come again and again."""
    contents = [*contents, *contents, *(content[:-1] for content in contents)]
    request = load_messages().request(timeseries=contents).SerializeToString()
    reader = SeriesReader({"all": ()})
    first, second = reader.read(request), reader.read(request)
    singly = PushedRows()
    for content in contents:
        one = load_messages().request(timeseries=[content]).SerializeToString()
        pushed = SeriesReader({"all": ()}).read(one)  # nothing is known to it
        singly.skipped += pushed.skipped
        singly.taken += pushed.taken
        for stream, lines in pushed.lines.items():
            singly.lines.setdefault(stream, []).extend(lines)
    assert first == second == singly


def test_large_series_are_not_remembered() -> None:
    reader = SeriesReader({"all": ()})
    for number in range(50):
        series = _make_series([("a", f"{number}" * 100_000)], [(1, 1_767_225_600_123)])
        reader.read(load_messages().request(timeseries=[series]).SerializeToString())
    remembered = reader._rows._series, reader._rows._series_by_content
    assert not any(remembered)


@pytest.mark.parametrize("metric", ["other", "up"])
def test_large_label_of_many_samples_takes_little_memory(metric: str) -> None:
    """It is in each row: a request of 1 MiB could have rows of 15 GB."""
    labels = [("__name__", "up"), ("x", "x" * 500_000)]
    content = _make_series(labels, [(1.5, number) for number in range(30_000)])
    tracemalloc.start()
    selector = f'__name__="{metric}"'
    if metric == "up":
        with pytest.raises(RequestRejected, match="rows of the request are too large"):
            _read(content, one=[selector])
    else:
        assert _read(content, one=[selector]).skipped == {("", "unmatched"): 30_000}
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 150 << 20


@pytest.mark.slow
def test_symbol_that_a_series_repeats_takes_little_memory() -> None:
    """A label of 2.0 is a number: a request of 8 MiB could have labels without end."""
    messages = load_messages_2()
    series = messages.series(labels_refs=[0, 1] * 200).SerializeToString()
    request = messages.request(symbols=[b"a", b"x" * (8 << 20)], timeseries=[series] * 20_000)
    content = request.SerializeToString()
    tracemalloc.start()
    skipped = SeriesReader({"all": ()}).read(content, is_version_2=True).skipped
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert skipped == {("", "invalid series"): 20_000}
    assert peak < 150 << 20


def test_symbol_that_all_series_share_takes_little_memory() -> None:
    messages = load_messages_2()
    series = messages.series(labels_refs=[0, 1]).SerializeToString()
    request = messages.request(symbols=[b"a", b"x" * 60_000], timeseries=[series] * 20_000)
    with pytest.raises(RequestRejected, match="rows of the request are too large"):
        SeriesReader({"all": ()}).read(request.SerializeToString(), is_version_2=True)


@pytest.mark.parametrize("labels", [[], [("a", "b")], [("__name__", ""), ("a", "b")]])
def test_series_without_the_name_of_a_metric_is_invalid(labels: list[tuple[str, str]]) -> None:
    pushed = _read(_make_series(labels, [(1, 1)]), _make_series(UP, [(1, 1), (1, -1)]), all=[])
    assert len(_rows(pushed)) == 1
    assert pushed.skipped == {("", "invalid series"): 1, ("all", "invalid times"): 1}
    assert count_invalid(pushed) == 2


def test_valid_data_without_a_place_is_not_invalid() -> None:
    pushed = _read(_make_series(UP, [(_STALE, 1)], exemplars=[b""], histograms=[b""]), all=[])
    assert pushed.skipped.total() == 3
    assert count_invalid(pushed) == 0
