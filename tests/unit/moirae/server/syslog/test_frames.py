"""Messages of a connection, by their length or by line, whatever pieces they come in."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moirae.server.syslog.frames import FrameReader, clean

_MESSAGES = st.lists(
    st.binary(min_size=1, max_size=30).map(lambda text: b"<13>" + text), max_size=8
)


def _feed(data: bytes, cuts: list[int], limit: int = 1_000) -> tuple[list[bytes], FrameReader]:
    frames, messages, start = FrameReader(limit), list[bytes](), 0
    for end in [*sorted(cut % (len(data) + 1) for cut in cuts), len(data)]:
        messages += frames.feed(data[start:end])
        start = end
    return [*messages, *frames.finish()], frames


@given(_MESSAGES, st.lists(st.integers(0, 10_000), max_size=6))
def test_counted_messages_are_those_that_were_sent(messages: list[bytes], cuts: list[int]) -> None:
    data = b"".join(b"%d %b" % (len(message), message) for message in messages)
    received, frames = _feed(data, cuts)
    assert received == list(map(clean, messages))
    assert frames.too_long == 0


@given(_MESSAGES, st.lists(st.integers(0, 10_000), max_size=6), st.booleans())
def test_lines_are_those_that_were_sent(messages: list[bytes], cuts: list[int], ends: bool) -> None:
    lines = [message.replace(b"\n", b" ") for message in messages]
    data = b"\n".join(lines) + (b"\n" if ends else b"")
    received, _ = _feed(data, cuts)
    assert received == [line for line in map(clean, lines) if line]


@given(st.binary(max_size=200), st.lists(st.integers(0, 10_000), max_size=6))
def test_any_bytes_give_lines_of_a_file(data: bytes, cuts: list[int]) -> None:
    received, _ = _feed(data, cuts, limit=20)
    for message in received:
        assert message and not {*b"\n\r\0"} & {*message}


@pytest.mark.parametrize("size", [21, 5_000])
def test_long_messages_are_left_out_and_counted(size: int) -> None:
    for data in (
        b"%d %b3 abc" % (size, b"x" * size),
        b"<1>" + b"x" * size + b"\n<1>b\n",
    ):
        for cuts in ([], [7, 30, 100]):
            received, frames = _feed(data, cuts, limit=20)
            assert received in ([b"abc"], [b"<1>b"])
            assert frames.too_long == 1


def test_both_kinds_may_follow_each_other() -> None:
    received, _ = _feed(b"<1>a\n4 <1>b<1>c\n2024-01-01 no priority\n", [])
    assert received == [b"<1>a", b"<1>b", b"<1>c", b"2024-01-01 no priority"]


def test_message_of_several_lines_stays_one() -> None:
    assert _feed(b"10 <1>a\nb\tc\nd", [])[0] == [b"<1>a#012b\tc#012d"]
