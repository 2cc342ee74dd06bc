"""Source units that break their reader: which error is that of a unit, and which units must wait.

While a failed unit is tried again, later units of its stream wait: their rows decide which of its
rows are late. Other streams do not wait. A unit that is set aside holds nothing back.
"""

from collections.abc import Callable, Iterable, Sequence, Set
from datetime import datetime, timedelta
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import structlog
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

import sql
from archiver.clock import utc_now
from archiver.errors import ArchiverError, SourceUnreachable, TaskLost
from archiver.ingest import SourceUnit, find_open_error
from moirae.errors import MoiraeError, first_line
from moirae.live.set_aside import SetAside
from sql.archive import Subject, UnitGateway

_LOG = structlog.get_logger()

# A stream waits no longer than this after a failure, in case the failed unit never comes again.
_MAX_WAIT = timedelta(minutes=1)
_ENDED = "the live process ended while it was read"
_TRACEBACK = "Traceback (most recent call last):"


class UnitPlan(NamedTuple):
    """Units to be read now, in groups that are archived together, and units that wait."""

    groups: list[list[SourceUnit]]
    postponed: list[SourceUnit]


class UnitFailures:
    """The failed source units of the live process.

    `landed_names`: of a stream, the names of the batches in its landing folder. `now`: returns the
    wall-clock time.
    """

    def __init__(
        self,
        set_aside: SetAside,
        units: UnitGateway,
        landed_names: Callable[[str], Set[str]] = lambda _: frozenset(),
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self._set_aside = set_aside
        self._units = units
        self._landed_names = landed_names
        self._now = now
        self._suspects: set[Subject] = set()

    @property
    def has_failures(self) -> bool:
        """Whether the last try of any subject failed."""
        return bool(self._set_aside.list_failed())

    def plan(self, units: Iterable[SourceUnit]) -> UnitPlan:
        """Which units are read now; those of one stream stay in order.

        Streams with units that failed before are groups of their own, after the others.
        """
        ready: list[SourceUnit] = []
        postponed: list[SourceUnit] = []
        streams_of_suspects: set[str] = set()
        for unit in units:
            # Records of a topic are never postponed: what follows them would be lost.
            if unit.partition is not None or not self._is_suspect(subject_of(unit)):
                ready.append(unit)
            elif self._may_try(unit):
                streams_of_suspects.add(unit.stream)
                ready.append(unit)
            else:
                postponed.append(unit)
        together: list[SourceUnit] = []
        alone: dict[str, list[SourceUnit]] = {}
        for unit in ready:
            if unit.stream in streams_of_suspects:
                alone.setdefault(unit.stream, []).append(unit)
            elif unit.partition is None and self.is_waiting(unit.stream):
                postponed.append(unit)
            else:
                together.append(unit)
        groups = [together] if together else []
        for stream_units in alone.values():
            groups += self._separate_suspects(stream_units)
        return UnitPlan(groups, postponed)

    def select_readable(self, units: Iterable[SourceUnit]) -> list[SourceUnit]:
        """Those of some units that are to be read now: none that waits or is set aside."""
        return list(chain.from_iterable(self.plan(units).groups))

    def _may_try(self, unit: SourceUnit) -> bool:
        return self._set_aside.may_try(subject_of(unit), fingerprint(unit), self._now())

    def _is_suspect(self, subject: Subject) -> bool:
        return subject in self._suspects or self._set_aside.has_failed(subject)

    def _separate_suspects(self, units: Sequence[SourceUnit]) -> list[list[SourceUnit]]:
        """Units of a stream in order, in which each suspect is a group of its own."""
        groups: list[list[SourceUnit]] = []
        is_open = False
        for unit in units:
            is_suspect = self._is_suspect(subject_of(unit))
            if is_open and not is_suspect:
                groups[-1].append(unit)
            else:
                groups.append([unit])
            is_open = not is_suspect
        return groups

    def suspect_open_units(self) -> None:
        """The process has ended repeatedly: the units that it had begun may be why.

        Each of them is read alone, and counts as failed while it is read.
        """
        for row in self._units.list_unfinished():
            self._suspects.add(Subject("file", row.unit, row.stream))
        for failed in self._set_aside.list_failed():
            if failed.reason == _ENDED:
                self._suspects.add(failed.subject)

    def begin(self, units: Sequence[SourceUnit]) -> None:
        """Record that units are about to be read: if the process ends, a suspect has failed."""
        if len(units) != 1 or units[0].partition is not None:
            return
        (unit,) = units
        if subject_of(unit) in self._suspects:
            self._set_aside.record_failure(subject_of(unit), _ENDED, fingerprint(unit), self._now())

    def is_waiting(self, stream: str) -> bool:
        """Whether a stream waits for the next try of a unit that has failed."""
        now = self._now()
        for row in self._set_aside.list_failed():
            is_tried = row.kind == "file" and row.stream == stream and row.set_aside_at is None
            if is_tried and timedelta(0) <= now - row.last_failed_at < _MAX_WAIT:
                return True
        return False

    def is_set_aside(self, unit: SourceUnit) -> bool:
        """Whether a unit is set aside, and has not changed since."""
        subject = subject_of(unit)
        if not self._set_aside.has_failed(subject):
            return False
        return self._set_aside.is_set_aside(subject, fingerprint(unit))

    def record_failure(self, unit: SourceUnit, error: Exception) -> None:
        """Record that a unit cannot be read."""
        reason = describe_failure(error)
        self._set_aside.record_failure(subject_of(unit), reason, fingerprint(unit), self._now())

    def record_unopened(self, units: Iterable[SourceUnit]) -> None:
        """Record the files of some units that cannot be opened: together, not one each minute."""
        for unit in units:
            if isinstance(unit.path, Path) and self._may_try(unit):
                error = find_open_error(unit.path)
                if error is not None:
                    self.record_failure(unit, error)

    def record_listing(self, stream: str, problem: str | None) -> bool:
        """Record why files of a stream cannot be listed; None: they can.

        Returns whether the stream is set aside for it. Its other folders are read meanwhile.
        """
        subject = Subject("stream", stream)
        if problem is None:
            if self._set_aside.has_failed(subject):
                self._set_aside.record_success(subject)
                _LOG.info("files can be listed again", action="listing_recovered", stream=stream)
            return False
        if self._set_aside.may_try(subject, problem, self._now()):
            self._set_aside.record_failure(subject, problem, problem, self._now())
        return self._set_aside.is_set_aside(subject, problem)

    def forget_missing(self, stream: str, names: Set[str]) -> None:
        """Forget the failed units of a stream that are not there any more.

        `names`: of its unread files. Batches in its landing folder are kept, too.
        """
        failed_names = {
            row.name
            for row in self._set_aside.list_failed()
            if row.kind == "file" and row.stream == stream
        }
        missing = failed_names - names
        if missing:
            missing -= self._landed_names(stream)
        for name in sorted(missing):
            self._forget(Subject("file", name, stream))

    def forget(self, units: Iterable[SourceUnit]) -> None:
        """Forget units whose file is gone."""
        for unit in units:
            if self._set_aside.has_failed(subject_of(unit)):
                self._forget(subject_of(unit))

    def _forget(self, subject: Subject) -> None:
        self._set_aside.record_success(subject)
        _LOG.info(
            "failed file is gone",
            action="failed_file_gone",
            stream=subject.stream,
            name=subject.name,
        )

    def record_read(self, units: Iterable[SourceUnit]) -> None:
        """Record that units were archived; log those that had failed, with their late rows."""
        for unit in units:
            subject = subject_of(unit)
            self._suspects.discard(subject)
            if not self._set_aside.has_failed(subject):
                continue
            self._set_aside.record_success(subject)
            for counts in self._units.list_counts(unit.stream, [unit.name]):
                _LOG.info(
                    "read after failed tries; late rows cause no alert",
                    action="read_again",
                    stream=unit.stream,
                    name=unit.name,
                    records=counts.read,
                    late_rows=counts.late,
                )


def split_units(units: Sequence[SourceUnit]) -> list[Sequence[SourceUnit]]:
    """Parts of a group that failed: by stream, else two halves. Their order stays."""
    by_stream: dict[str, list[SourceUnit]] = {}
    for unit in units:
        by_stream.setdefault(unit.stream, []).append(unit)
    if len(by_stream) > 1:
        return list(by_stream.values())
    middle = len(units) // 2
    return [units[:middle], units[middle:]]


def subject_of(unit: SourceUnit) -> Subject:
    """A unit as a subject of failures. Batches of landing folders are files, too."""
    return Subject("file", unit.name, unit.stream)


def fingerprint(unit: SourceUnit) -> str:
    """A text that differs once the file of a unit has changed."""
    if isinstance(unit.path, Path):
        try:
            status = unit.path.stat()
        except OSError as error:
            return f"{error.errno}"
        return f"{status.st_size} {status.st_mtime_ns} {status.st_ctime_ns} {status.st_ino}"
    return f"{unit.size}"


def is_unit_failure(error: Exception) -> bool:
    """Whether an error of archiving is that of a source unit; else the process must not go on.

    Errors of the database, of storage, of a table's log or data files, and of Spark itself are not.
    Errors of the operating system come from writing: those of reading were translated.
    """
    if isinstance(error, SourceUnreachable | TaskLost | sql.DataError):
        return True
    if isinstance(error, Py4JJavaError | PySparkException):
        return _TRACEBACK in str(error)  # of a task in Python
    return not isinstance(
        error, ArchiverError | MoiraeError | sql.DatabaseError | OSError | Py4JError
    )


def describe_failure(error: Exception) -> str:
    """The reason of a failure in one line, without a trace of Python or Java."""
    text = str(error)
    if _TRACEBACK in text:
        return _last_exception(text.rpartition(_TRACEBACK)[2])
    if isinstance(error, ArchiverError):
        return text
    message = first_line(error)
    name = type(error).__name__
    return message if message == name else f"{name}: {message}"


def _last_exception(traceback: str) -> str:
    """The line of a traceback after its frames, which are indented."""
    for line in traceback.splitlines():
        if line and not line[0].isspace():
            return line
    return "unknown error"
