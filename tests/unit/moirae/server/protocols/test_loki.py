"""Requests of Loki's push protocol."""

import tracemalloc
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moirae.config.matchers import parse_matchers
from moirae.errors import RequestRejected
from moirae.server.protocols.loki import LokiReader, _load_messages, _parse_labels
from moirae.server.protocols.pushed_rows import PushedRows

_NANOSECONDS = 1_767_225_600_123_456_789


def _write_json(*values: list[Any], **labels: Any) -> bytes:
    return orjson.dumps({"streams": [{"stream": labels, "values": values}]})


def _write(labels: str, *lines: str, seconds: int = 1_767_225_600) -> bytes:
    messages, _ = _load_messages()
    entries = []
    for line in lines:
        entry = messages["Entry"](line=line)
        entry.timestamp.seconds, entry.timestamp.nanos = seconds, 123_456_789
        entry.metadata.add(name="trace", value="t1")
        entries.append(entry.SerializeToString())
    stream = messages["Stream"](labels=labels, entries=entries).SerializeToString()
    content: bytes = messages["PushRequest"](streams=[stream]).SerializeToString()
    return content


def _read(content: bytes, *, is_json: bool = False, **matches: list[str]) -> PushedRows:
    selectors = {name: tuple(map(parse_matchers, texts)) for name, texts in matches.items()}
    return LokiReader(selectors or {"all": ()}).read(content, is_json)


def _rows(pushed: PushedRows, stream: str = "all") -> list[dict[str, Any]]:
    return list(map(orjson.loads, pushed.lines.get(stream, [])))


def test_entry_becomes_a_row_in_both_forms() -> None:
    expected = {
        "app": "shop",
        "metadata.trace": "t1",
        "ts": "2026-01-01T00:00:00.123456Z",
        "line": "no disk",
    }
    assert _rows(_read(_write('{app="shop"}', "no disk"))) == [expected]
    entry = [str(_NANOSECONDS), "no disk", {"trace": "t1"}]
    assert _rows(_read(_write_json(entry, app="shop"), is_json=True)) == [expected]


def test_streams_take_what_their_selectors_match() -> None:
    pushed = _read(
        _write('{app="shop", env="x"}', "a", "b"), shop=['{app="shop"}'], no=['{app="y"}']
    )
    assert [row["line"] for row in _rows(pushed, "shop")] == ["a", "b"]
    assert not pushed.lines.get("no") and not pushed.skipped
    assert _read(_write('{app="z"}', "a"), no=['{app="y"}']).skipped == {("", "unmatched"): 1}


def test_labels_named_like_fields_get_a_prefix() -> None:
    (row,) = _rows(_read(_write_json([str(_NANOSECONDS), "x"], ts="a", line="b"), is_json=True))
    assert (row["label_ts"], row["label_line"], row["line"]) == ("a", "b", "x")


@given(st.dictionaries(st.from_regex(r"[a-z_]{1,9}", fullmatch=True), st.text(), max_size=5))
def test_labels_are_read_as_they_are_written(labels: dict[str, str]) -> None:
    # JSON's escapes are those of Go, but for what is beyond 16 bits.
    text = ", ".join(f"{name}={orjson.dumps(value).decode()}" for name, value in labels.items())
    assert _parse_labels("{" + text.replace("\x7f", "\\x7f") + "}") == labels


@pytest.mark.parametrize(
    "labels",
    ["", "{}", "{a}", '{a="}', '{a="x"', '{a="x" b="y"}', '{a="x",a="y"}', '{a="\\ud800"}'],
)
def test_entries_with_invalid_labels_are_counted(labels: str) -> None:
    assert _read(_write(labels, "a", "b")).skipped == {("", "invalid labels"): 2}


@pytest.mark.parametrize(
    "value", [[], ["1"], ["x", "a"], [1, "a"], ["1", 2], ["1", "a", {"b": 1}], "x", ["-1", "a"]]
)
def test_invalid_entry_is_counted_and_others_are_stored(value: Any) -> None:
    content = _write_json(value, [str(_NANOSECONDS), "a"], app="x")
    pushed = _read(content, is_json=True)
    assert [row["line"] for row in _rows(pushed)] == ["a"]
    assert pushed.skipped.total() == 1


@pytest.mark.parametrize("seconds", [-1, 1 << 40])
def test_time_out_of_range_is_counted(seconds: int) -> None:
    assert _read(_write('{a="x"}', "a", seconds=seconds)).skipped == {("", "invalid times"): 1}


@pytest.mark.parametrize(
    ("content", "is_json"),
    [
        (b"\xff", False),
        (b"\x0a\x02\xff\xff", False),
        (b"{", True),
        (b"[]", True),
        (b'{"streams": [1]}', True),
        (b'{"streams": [{"stream": [], "values": []}]}', True),
    ],
)
def test_content_that_is_no_request_is_refused(content: bytes, is_json: bool) -> None:
    with pytest.raises(RequestRejected) as rejected:
        _read(content, is_json=is_json)
    assert rejected.value.status == 400


def test_many_entries_are_refused() -> None:
    messages, _ = _load_messages()
    stream = messages["Stream"](labels='{a="x"}', entries=[b""] * 100_000).SerializeToString()
    with pytest.raises(RequestRejected) as rejected:
        _read(messages["PushRequest"](streams=[stream]).SerializeToString())
    assert rejected.value.status == 413


@pytest.mark.parametrize("is_json", [True, False])
def test_labels_of_many_entries_take_little_memory(is_json: bool) -> None:
    """They are in each row: a request of 2 MiB could have rows of 1.2 GB."""
    value = "x" * 16_000
    if is_json:
        content = _write_json(*[[str(_NANOSECONDS), "a"]] * 80_000, app=value)
    else:
        content = _write(f'{{app="{value}"}}', *["a"] * 80_000)
    tracemalloc.start()
    with pytest.raises(RequestRejected, match="rows of the request are too large"):
        _read(content, is_json=is_json)
    assert _read(content, is_json=is_json, one=['{app="a"}']).skipped == {("", "unmatched"): 80_000}
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 150 << 20


def test_labels_that_are_too_large_are_refused_in_both_forms() -> None:
    value = "x" * (17 << 10)
    for content, is_json in (
        (_write_json([str(_NANOSECONDS), "a"], app=value), True),
        (_write(f'{{app="{value}"}}', "a"), False),
    ):
        assert _read(content, is_json=is_json).skipped == {("", "invalid labels"): 1}


def test_label_does_not_take_the_field_of_metadata() -> None:
    values = [str(_NANOSECONDS), "a", {"trace": "t"}]
    (row,) = _rows(_read(_write_json(values, **{"metadata.trace": "x"}), is_json=True))
    assert (row["metadata.trace"], row["label_metadata.trace"]) == ("t", "x")
