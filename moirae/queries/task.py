"""The task of an ad-hoc query, and who works on it."""

import hashlib
from collections.abc import Iterable
from uuid import uuid4

import sql
from archiver.clock import utc_now
from archiver.read import Reader
from archiver.times import Micros, to_micros
from recall.requests import AD_HOC_RULE, RecallEvent, RecallRequest, SqlQuestion
from sql.processes import ProcessGateway

_RECALL = "query"
_RECALL_ROLE = "recall"
# Statistics of files of other writers are truncated to milliseconds.
_MILLISECOND = 1_000  # microseconds


def make_request(question: SqlQuestion, reader: Reader) -> RecallRequest:
    """The request of a query over all that is archived. `reader`: of the archive."""
    event = RecallEvent(uuid4(), _end_of_archive(reader, question.streams), {}, {})
    # A version for each query: the limits that one exceeds do not stop others.
    version = hashlib.sha256(question.sql.encode()).hexdigest()[:16]
    return RecallRequest(AD_HOC_RULE, version, _RECALL, question, event, 0)


def has_recall_process(connection: sql.Connection) -> bool:
    """Whether a recall process of the workspace runs."""
    for process in ProcessGateway(connection).list_all():
        if process.alive and process.role.split(" ")[0] == _RECALL_ROLE:
            return True
    return False


def _end_of_archive(reader: Reader, streams: Iterable[str]) -> Micros:
    """An event time after all rows of some streams."""
    newest: list[Micros] = []
    for stream in streams:
        newest.extend(file.newest for file in reader.snapshot(stream).all_files)
    if not newest:
        return to_micros(utc_now())
    return max(newest) + _MILLISECOND
