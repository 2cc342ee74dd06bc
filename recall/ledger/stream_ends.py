"""Streams whose rows have expired before those of others, in the coverage of answers. No I/O."""

from collections.abc import Mapping
from dataclasses import replace

from archiver.times import Micros
from recall.query import find_tables_reached, tables_in
from recall.requests import Coverage, RecallQuestion, SqlQuestion


def find_streams_read(question: SqlQuestion) -> frozenset[str]:
    """The declared streams that a question reads, through derived streams too."""
    reached = find_tables_reached(tables_in(question.sql), question.derived)
    return reached.intersection(question.streams)


def add_stream_ends(
    coverage: Coverage, question: RecallQuestion, ends: Mapping[str, Micros]
) -> Coverage:
    """The coverage with the streams that ended within the range that was asked for.

    `ends`: by stream, the event time before which its rows have expired.
    """
    if not ends or not isinstance(question, SqlQuestion):
        return coverage
    asked_from = coverage.asked_from
    ended: dict[str, Micros] = {}
    for stream in sorted(find_streams_read(question) & ends.keys()):
        if asked_from is None or asked_from < ends[stream]:
            ended[stream] = ends[stream]
    is_cut = bool(ended) and question.is_bounded
    return replace(coverage, ended=ended, partial=coverage.partial or is_cut)
